package forward

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMinter(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	m := NewMinter(a.current)
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example"
	for _, host := range []string{"shop.example", "xn--bcher-kva.example", "under_score.example", "127.0.0.1", "2001:db8::1", long} {
		cert, err := m.Leaf(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		between := x509.NewCertPool()
		between.AddCert(a.signer)
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: a.pool(), Intermediates: between}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if cn := cert.Leaf.Subject.CommonName; cn != host && host != long || host == long && cn != "" {
			t.Errorf("%s: subject %q", host, cn)
		}
		if len(cert.Certificate) != 2 || !bytes.Equal(cert.Certificate[1], a.signer.Raw) || cert.Leaf.IsCA {
			t.Errorf("%s: a chain of %d", host, len(cert.Certificate))
		}
		if life := time.Until(cert.Leaf.NotAfter); life > 24*time.Hour || life < 23*time.Hour {
			t.Errorf("%s: valid for %s", host, life)
		}
		if since := time.Since(cert.Leaf.NotBefore); since < 59*time.Minute || since > 61*time.Minute {
			t.Errorf("%s: valid since %s", host, since)
		}
		again, err := m.Leaf(t.Context(), host)
		if err != nil || again != cert {
			t.Errorf("%s is made again: %v", host, err)
		}
	}
}

func TestMinterFollowsItsAuthority(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	m := NewMinter(a.current)
	first, err := m.Leaf(t.Context(), "shop.example")
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(2 * time.Hour).Truncate(time.Second)
	a.renew(3, until)
	second, err := m.Leaf(t.Context(), "shop.example")
	if err != nil || second == first || !bytes.Equal(second.Certificate[1], a.signer.Raw) {
		t.Fatalf("after a renewal: %v", err)
	}
	if !second.Leaf.NotAfter.Equal(until) {
		t.Errorf("outlives its signer: %s", second.Leaf.NotAfter)
	}
	m.now = func() time.Time { return until.Add(-leafSpare) }
	if third, err := m.Leaf(t.Context(), "shop.example"); err != nil || third == second {
		t.Errorf("a leaf that is about to expire is used again: %v", err)
	}
	m.now = func() time.Time { return until }
	if _, err := m.Leaf(t.Context(), "shop.example"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("signed by an expired certificate: %v", err)
	}
}

func TestMinterMeetsARenewal(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ours")
	old := a.key
	a.renew(3, time.Now().Add(time.Hour))
	asked := 0
	torn := 1
	m := NewMinter(func() ([]*x509.Certificate, crypto.Signer, error) {
		if asked++; asked <= torn {
			return []*x509.Certificate{a.signer}, old, nil
		}
		return a.current()
	})
	if _, err := m.Leaf(t.Context(), "shop.example"); err != nil || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	asked, torn = 0, 9
	if _, err := m.Leaf(t.Context(), "other.example"); !errors.Is(err, errSigner) || asked != 2 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	failing := errors.New("no storage")
	for _, m := range []*Minter{
		NewMinter(func() ([]*x509.Certificate, crypto.Signer, error) { return nil, nil, failing }),
		NewMinter(func() ([]*x509.Certificate, crypto.Signer, error) { return nil, old, nil }),
		NewMinter(func() ([]*x509.Certificate, crypto.Signer, error) { return []*x509.Certificate{a.signer}, nil, nil }),
	} {
		if cert, err := m.Leaf(t.Context(), "shop.example"); err == nil {
			t.Errorf("%v", cert)
		}
	}
}

func TestMinterForgets(t *testing.T) {
	t.Parallel()
	m := NewMinter(newAuthority(t, "ours").current)
	leaf := func(i int) *tls.Certificate {
		cert, err := m.Leaf(context.Background(), fmt.Sprintf("h%d.example", i))
		if err != nil {
			t.Error(err)
		}
		return cert
	}
	kept, lost := leaf(0), leaf(1)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := 2 + g; i < maxLeaves+2; i += 4 {
				leaf(i)
				if i%100 < 4 {
					leaf(0)
				}
			}
		})
	}
	all.Wait()
	if n := m.leaves.Len(); n != maxLeaves {
		t.Errorf("%d leaves", n)
	}
	if leaf(0) != kept {
		t.Error("the one that was used is forgotten")
	}
	if leaf(1) == lost {
		t.Error("the one that was not is remembered")
	}
}
