package caddymodule

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddypki"

	"github.com/purserpay/purser/internal/atomicfile"
)

const (
	// authorityID names purser's authority among those of Caddy. It is not Caddy's "local"
	// one: a program that trusts the proxy need not trust what else Caddy signs.
	authorityID = "purser"
	// rootPath serves the root, rootFile keeps it in the data directory.
	rootPath = "/ca.crt"
	rootFile = "ca.crt"
	// rootMode: the root is there to be read by programs of all users.
	rootMode = 0o644
)

// authority is the certificate authority that opens HTTPS on the way. Root and keys are in
// Caddy's storage, and outlive reloads there.
type authority struct{ ca *caddypki.CA }

// newAuthority loads the authority, or makes it. That is done when purser starts, and not
// when its configuration is read, so that validating one writes no root. An authority
// "purser" that the configuration has in Caddy's PKI app is used; otherwise there is one
// with Caddy's defaults, which touches no system's trust store.
func newAuthority(ctx caddy.Context) (*authority, error) {
	if app, err := ctx.AppIfConfigured("pki"); err == nil {
		if ca, err := app.(*caddypki.PKI).GetCA(ctx, authorityID); err == nil {
			return &authority{ca: ca}, nil
		}
	}
	if err := mendAuthority(ctx, ctx.Storage()); err != nil {
		return nil, fmt.Errorf("interception: %w", err)
	}
	install := false
	ca := &caddypki.CA{Name: authorityID, InstallTrust: &install}
	app := &caddypki.PKI{CAs: map[string]*caddypki.CA{authorityID: ca}}
	if err := app.Provision(ctx); err != nil {
		return nil, fmt.Errorf("interception: %w", err)
	}
	// From here on it renews its intermediate certificate, until the configuration ends.
	if err := app.Start(); err != nil {
		return nil, fmt.Errorf("interception: %w", err)
	}
	return &authority{ca: ca}, nil
}

// files are Caddy's storage.
type files interface {
	Load(ctx context.Context, key string) ([]byte, error)
	Delete(ctx context.Context, key string) error
	Exists(ctx context.Context, key string) bool
}

// mendAuthority removes what a process left behind that ended while it was making certificates:
// a certificate is stored before its key, and one without it, or with the one before, would keep
// purser from ever starting again. The intermediate is then made anew, under the same root. A
// root without its key is given up only as long as nothing was ever signed with it.
func mendAuthority(ctx context.Context, storage files) error {
	const folder = "pki/authorities/" + authorityID + "/"
	certificate, err := storage.Load(ctx, folder+"intermediate.crt")
	if errors.Is(err, fs.ErrNotExist) {
		if storage.Exists(ctx, folder+"root.crt") && !storage.Exists(ctx, folder+"root.key") {
			return storage.Delete(ctx, folder+"root.crt")
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("intermediate certificate: %w", err)
	}
	key, err := storage.Load(ctx, folder+"intermediate.key")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("intermediate key: %w", err)
	}
	if err == nil {
		if _, err = tls.X509KeyPair(certificate, key); err == nil {
			return nil
		}
	}
	return storage.Delete(ctx, folder+"intermediate.crt")
}

// issuer returns the certificate and key that sign now. It must be asked for each time: the
// intermediate certificate lives for days.
func (a *authority) issuer() ([]*x509.Certificate, crypto.Signer, error) {
	return a.ca.IntermediateCertificateChain(), a.ca.IntermediateKey(), nil
}

// root is the root certificate in PEM.
func (a *authority) root() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.ca.RootCertificate().Raw})
}

// export writes the root into the data directory unless it is there.
func (a *authority) export(dataDir string) error {
	path, root := filepath.Join(dataDir, rootFile), a.root()
	if have, err := os.ReadFile(path); err == nil && string(have) == string(root) {
		return nil
	}
	return atomicfile.Write(path, root, rootMode)
}

// publish serves the root to every client: it is not secret, and a program needs it before it can use
// the proxy.
func (a *authority) publish(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != rootPath || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(a.root())
	})
}
