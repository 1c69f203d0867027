package proxy

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

const (
	// redirectTime bounds how long a client has to follow the redirect of a paid answer.
	redirectTime = time.Minute
	// maxRedirects bounds the targets that are remembered for a key. A forgotten one is paid.
	maxRedirects = 64
)

// redirects remembers, for each key, the targets that answers to payloads led to. Clients follow
// redirects by themselves: a seller whose paid answers lead from one price to the next would be
// paid at each. Another 402 on the way is the answer to the payment that was made.
type redirects struct {
	now   pay.Clock
	known *perclient.Memory[target, redirected] // by key
	any   atomic.Bool                           // something was remembered once: without it, no request needs a hash and the lock
}

// target is a hash of a URL, which may be long.
type target [sha256.Size]byte

type redirected struct {
	paymentID string
	until     time.Time
}

func newRedirects(now pay.Clock) *redirects {
	return &redirects{now: now, known: perclient.NewMemory[target, redirected](maxRedirects)}
}

// leadsTo returns the URL that an answer redirects to, nil if it does not.
func leadsTo(req *http.Request, resp *http.Response) *url.URL {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if location := resp.Header.Get("Location"); location != "" {
			to, _ := req.URL.Parse(location) // nil if it cannot be parsed
			return to
		}
	}
	return nil
}

// remember keeps the target that a payment's answer leads to. A nil target is none.
func (r *redirects) remember(keyID string, to *url.URL, paymentID string) {
	if to != nil {
		r.any.Store(true)
		r.known.Set(keyID, targetOf(to), redirected{paymentID: paymentID, until: r.now().Add(redirectTime)})
	}
}

// to returns the id of the payment whose answer led here, or "".
func (r *redirects) to(keyID string, u *url.URL) string {
	if !r.any.Load() {
		return ""
	}
	t := r.known.Get(keyID, targetOf(u))
	if !r.now().Before(t.until) {
		return ""
	}
	return t.paymentID
}

// arrived forgets a target that asks for no more money: the next request to it was not led there.
func (r *redirects) arrived(keyID string, u *url.URL) { r.known.Remove(keyID, targetOf(u)) }

// targetOf returns the same hash for all ways to write a URL.
func targetOf(u *url.URL) target {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && scheme == "http" || port == "443" && scheme == "https" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return sha256.Sum256([]byte(scheme + "://" + host + u.RequestURI()))
}
