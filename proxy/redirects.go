package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
)

const (
	// redirectTime is how long a client has to go where a paid answer led it.
	redirectTime = time.Minute
	// maxRedirects bounds the targets that are remembered for a key, maxRedirectKeys the keys.
	// What is forgotten is paid.
	maxRedirects    = 256
	maxRedirectKeys = 10_000
)

// redirects remembers, for each key by itself, where the answers to payloads led. Clients
// follow redirects by themselves: a seller whose paid answers lead from one price to the next
// would be paid at each. Another 402 on the way is the answer to what was paid already.
type redirects struct {
	now pay.Clock

	mu    sync.Mutex
	known map[string]map[string]redirected // by key and target
}

type redirected struct {
	by    *pay.Payment
	until time.Time
}

func newRedirects(now pay.Clock) *redirects {
	return &redirects{now: now, known: make(map[string]map[string]redirected)}
}

// from remembers where an answer leads, if it does.
func (r *redirects) from(keyID string, req *http.Request, resp *http.Response, by *pay.Payment) {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return
	}
	target, err := req.URL.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	targets := r.known[keyID]
	if targets == nil {
		if len(r.known) >= maxRedirectKeys {
			clear(r.known)
		}
		targets = make(map[string]redirected)
		r.known[keyID] = targets
	}
	if len(targets) >= maxRedirects {
		for name, t := range targets {
			if !now.Before(t.until) {
				delete(targets, name)
			}
		}
		if len(targets) >= maxRedirects {
			clear(targets)
		}
	}
	targets[targetName(target)] = redirected{by: by, until: now.Add(redirectTime)}
}

// to is the payment whose answer led here, or nil.
func (r *redirects) to(keyID string, u *url.URL) *pay.Payment {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.known[keyID][targetName(u)]
	if !ok || !r.now().Before(t.until) {
		return nil
	}
	return t.by
}

// arrived forgets a target that asks for no more money: who comes next was not led there.
func (r *redirects) arrived(keyID string, u *url.URL) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known[keyID], targetName(u))
	if len(r.known[keyID]) == 0 {
		delete(r.known, keyID)
	}
}

// targetName is the same for all ways to write where a request goes.
func targetName(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := u.Port(); port == "80" && scheme == "http" || port == "443" && scheme == "https" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return scheme + "://" + host + u.RequestURI()
}

// declineLed does not pay a 402 that the answer to a payment has led to.
func (t *Transport) declineLed(req *http.Request, call *Call, resp *http.Response, by *pay.Payment) *http.Response {
	if p, err := t.payer.Payment(req.Context(), call.Key, by.ID); err == nil {
		by = p // as it is by now
	}
	reason := afterSend(by)
	t.declined(reason)
	t.log.WarnContext(pay.WithPayment(req.Context(), by.ID), "402 where the answer to a payment led", "payment", by.ID, "host", req.URL.Host, "reason", reason)
	t.withhold(req, resp, by, reason)
	return resp
}
