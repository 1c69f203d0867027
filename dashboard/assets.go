package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
)

//go:embed assets/app.css assets/app.js assets/htmx.js assets/icon.svg
var assetFiles embed.FS

// assets holds files whose names change with their content, so that browsers may keep them for ever.
type assets struct {
	texts map[string][]byte // by the name in the URL
	paths map[string]string // from "app.css" to its URL
}

func loadAssets() assets {
	a := assets{texts: map[string][]byte{}, paths: map[string]string{}}
	entries, _ := assetFiles.ReadDir("assets") // embedded files can be read
	for _, e := range entries {
		text, _ := assetFiles.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(text)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.texts[name] = text
		a.paths[e.Name()] = session.Assets + name
	}
	return a
}

// path returns the URL of an asset. A template that names an unknown one fails.
func (a assets) path(name string) (string, error) {
	p, ok := a.paths[name]
	if !ok {
		return "", fmt.Errorf("no asset %q", name)
	}
	return p, nil
}

var kinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// ServeHTTP sends a file.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	text, ok := a.texts[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(text) // ignore a client that has left
}
