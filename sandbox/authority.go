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
	"net"
	"time"
)

// certificateTime is the validity of a sandbox's certificates. It is longer than a sandbox runs.
const certificateTime = 90 * 24 * time.Hour

// newCertificate makes a certificate for the TLS seller, and the root that signed it, as PEM. The
// root's key is discarded, so a client that trusts the root trusts only that certificate.
func newCertificate() (root []byte, leaf tls.Certificate, err error) {
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, leaf, fmt.Errorf("make the authority's key: %w", err)
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, leaf, fmt.Errorf("make the seller's key: %w", err)
	}
	from := time.Now().Add(-time.Hour)
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "purser sandbox root"}, NotBefore: from, NotAfter: from.Add(certificateTime),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, authority, authority, rootKey.Public(), rootKey)
	if err != nil {
		return nil, leaf, fmt.Errorf("make the authority: %w", err)
	}
	if authority, err = x509.ParseCertificate(rootDER); err != nil {
		return nil, leaf, fmt.Errorf("make the authority: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: SellerTLSName}, NotBefore: from, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{SellerTLSName, "localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}, authority, leafKey.Public(), rootKey)
	if err != nil {
		return nil, leaf, fmt.Errorf("make the seller's certificate: %w", err)
	}
	root = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return root, tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}, nil
}
