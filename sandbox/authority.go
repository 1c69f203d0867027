package sandbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificateTime is the validity of a sandbox's certificates. It is longer than a sandbox runs.
const certificateTime = 90 * 24 * time.Hour

// authority is a certificate authority that signed one certificate. Its key is then discarded, so
// that a client that trusts it trusts only that certificate.
type authority struct {
	root *x509.Certificate
	leaf tls.Certificate
}

func newAuthority(name string) (*authority, error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	from := time.Now().Add(-time.Hour)
	rootTemplate := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "purser sandbox root"},
		NotBefore: from, NotAfter: from.Add(certificateTime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, rootTemplate, rootTemplate, rootKey.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	root, err := x509.ParseCertificate(rootDER)
	if err != nil {
		return nil, fmt.Errorf("make the authority: %w", err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the seller's key: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: from, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{name, "localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}, root, leafKey.Public(), rootKey)
	if err != nil {
		return nil, fmt.Errorf("make the seller's certificate: %w", err)
	}
	return &authority{root: root, leaf: tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}}, nil
}

// serial returns a random number of at most 127 bits.
func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // cannot fail
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

// pem returns the root for clients that must trust it.
func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.root.Raw})
}

// pool returns a pool with the root alone.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root)
	return pool
}
