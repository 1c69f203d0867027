package proxy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/protocol/mpp"
)

// newerCharges is a seller that wants the nonce of newer sellers, without a word of it in its challenges, while newer says
// so. Each realm has one of its own.
func newerCharges(t *testing.T, newer func(realm string) bool, realm func() string) *charges {
	t.Helper()
	s := newCharges(t, func(s *charges) {
		s.alter = func(h http.Header) {
			h.Set(mpp.HeaderChallenge, strings.ReplaceAll(h.Get(mpp.HeaderChallenge), `realm="shop.test"`, fmt.Sprintf("realm=%q", realm())))
		}
	})
	s.paid = func(w http.ResponseWriter, transaction func() string, n int) {
		var c struct {
			Challenge struct{ ID, Realm string }
			Payload   struct{ Nonce string }
		}
		s.mu.Lock()
		text := strings.TrimPrefix(s.sent[n-1].Get(mpp.HeaderCredential), "Payment ")
		s.mu.Unlock()
		plain, _ := base64.RawURLEncoding.DecodeString(text)
		if err := json.Unmarshal(plain, &c); err != nil {
			t.Error(err)
		}
		if newer(c.Challenge.Realm) == (c.Payload.Nonce == listNonce(c.Challenge.ID, c.Challenge.Realm).String()) {
			s.deliver(w, transaction())
			return
		}
		w.Header().Set("Content-Type", "application/problem+json")
		s.ask(w)
		_, _ = io.WriteString(w, `{"type":"https://paymentauth.org/problems/verification-failed","title":"Verification Failed","status":402,"detail":"Payment verification failed: EVM authorization challenge hash mismatch."}`)
	}
	return s
}

// A seller refuses a credential because of its nonce's form. The next purchase has the other form, and the refused one keeps
// its credential.
func TestSellerWantsTheOtherNonce(t *testing.T) {
	t.Parallel()
	newer, at := true, "shop.test"
	s := newerCharges(t, func(realm string) bool { return newer && realm == "shop.test" }, func() string { return at })
	w := s.world()
	if a := w.get(s.URL + "/a"); a.StatusCode != http.StatusPaymentRequired || payable(a) {
		t.Fatal(a.StatusCode, a.Text)
	}
	s.expect(3, 1, 0)
	for n, path := range []string{"/b", "/c"} {
		if a := w.get(s.URL + path); a.StatusCode != http.StatusOK {
			t.Fatal(path, a.StatusCode, a.Text)
		}
		s.expect(4+n, 2+n, 1+n)
	}
	if a := w.get(s.URL + "/a"); a.StatusCode != http.StatusPaymentRequired || payable(a) {
		t.Fatal(a.StatusCode, a.Text)
	}
	s.expect(8, 3, 2)
	at = "other.test" // behind the same host, with the nonce of older sellers
	if a := w.get(s.URL + "/d"); a.StatusCode != http.StatusOK {
		t.Fatal(a.StatusCode, a.Text)
	}
	newer, at = false, "shop.test" // it goes back to an older version
	w.get(s.URL + "/e")
	if a := w.get(s.URL + "/f"); a.StatusCode != http.StatusOK {
		t.Fatal(a.StatusCode, a.Text)
	}
	s.expect(8+1+3+1, 6, 4)
	if n := len(w.Payments()); n != 6 {
		t.Errorf("%d payments", n)
	}
}

// Another host that gives itself the same realm is paid in its own form, whatever this one has refused.
func TestOtherNonceIsOfOneHost(t *testing.T) {
	t.Parallel()
	realm := func() string { return "shop.test" }
	newer := newerCharges(t, func(string) bool { return true }, realm)
	older := newerCharges(t, func(string) bool { return false }, realm)
	w := newer.world()
	for range 2 {
		if a := w.get(newer.URL + "/a"); a.StatusCode != http.StatusPaymentRequired || payable(a) {
			t.Fatal(a.StatusCode, a.Text)
		}
	}
	if a := w.get(older.URL + "/a"); a.StatusCode != http.StatusOK {
		t.Fatal(a.StatusCode, a.Text)
	}
	older.expect(1, 1, 1)
}
