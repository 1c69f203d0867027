package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The sellers' names. Only purser's dialer resolves them, by its configuration.
const (
	nameV2    = "v2.sellers.test"
	nameV1    = "v1.sellers.test"
	nameOther = "other.sellers.test"
)

// certificates holds the sellers' certificates as files, which Node, Caddy and purser read.
type certificates struct {
	root, chain, key string // paths
	leaf             tls.Certificate
	pool             *x509.CertPool
}

// newCertificates makes an authority, a certificate for all sellers, and the files.
func newCertificates(dir string) (*certificates, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the sellers' authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "the sellers"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{nameV2, nameV1, nameOther}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, root, leafKey.Public(), rootKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		return nil, err
	}
	c := &certificates{
		root: filepath.Join(dir, "sellers-root.pem"), chain: filepath.Join(dir, "sellers.pem"), key: filepath.Join(dir, "sellers-key.pem"),
		leaf: tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey},
		pool: x509.NewCertPool(),
	}
	for path, block := range map[string]*pem.Block{
		c.root: {Type: "CERTIFICATE", Bytes: rootDER}, c.chain: {Type: "CERTIFICATE", Bytes: leafDER}, c.key: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	c.pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}))
	return c, nil
}

// site is a server of the test's own, over http and, with HTTP/2, over https.
type site struct {
	http, https string // by name
	plain, tls  string // by address
}

// url is the site's by scheme.
func (s site) url(scheme string) string {
	if scheme == "https" {
		return s.https
	}
	return s.http
}

// startSite serves a handler under a name.
func startSite(t *testing.T, name string, handler http.Handler) site {
	t.Helper()
	plain := httptest.NewServer(handler)
	over := httptest.NewUnstartedServer(handler)
	over.EnableHTTP2 = true
	over.TLS = &tls.Config{Certificates: []tls.Certificate{env.certificates.leaf}}
	over.StartTLS()
	for _, server := range []*httptest.Server{plain, over} {
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
	}
	return site{named(t, plain.URL, name), named(t, over.URL, name), plain.URL, over.URL}
}

// named is a URL with another host name.
func named(t *testing.T, raw, name string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = net.JoinHostPort(name, u.Port())
	return u.String()
}
