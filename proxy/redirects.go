package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

const (
	// maxWays bounds the places that are remembered for a key. The store keeps their marks as well.
	maxWays = 128
	// maxBought bounds the URLs at which a key has bought. At a forgotten one it must ask as at a new one.
	maxBought = 128
	// maxWayMarks bounds the marks that the end of a way forgets. The others end with their time.
	maxWayMarks = 64
	// briefAnswer is the time within which the body of an answer may end without a second write.
	briefAnswer = time.Second
)

// redirects remembers, for each key, where answers to payments have led. Clients follow redirects by
// themselves: a seller whose paid answers lead from one price to the next would be paid at each.
// Another 402 on the way is the answer to the payment that was made. The rules are those of
// [pay.Redirects].
type redirects struct {
	payer  *pay.Payer
	log    *slog.Logger
	now    pay.Clock
	ways   *perclient.Memory[string, way]  // by key and mark
	bought *perclient.Memory[string, bool] // by key and mark of the URL
	any    atomic.Bool                     // a way was remembered once: without it, no request needs a hash and the lock
}

// way holds what is remembered of a place to which the answer to a payment has led.
type way struct {
	paymentID string // "" if another process has made the payment
	mark      pay.NoticeMark
	made      time.Time
	answer    *http.Response // the last one that has led here
	marks     []string       // of all places of the way so far
}

func (w way) known() bool { return !w.mark.Until.IsZero() }

func newRedirects(payer *pay.Payer, log *slog.Logger, now pay.Clock) *redirects {
	return &redirects{
		payer: payer, log: log, now: now,
		ways: perclient.NewMemory[string, way](maxWays), bought: perclient.NewMemory[string, bool](maxBought),
	}
}

// arrive notes when the call's request came, and whether the answer to a payment has led to it.
func (r *redirects) arrive(req *http.Request, call *Call) {
	if !call.arrived.IsZero() {
		return
	}
	call.arrived = r.now()
	if !r.any.Load() {
		return
	}
	w := r.ways.Get(call.Key.ID, targetMark(req, call))
	if w.mark.Leads(call.arrived) {
		call.led = w
	}
}

// place places a request that is to be paid.
func (r *redirects) place(req *http.Request, call *Call) *pay.Redirects {
	keyID, target := call.Key.ID, targetMark(req, call)
	return &pay.Redirects{
		Target: target, Site: pay.RedirectSite(keyID, siteOf(req.URL)), Arrived: call.arrived,
		Follows: slices.Contains([]string{http.MethodGet, http.MethodHead}, methodOf(req)) && call.IdempotencyKey == "",
		Known:   call.Anew || r.bought.Get(keyID, target),
		Own: func(mark string) (pay.NoticeMark, time.Time) {
			w := r.ways.Get(keyID, mark)
			return w.mark, w.made
		},
	}
}

// buys remembers that a key has bought at a place.
func (r *redirects) buys(keyID string, at *pay.Redirects) { r.bought.Set(keyID, at.Target, true) }

// answered looks at an answer for which nothing was paid. A redirect leads a way on. A delivery ends it,
// because the client has what it paid for.
func (r *redirects) answered(req *http.Request, call *Call, resp *http.Response) {
	w := call.led
	switch {
	case leads(resp):
		if !w.known() { // by another process, perhaps
			m, err := r.payer.RedirectMark(req.Context(), targetMark(req, call))
			if err != nil {
				r.log.WarnContext(req.Context(), "marks of redirects not read", "key", call.Key.ID, "error", err)
			}
			if !m.Leads(call.arrived) {
				return
			}
			w.mark = m
		}
		r.lead(req, call, resp, w.paymentID, w.mark.Count)
	case w.known() && resp.StatusCode >= 200 && resp.StatusCode < 300:
		onEnd(resp, func(complete bool) {
			if complete {
				r.end(req, call.Key.ID, w)
			}
		})
	}
}

// lead writes where an answer leads, and remembers it until its client must have followed: from the end of
// the answer's body.
func (r *redirects) lead(req *http.Request, call *Call, resp *http.Response, paymentID string, payments uint64) {
	keyID, base := call.Key.ID, call.clientURL(req)
	targets, delay := rewrite(resp, base, call.Client != nil)
	marks := []string{pay.RedirectSite(keyID, siteOf(req.URL))}
	for _, to := range targets {
		marks = append(marks, pay.RedirectTarget(keyID, placeOf(to)))
		if siteOf(to) != siteOf(base) {
			marks = append(marks, pay.RedirectSite(keyID, siteOf(to)))
		}
	}
	started := r.now()
	all := slices.Concat(call.led.marks, marks)
	w := way{paymentID: paymentID, answer: resp, marks: all[max(0, len(all)-maxWayMarks):]}
	kept := make(map[string]pay.NoticeMark, len(marks))
	r.any.Store(true)
	for _, name := range marks {
		m := pay.RedirectMark(started.Add(delay), payments)
		w.made = started
		if old := r.ways.Get(keyID, name); old.mark.Leads(started) { // a request on that way may have arrived by now
			m.Count, w.made = max(m.Count, old.mark.Count), old.made
		}
		kept[name], w.mark = m, m
		w.mark.Until = m.Until.Add(24 * time.Hour) // the body has not ended
		r.ways.Set(keyID, name, w)
	}
	r.note(req.Context(), keyID, kept)
	onEnd(resp, func(bool) {
		ended := r.now()
		for name, m := range kept {
			m.Until = pay.RedirectMark(ended.Add(delay), 0).Until
			kept[name] = m
			w := r.ways.Get(keyID, name)
			if w.known() && (w.answer == resp || w.mark.Until.Before(m.Until)) {
				w.mark.Until, w.answer = m.Until, nil
				r.ways.Set(keyID, name, w)
			}
		}
		if ended.Sub(started) > briefAnswer {
			r.note(req.Context(), keyID, kept)
		}
	})
}

// end forgets a way whose client has arrived. A place that another payment has led to as well stays.
func (r *redirects) end(req *http.Request, keyID string, w way) {
	gone := make(map[string]pay.NoticeMark)
	for _, name := range w.marks {
		if r.ways.Get(keyID, name).paymentID == w.paymentID {
			gone[name] = pay.NoticeMark{}
			r.ways.Remove(keyID, name)
		}
	}
	r.note(req.Context(), keyID, gone)
}

// note writes marks into the store before the client can act on them.
func (r *redirects) note(ctx context.Context, keyID string, marks map[string]pay.NoticeMark) {
	if err := r.payer.NoteRedirect(ctx, keyID, marks, r.now()); err != nil {
		r.log.WarnContext(ctx, "marks of redirects not kept; other nodes do not know of them", "key", keyID, "error", err)
	}
}

// targetMark names the mark of the URL that a call's client has asked for.
func targetMark(req *http.Request, call *Call) string {
	return pay.RedirectTarget(call.Key.ID, placeOf(call.clientURL(req)))
}

// clientURL returns the URL that the client asked for.
func (c *Call) clientURL(req *http.Request) *url.URL {
	if c.Client != nil {
		if u, err := url.Parse(c.Client()); err == nil && u.Host != "" {
			return u
		}
	}
	return req.URL
}
