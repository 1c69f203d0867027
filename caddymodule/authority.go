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
	"sync"

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

// authority is the certificate authority that opens HTTPS on the way. Roots and keys are in
// Caddy's storage, and outlive reloads there. While it is rotated, there are two: programs get the
// roots of both, and the first one signs.
type authority struct {
	ctx     caddy.Context
	storage files
	// given: the configuration has an authority of its own, which purser does not rotate.
	given bool

	mu            sync.RWMutex
	signing, next *caddypki.CA // next is nil while there is one
	ids           generations
}

// newAuthority loads the authority, or makes it. That is done when purser starts, and not
// when its configuration is read, so that validating one writes no root. An authority
// "purser" that the configuration has in Caddy's PKI app is used; otherwise there is one
// with Caddy's defaults, which touches no system's trust store.
func newAuthority(ctx caddy.Context) (*authority, error) {
	if app, err := ctx.AppIfConfigured("pki"); err == nil {
		if ca, err := app.(*caddypki.PKI).GetCA(ctx, authorityID); err == nil {
			return &authority{signing: ca, given: true}, nil
		}
	}
	a := &authority{ctx: ctx, storage: ctx.Storage()}
	var err error
	if a.ids, err = readGenerations(ctx, a.storage); err == nil {
		a.signing, err = a.provision(a.ids.Signing)
	}
	if err == nil && a.ids.Next != "" {
		a.next, err = a.provision(a.ids.Next)
	}
	if err != nil {
		return nil, fmt.Errorf("interception: %w", err)
	}
	return a, nil
}

// provision loads or makes one generation of the authority. From then on it renews its intermediate
// certificate, until the configuration ends.
func (a *authority) provision(id string) (*caddypki.CA, error) {
	if err := mendAuthority(a.ctx, a.storage, id); err != nil {
		return nil, err
	}
	install := false
	ca := &caddypki.CA{Name: id, InstallTrust: &install}
	app := &caddypki.PKI{CAs: map[string]*caddypki.CA{id: ca}}
	if err := app.Provision(a.ctx); err != nil {
		return nil, err
	}
	return ca, app.Start()
}

// files are Caddy's storage.
type files interface {
	Load(ctx context.Context, key string) ([]byte, error)
	Store(ctx context.Context, key string, value []byte) error
	Delete(ctx context.Context, key string) error
	Exists(ctx context.Context, key string) bool
}

// mendAuthority removes what a process left behind that ended while it was making certificates:
// a certificate is stored before its key, and one without it, or with the one before, would keep
// purser from ever starting again. The intermediate is then made anew, under the same root. A
// root without its key is given up only as long as nothing was ever signed with it.
func mendAuthority(ctx context.Context, storage files, id string) error {
	folder := authorityFolder(id)
	certificate, err := storage.Load(ctx, folder+"/intermediate.crt")
	if errors.Is(err, fs.ErrNotExist) {
		if storage.Exists(ctx, folder+"/root.crt") && !storage.Exists(ctx, folder+"/root.key") {
			return storage.Delete(ctx, folder+"/root.crt")
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("intermediate certificate: %w", err)
	}
	key, err := storage.Load(ctx, folder+"/intermediate.key")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("intermediate key: %w", err)
	}
	if err == nil {
		if _, err = tls.X509KeyPair(certificate, key); err == nil {
			return nil
		}
	}
	return storage.Delete(ctx, folder+"/intermediate.crt")
}

// authorityFolder returns the folder of an authority in Caddy's storage.
func authorityFolder(id string) string { return "pki/authorities/" + id }

// issuer returns the certificate and key that sign now. It must be asked for each time: the
// intermediate certificate lives for days, and the authority may be rotated.
func (a *authority) issuer() ([]*x509.Certificate, crypto.Signer, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.signing.IntermediateCertificateChain(), a.signing.IntermediateKey(), nil
}

// root holds the root certificates in PEM, the one that signs first.
func (a *authority) root() []byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var roots []byte
	for _, ca := range []*caddypki.CA{a.signing, a.next} {
		if ca != nil {
			roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.RootCertificate().Raw})...)
		}
	}
	return roots
}

// export writes the roots into the data directory unless they are there.
func (a *authority) export(dataDir string) error {
	path, root := filepath.Join(dataDir, rootFile), a.root()
	if have, err := os.ReadFile(path); err == nil && string(have) == string(root) {
		return nil
	}
	return atomicfile.Write(path, root, rootMode)
}

// publish serves the roots to every client: they are not secret, and a program needs them before it can use
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
