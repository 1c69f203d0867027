package proxy

import (
	"net/http"
	"slices"
	"testing"

	"github.com/purserpay/purser/proxy/proxytest"
)

// The client's cache may keep what the seller lets it keep; a shared cache keeps nothing.
func TestPaidAnswersAndCaches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, "private"},
		{[]string{"private, max-age=60"}, "private, max-age=60"},
		{[]string{"Public", "max-age=60, S-MaxAge = 600"}, "private, max-age=60"},
		{[]string{"no-store"}, "private, no-store"},
		{[]string{"max-age=0,must-revalidate,proxy-revalidate"}, "private, max-age=0, must-revalidate"},
		{[]string{`private="set-cookie, x", no-cache="a,\"b", immutable`}, `private, no-cache="a,\"b", immutable`},
		{[]string{`public="`, "max-age=60"}, "private, no-store"},
		{[]string{" ,, "}, "private"},
	} {
		h := http.Header{
			"Cache-Control": slices.Clone(c.given), "Surrogate-Control": {"max-age=9"}, "Cdn-Cache-Control": {"max-age=9"},
			"X-Accel-Expires": {"9"}, "Edge-Control": {"max-age=9"},
		}
		if keepPrivate(h); len(h) != 1 || h.Get("Cache-Control") != c.want {
			t.Errorf("%q becomes %v, want %q", c.given, h, c.want)
		}
	}
}

// An answer that leaves a payment open must not be in the client's cache: its repeat gets the payment.
func TestUnfinishedAnswersAreNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	status := http.StatusOK
	s := proxytest.NewSeller(t, func(s *proxytest.Seller) {
		s.Paid = func(rw http.ResponseWriter, _ *http.Request, n int) {
			rw.Header().Set("Cache-Control", "public, max-age=60")
			if status == http.StatusOK {
				s.Receipt(rw, n)
			}
			rw.WriteHeader(status)
		}
	})
	for _, c := range []struct {
		status int
		want   string
	}{{http.StatusOK, "private, max-age=60"}, {http.StatusNotFound, "private, no-store"}, {http.StatusPaymentRequired, "private, no-store"}} {
		status = c.status
		if a := w.get(s.URL + "/" + http.StatusText(c.status)); a.StatusCode != c.status || a.Header.Get("Cache-Control") != c.want {
			t.Errorf("%d: %q", a.StatusCode, a.Header.Get("Cache-Control"))
		}
	}
}
