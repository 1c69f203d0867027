package proxy

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/internal/lookalike"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

const (
	// maxWays bounds the places that are remembered for a key. The store keeps their marks as well.
	maxWays = 128
	// maxBought bounds the URLs at which a key has bought. At a forgotten one it must ask as at a new one.
	maxBought = 128
	// maxStrays bounds the places on other sites to which free answers have led a key's client.
	maxStrays = 32
	// strayTime is the time within which a client follows such an answer.
	strayTime = time.Minute
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
	ways   *perclient.Memory[string, way]   // by key and mark
	bought *perclient.Memory[string, bool]  // by key and mark of the URL
	strays *perclient.Memory[string, stray] // by key and mark
	any    atomic.Bool                      // a place was remembered once: without it, no request needs a hash and the lock
}

// stray holds a place on another site than the one that a client has asked, to which a free answer has led.
type stray struct {
	from string // the URL that the client asked for at first
	at   time.Time
}

// way holds what is remembered of a place to which the answer to a payment has led.
type way struct {
	paymentID string // "" if another process has made the payment
	mark      pay.NoticeMark
	made      time.Time
	answer    *http.Response // the last one that has led here
	marks     []string       // of all places of the way so far
	job       bool           // the place is where a job can be asked about, see job
}

func (w way) known() bool { return !w.mark.Until.IsZero() }

