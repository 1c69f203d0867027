package forward

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
)

const (
	leafLife     = 24 * time.Hour
	leafBackdate = time.Hour // for clients whose clocks are behind
	leafSpare    = 5 * time.Minute
	maxLeaves    = 1000
	maxName      = 64 // of a subject's common name (RFC 5280, appendix A)
)

// Minter makes certificates for intercepted hosts, and remembers the last ones. Its authority may
// renew the signing certificate at any time. It is safe for concurrent use.
type Minter struct {
	authority func() ([]*x509.Certificate, crypto.Signer, error)
	now       func() time.Time
	key       func() (*ecdsa.PrivateKey, error) // of all leaves

	leaves *lru.Cache[leafName, *tls.Certificate]
}

// leafName identifies a leaf that is kept. A renewed signer makes another one.
type leafName struct{ host, signer string }

// NewMinter makes a Minter. authority is asked for each certificate; it gives the signing
// certificate, followed by those that lead to the root, and the signing certificate's key.
func NewMinter(authority func() (chain []*x509.Certificate, key crypto.Signer, err error)) *Minter {
	return &Minter{
		authority: authority, now: time.Now,
		key: sync.OnceValues(func() (*ecdsa.PrivateKey, error) {
			return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		}),
		leaves: perclient.NewCache[leafName, *tls.Certificate](maxLeaves),
	}
}

// Leaf returns a certificate for a host, a name or an address in ASCII, with its chain. It is
// valid for a day at most, and not longer than its signer. It fits [Interception].Leaf.
func (m *Minter) Leaf(_ context.Context, host string) (*tls.Certificate, error) {
	chain, key, err := m.signer()
	if err != nil {
		return nil, err
	}
	name := leafName{host, string(chain[0].RawIssuer) + chain[0].SerialNumber.String()}
	cert, ok := m.leaves.Get(name)
	if ok && m.now().Add(leafSpare).Before(cert.Leaf.NotAfter) {
		return cert, nil
	}
	cert, err = m.mint(host, chain, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for %s: %w", host, err)
	}
	m.leaves.Add(name, cert)
	return cert, nil
}

var errSigner = errors.New("the signing certificate and its key do not belong together")

// signer asks the authority. A renewal between the answers for certificate and key shows
// in a pair that does not match, and then is over.
func (m *Minter) signer() ([]*x509.Certificate, crypto.Signer, error) {
	for range 2 {
		chain, key, err := m.authority()
		if err != nil {
			return nil, nil, fmt.Errorf("asking the certificate authority: %w", err)
		}
		if len(chain) == 0 || key == nil {
			return nil, nil, errors.New("the certificate authority has no signing certificate")
		}
		public, ok := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
		if ok && public.Equal(key.Public()) {
			return chain, key, nil
		}
	}
	return nil, nil, errSigner
}

func (m *Minter) mint(host string, chain []*x509.Certificate, signer crypto.Signer) (*tls.Certificate, error) {
	key, err := m.key()
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := m.now()
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-leafBackdate), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, c := range chain {
		if c.NotAfter.Before(template.NotAfter) {
			template.NotAfter = c.NotAfter
		}
	}
	if !template.NotAfter.After(now) {
		return nil, fmt.Errorf("the signing certificate expired on %s", template.NotAfter.UTC().Format(time.RFC3339))
	}
	if len(host) <= maxName {
		template.Subject = pkix.Name{CommonName: host}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, chain[0], key.Public(), signer)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}
	for _, c := range chain {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}
