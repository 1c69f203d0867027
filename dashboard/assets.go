package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets/app.css assets/app.js assets/htmx.js assets/icon.svg
var assetFiles embed.FS

// asset is a file whose name changes with its content, so that browsers may keep it for ever.
type asset struct {
	kind          string // Content-Type
	plain, zipped []byte
}

type assets struct {
	named map[string]asset  // by the name in the URL
	paths map[string]string // from "app.css" to its URL
}

// loadAssets reads and compresses the embedded files.
func loadAssets() (assets, error) {
	a := assets{named: map[string]asset{}, paths: map[string]string{}}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		return a, fmt.Errorf("dashboard: %w", err)
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	for _, e := range entries {
		text, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			return a, fmt.Errorf("dashboard: %w", err)
		}
		zipped, err := zip(text, gzip.BestCompression)
		if err != nil {
			return a, err
		}
		sum := sha256.Sum256(text)
		ext := path.Ext(e.Name())
		name := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:6]) + ext
		a.named[name] = asset{kind: kinds[ext], plain: text, zipped: zipped}
		a.paths[e.Name()] = "/dashboard/assets/" + name
	}
	return a, nil
}

// ServeHTTP sends a file. Its name depends on its content, so it is never stale.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a.named[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	send(w, r, http.StatusOK, f.plain, f.zipped)
}

// send writes a body, compressed if the client accepts that.
func send(w http.ResponseWriter, r *http.Request, status int, plain, zipped []byte) {
	h := w.Header()
	if zipped != nil {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r) && len(zipped) < len(plain) {
			h.Set("Content-Encoding", "gzip")
			plain = zipped
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(plain)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(plain) // ignore a client that has left
	}
}

// acceptsGzip reads Accept-Encoding (RFC 9110 §12.5.3) as browsers write it.
func acceptsGzip(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept-Encoding") {
		for part := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				q := strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
				return strings.Trim(q, "0.") != "" || q == ""
			}
		}
	}
	return false
}

func zip(text []byte, level int) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	if _, err = z.Write(text); err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return b.Bytes(), nil
}
