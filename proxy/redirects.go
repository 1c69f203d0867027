package proxy

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

const (
	// redirectTime is how long a client has to go where a paid answer led it.
	redirectTime = time.Minute
	// maxRedirects bounds the targets that are remembered for a key. A forgotten one is paid.
	maxRedirects = 64
)

// redirects remembers, for each key by itself, where the answers to payloads led. Clients
// follow redirects by themselves: a seller whose paid answers lead from one price to the next
// would be paid at each. Another 402 on the way is the answer to what was paid already.
type redirects struct {
	now   pay.Clock
	known *perclient.Memory[target, redirected] // by key
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

// from remembers where an answer leads, if it does.
func (r *redirects) from(keyID string, req *http.Request, resp *http.Response, paymentID string) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return
	}
	location := resp.Header.Get("Location")
	to, err := req.URL.Parse(location)
	if err != nil || location == "" {
		return
	}
	r.known.Set(keyID, targetOf(to), redirected{paymentID: paymentID, until: r.now().Add(redirectTime)})
}

// to returns the id of the payment whose answer led here, or "".
func (r *redirects) to(keyID string, u *url.URL) string {
	t := r.known.Get(keyID, targetOf(u))
	if !r.now().Before(t.until) {
		return ""
	}
	return t.paymentID
}

// arrived forgets a target that asks for no more money: the next request to it was not led there.
func (r *redirects) arrived(keyID string, u *url.URL) { r.known.Remove(keyID, targetOf(u)) }

// targetOf is the same for all ways to write where a request goes.
func targetOf(u *url.URL) target {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && scheme == "http" || port == "443" && scheme == "https" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return sha256.Sum256([]byte(scheme + "://" + host + u.RequestURI()))
}

// declineLed does not pay a 402 that the answer to a payment has led to.
func (t *Transport) declineLed(req *http.Request, call *Call, resp *http.Response, paymentID string) *http.Response {
	p, err := t.payer.Payment(req.Context(), call.Key, paymentID)
	if err != nil {
		return t.refuse(req, resp, err)
	}
	reason := afterSend(p)
	t.declined(reason)
	t.log.WarnContext(pay.WithPayment(req.Context(), p.ID), "402 where the answer to a payment led", "payment", p.ID, "host", req.URL.Host, "reason", reason)
	t.withhold(req, resp, p, reason)
	return resp
}