func newRedirects(payer *pay.Payer, log *slog.Logger, now pay.Clock) *redirects {
	return &redirects{
		payer: payer, log: log, now: now,
		ways: perclient.NewMemory[string, way](maxWays), bought: perclient.NewMemory[string, bool](maxBought),
		strays: perclient.NewMemory[string, stray](maxStrays),
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
	mark := targetMark(req, call)
	if s := r.strays.Get(call.Key.ID, mark); call.arrived.Sub(s.at).Abs() < strayTime {
		call.strayed = s.from
	}
	w := r.ways.Get(call.Key.ID, mark)
	if !w.mark.Leads(call.arrived) && call.clientURL(req).RawQuery != "" {
		if bare := r.ways.Get(call.Key.ID, bareMark(req, call)); bare.job {
			w = bare
		}
	}
	switch {
	case !w.mark.Leads(call.arrived):
	case w.job:
		call.job = job{w.paymentID, w.mark}
	default:
		call.led = w
	}
}

// place places a request that is to be paid.
func (r *redirects) place(req *http.Request, call *Call) *pay.Redirects {
	keyID, target, method := call.Key.ID, targetMark(req, call), methodOf(req)
	if method == http.MethodHead {
		method = http.MethodGet
	}
	return &pay.Redirects{
		Target: target, Site: pay.RedirectSite(keyID, method, siteOf(req.URL)), Anywhere: pay.RedirectAnywhere(keyID, method),
		Arrived: call.arrived, Follows: call.IdempotencyKey == "", Known: call.Anew || r.bought.Get(keyID, target),
		Own: func(mark string) (pay.NoticeMark, time.Time) {
			w := r.ways.Get(keyID, mark)
			return w.mark, w.made
		},
	}
}

// buys remembers that a key has bought at a place.
func (r *redirects) buys(keyID string, at *pay.Redirects) { r.bought.Set(keyID, at.Target, true) }

// answered looks at an answer for which nothing was paid. A redirect leads a way on. A delivery ends it,
// because the client has what it paid for. After anything else the client may ask again.
func (r *redirects) answered(req *http.Request, call *Call, resp *http.Response) {
	switch w := call.led; {
	case leads(resp):
		if r.onWay(req, call) {
			r.lead(req, call, resp, call.led.paymentID, 0)
			return
		}
		r.leadAway(req, call, resp)
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		if w.known() {
			onEnd(resp, func(complete bool) {
				if complete {
					r.end(req, call.Key.ID, w)
				} else {
					r.failed(req, call)
				}
			})
		}
	case call.job.paymentID != "": // its mark stays as it is, whatever the seller answers meanwhile
	case w.known() || isTransient(resp) && r.onWay(req, call) && call.job.paymentID == "":
		r.keep(req, call, resp, r.marksHere(req, call), call.led.paymentID, retryAfter(resp, r.now()))
	}
}

// leadAway remembers where a free answer leads, if that is another site than the one that the client asked at
// first. Another node does not know of it.
func (r *redirects) leadAway(req *http.Request, call *Call, resp *http.Response) {
	base := call.clientURL(req)
	from := cmp.Or(call.strayed, base.String())
	asked, err := url.Parse(from)
	to := locate(base, resp.Header.Get("Location"))
	if !isRedirect(resp) {
		_, to = refresh(base, resp.Header.Get("Refresh"))
	}
	if err != nil || to == nil || lookalike.Site(to.Hostname()) == lookalike.Site(asked.Hostname()) {
		return
	}
	r.any.Store(true)
	r.strays.Set(call.Key.ID, pay.RedirectTarget(call.Key.ID, placeOf(to)), stray{from, r.now()})
}

// isTransient reports whether clients repeat a request by themselves after such an answer.
func isTransient(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return resp.StatusCode >= 500 || resp.Header.Get("Retry-After") != ""
}

// failed keeps a way on which a request got no answer, because the client may ask again.
func (r *redirects) failed(req *http.Request, call *Call) {
	if call.led.known() {
		r.keep(req, call, &http.Response{}, r.marksHere(req, call), call.led.paymentID, 0)
	}
}

// onWay reports whether the answer to a payment has led to a request. It asks the store where that may have
// been the payment of another process.
func (r *redirects) onWay(req *http.Request, call *Call) bool {
	if call.led.known() {
		return true
	}
	m, err := r.payer.RedirectMark(req.Context(), targetMark(req, call))
	if err != nil {
		r.log.WarnContext(req.Context(), "marks of redirects not read", "key", call.Key.ID, "error", err)
		return false
	}
	if m.Leads(call.arrived) {
		call.led.mark = m
		if call.job.paymentID == "" {
			call.job, err = r.jobAt(req.Context(), req, call)
		}
	}
	if err != nil {
		r.log.WarnContext(req.Context(), "marks of a job not read", "key", call.Key.ID, "error", err)
	}
	return call.led.known()
}

// marksHere returns the marks of a request that stands on a way.
func (r *redirects) marksHere(req *http.Request, call *Call) map[string]uint64 {
	at, n := r.place(req, call), call.led.mark.Count
	return map[string]uint64{at.Target: n, at.Site: n}
}

// lead writes where an answer leads, and remembers it. made is 1 for the answer to a payment.
func (r *redirects) lead(req *http.Request, call *Call, resp *http.Response, paymentID string, made uint64) {
	keyID, base := call.Key.ID, call.clientURL(req)
	site, all := call.led.mark.Count, call.led.mark.Count
	if m := call.memo; made > 0 && m != nil {
		site, all = m.placed.AtSite+made, m.placed.Everywhere+made
	}
	targets, delay := rewrite(resp, base, call.Client != nil)
	methods := []string{http.MethodGet}
	if method := methodOf(req); keepsMethod(resp.StatusCode, method) {
		methods = append(methods, method)
	}
	marks := make(map[string]uint64)
	for _, to := range targets {
		marks[pay.RedirectTarget(keyID, placeOf(to))] = max(site, all)
		for _, method := range methods {
			if siteOf(to) != siteOf(base) {
				marks[pay.RedirectSite(keyID, method, siteOf(to))] = site
				marks[pay.RedirectAnywhere(keyID, method)] = all
			}
		}
	}
	for _, method := range methods {
		marks[pay.RedirectSite(keyID, method, siteOf(req.URL))] = site
	}
	r.keep(req, call, resp, marks, paymentID, max(delay, retryAfter(resp, r.now())))
}

// keepsMethod reports whether clients follow a redirect with the method that they asked with, beside those
// that follow it with GET.
func keepsMethod(status int, method string) bool {
	switch {
	case method == http.MethodGet || method == http.MethodHead:
		return false
	case status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect:
		return true
	}
	return method != http.MethodPost && status != http.StatusSeeOther
}

// retryAfter returns how long an answer asks its client to wait. It takes out a longer wait than maxRefresh.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	value := resp.Header.Get("Retry-After")
	if value == "" {
		return 0
	}
	wait, err := time.ParseDuration(value + "s")
	if err != nil {
		at, err := http.ParseTime(value)
		if err != nil {
			resp.Header.Del("Retry-After")
			return 0
		}
		wait = at.Sub(now)
	}
	if wait > maxRefresh {
		resp.Header.Del("Retry-After")
		return 0
	}
	resp.Header.Set("Retry-After", value)
	return max(wait, 0)
}

// keep remembers places, with the number of payments on each way, until a client must have asked there: from
// the end of the answer's body. Then it may wait as the answer says.
func (r *redirects) keep(req *http.Request, call *Call, resp *http.Response, payments map[string]uint64, paymentID string, wait time.Duration) {
	keyID, started := call.Key.ID, r.now()
	all := slices.AppendSeq(slices.Clone(call.led.marks), maps.Keys(payments))
	w := way{paymentID: paymentID, answer: resp, marks: all[max(0, len(all)-maxWayMarks):]}
	kept := make(map[string]pay.NoticeMark, len(payments))
	r.any.Store(true)
	for name, n := range payments {
		m := pay.RedirectMark(started.Add(wait), n)
		w.made = started
		if old := r.ways.Get(keyID, name); old.mark.Leads(started) { // a request on that way may have arrived by now
			m.Count, w.made = max(m.Count, old.mark.Count), old.made
		}
		if old := call.led.mark; name == targetMark(req, call) && m.Until.Before(old.Until) { // a job's mark is longer
			m.Until = old.Until
		}
		kept[name], w.mark = m, m
		w.mark.Until = m.Until.Add(24 * time.Hour) // the body has not ended
		r.ways.Set(keyID, name, w)
	}
	r.note(req.Context(), keyID, kept)
	onEnd(resp, func(bool) {
		ended := r.now()
		for name, m := range kept {
			m.Until = pay.RedirectMark(ended.Add(wait), 0).Until
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
		if at := r.ways.Get(keyID, name); at.paymentID == w.paymentID && !at.job {
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

// bareMark is targetMark without the URL's query: SDKs add one to the URL of a job.
func bareMark(req *http.Request, call *Call) string {
	bare := *call.clientURL(req)
	bare.RawQuery = ""
	return pay.RedirectTarget(call.Key.ID, placeOf(&bare))
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

// maxRefresh bounds the delay of a Refresh header. A longer one is taken out, because purser would
// have to remember it for as long.
const maxRefresh = 5 * time.Minute

// leads reports whether an answer may make its client ask for something by itself.
func leads(resp *http.Response) bool {
	return isRedirect(resp) || len(resp.Header.Values("Refresh")) > 0
}

func isRedirect(resp *http.Response) bool {
	return resp.StatusCode >= 300 && resp.StatusCode < 400 && len(resp.Header.Values("Location")) > 0
}

// rewrite writes the Location and Refresh of an answer anew, so that every client reads them as purser
// does: absolute, and in one spelling. It takes out what cannot be read. base is the client's URL. If
// rooted is true, URLs of the same origin are written without it, because a server in front may have
// given the client another one.
func rewrite(resp *http.Response, base *url.URL, rooted bool) (targets []*url.URL, delay time.Duration) {
	write := func(to *url.URL) string {
		targets = append(targets, to)
		if here := normal(base); rooted && here != nil && to.Scheme == here.Scheme && to.Host == here.Host && !strings.HasPrefix(to.EscapedPath(), "//") {
			local := *to
			local.Scheme, local.Host = "", ""
			return local.String()
		}
		return to.String()
	}
	if isRedirect(resp) {
		location := resp.Header.Get("Location")
		if to := locate(base, location); to != nil {
			location = write(to)
		} else if !leadsElsewhere(location) {
			location = ""
		}
		setOrDelete(resp.Header, "Location", location)
	}
	if len(resp.Header.Values("Refresh")) > 0 {
		seconds, to := refresh(base, resp.Header.Get("Refresh"))
		value := ""
		if to != nil {
			delay = time.Duration(seconds) * time.Second
			value = strconv.Itoa(seconds) + "; url=" + write(to)
		}
		setOrDelete(resp.Header, "Refresh", value)
	}
	return targets, delay
}

func setOrDelete(h http.Header, name, value string) {
	if h.Del(name); value != "" {
		h.Set(name, value)
	}
}

// refresh reads a Refresh header. The URL is nil if clients may read it in different ways.
func refresh(base *url.URL, value string) (seconds int, to *url.URL) {
	value = strings.TrimSpace(value)
	digits := value[:len(value)-len(strings.TrimLeft(value, "0123456789"))]
	seconds, err := strconv.Atoi(digits)
	if err != nil || time.Duration(seconds)*time.Second > maxRefresh {
		return 0, nil
	}
	rest := strings.TrimLeft(value[len(digits):], "0123456789.")
	where := strings.TrimLeft(rest, "; ,\t")
	if where == "" { // the same page again
		return seconds, normal(base)
	}
	if where == rest { // no separator
		return 0, nil
	}
	if len(where) > 3 && strings.EqualFold(where[:3], "url") {
		if after, is := strings.CutPrefix(strings.TrimLeft(where[3:], " \t"), "="); is {
			where = strings.TrimLeft(after, " \t")
		}
	}
	if where != "" && strings.ContainsAny(where[:1], `'"`) {
		where, _, _ = strings.Cut(where[1:], where[:1])
	}
	return seconds, locate(base, where)
}

// leadsElsewhere reports whether a Location is for another program than an HTTP client.
func leadsElsewhere(location string) bool {
	u, err := url.Parse(location)
	return err == nil && u.Scheme != "" && !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme)
}
