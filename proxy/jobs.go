package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
)

const (
	// maxJobBody bounds what is kept of an answer to read from it where its job can be asked about.
	maxJobBody = 64 << 10
	// maxJobURLs bounds how many URLs count in it.
	maxJobURLs = 4
	// maxJobLooks bounds how often an answer that comes in pieces is looked at: sellers choose where they end.
	maxJobLooks = 64
	// jsonSpace holds the characters that may stand behind a JSON value.
	jsonSpace = " \t\r\n"
	// jobTime is the time for which a job is remembered from an answer to a question about it.
	jobTime = 5 * time.Minute
)

// job is the payment of a job that a request asks about: a paid answer has named its URL.
type job struct {
	paymentID string // "": the request asks about none
	until     pay.NoticeMark
}

// locationHeaders name where a job can be asked about.
var locationHeaders = []string{"Location", "Content-Location", "Operation-Location", "Azure-Asyncoperation"}

// begins looks for a job in the answer to a call's payment, and to a call that asks about one. A seller may settle when
// the job is done, and ask each question for the payment. So the payment is the answer to those as well.
func (r *redirects) begins(req *http.Request, call *Call, resp *http.Response, p *pay.Payment) {
	asks := call.job.paymentID != ""
	switch method := methodOf(req); {
	case !asks && (method == http.MethodGet || method == http.MethodHead) && resp.StatusCode != http.StatusAccepted:
		return // what it got has a place of its own
	case asks && isRedirect(resp), resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusCreated, resp.StatusCode == http.StatusAccepted:
	default:
		return
	}
	until := call.job.until
	if p != nil {
		until = pay.RedirectMark(p.ValidBefore(), 1)
	}
	if on := pay.RedirectMark(r.now().Add(jobTime), 1); asks && until.Until.Before(on.Until) {
		// One that has expired without moving its money buys nothing any more: its place is soon one like any other.
		if of := r.ofJob(req, call, p); of != nil && of.State == pay.Settled {
			until = on
		}
	}
	r.again(req, call, resp, p, until)
	for _, name := range locationHeaders {
		r.job(req, call, p, until, resp.Header.Get(name))
	}
	body, is := resp.Body.(*watched)
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if !is || err != nil || !strings.HasSuffix(kind, "json") || resp.ContentLength > maxJobBody {
		return
	}
	var text []byte
	coding, looks := resp.Header.Get("Content-Encoding"), 0
	body.piece = func(piece []byte) { // the client cannot read the URL before all of the value has come
		if text = append(text, piece...); len(text) > maxJobBody || looks == maxJobLooks {
			body.piece, text = nil, nil
			return
		}
		if ends := bytes.HasSuffix(bytes.TrimRight(text, jsonSpace), []byte("}")); coding == "" && !ends || len(piece) == 0 {
			return
		}
		looks++
		if end := bytes.TrimRight(decoded(text, coding), jsonSpace); bytes.HasSuffix(end, []byte("}")) && json.Valid(end) {
			for _, where := range jobURLs(end) {
				r.job(req, call, p, until, where)
			}
			body.piece, text = nil, nil
		}
	}
}

// again remembers that the URL which was asked for is to be asked for again. Once there is another answer, its client
// has a minute to repeat what it may not have got. Elsewhere the mark of a job stays as it is.
func (r *redirects) again(req *http.Request, call *Call, resp *http.Response, p *pay.Payment, until pay.NoticeMark) {
	if method := methodOf(req); method != http.MethodGet && method != http.MethodHead {
		return
	}
	here := call.clientURL(req).String()
	switch {
	case call.job.paymentID != "" && (resp.StatusCode == http.StatusAccepted || !ordered(p, req.URL)):
		r.job(req, call, p, until, here)
	case call.job.paymentID != "":
		onEnd(resp, func(bool) { r.job(req, call, p, pay.RedirectMark(r.now(), 1), here) })
	case resp.StatusCode == http.StatusAccepted && resp.Header.Get("Retry-After") != "":
		r.job(req, call, p, until, here)
	}
}

// ofJob returns the payment of the job that a call asks about: p, if it was sent with the question.
func (r *redirects) ofJob(req *http.Request, call *Call, p *pay.Payment) *pay.Payment {
	if p == nil {
		p, _ = r.payer.Payment(req.Context(), call.Key, call.job.paymentID)
	}
	return p
}

// ordered reports whether a payment was made at a place.
func ordered(p *pay.Payment, place *url.URL) bool {
	if p == nil {
		return false
	}
	at, err := url.Parse(p.RequestURL)
	return err == nil && placeOf(at) == placeOf(place)
}

// jobURLs returns where a JSON answer says that its job can be asked about.
func jobURLs(text []byte) (found []string) {
	var top map[string]json.RawMessage
	if json.Unmarshal(text, &top) != nil {
		return nil
	}
	for _, name := range []string{"", "data", "job", "task", "urls", "links"} {
		of := top
		if name != "" {
			of = nil
			if json.Unmarshal(top[name], &of) != nil {
				continue
			}
		}
		for member, value := range of {
			var where string
			if jobMembers[strings.ToLower(strings.ReplaceAll(member, "_", ""))] && json.Unmarshal(value, &where) == nil {
				found = append(found, where)
			} else if (name == "urls" || name == "links") && (member == "get" || member == "status" || member == "self") && json.Unmarshal(value, &where) == nil {
				found = append(found, where)
			}
		}
	}
	return found[:min(len(found), maxJobURLs)]
}

// jobMembers names the members that have the URL of a job, in lower case and without underscores.
var jobMembers = map[string]bool{
	"pollurl": true, "pollingurl": true, "statusurl": true, "responseurl": true, "resulturl": true, "joburl": true, "taskurl": true,
}

// job remembers where a job can be asked about. It must be at the site that was paid, and not where the job was ordered.
func (r *redirects) job(req *http.Request, call *Call, p *pay.Payment, until pay.NoticeMark, where string) {
	base := call.clientURL(req)
	if where == "" {
		return
	}
	to := locate(base, where)
	if to != nil && siteOf(to) == siteOf(req.URL) && siteOf(to) != siteOf(base) { // at the sidecar, the upstream's own name
		to.Scheme, to.Host = base.Scheme, base.Host
	}
	if to == nil || siteOf(to) != siteOf(base) {
		return
	}
	method, asks, same := methodOf(req), call.job.paymentID != "", placeOf(to) == placeOf(base)
	if same && !asks && method != http.MethodGet && method != http.MethodHead || !same && asks && ordered(r.ofJob(req, call, p), to) {
		return
	}
	keyID, paymentID := call.Key.ID, call.job.paymentID
	if p != nil {
		paymentID = p.ID
	}
	id, err := uuid.Parse(paymentID)
	if err != nil {
		return
	}
	target := pay.RedirectTarget(keyID, placeOf(to))
	r.any.Store(true)
	made := r.now()
	if old := r.ways.Get(keyID, target); old.mark.Leads(made) {
		made = old.made
	} else if m, err := r.payer.RedirectMark(req.Context(), target); err == nil && m.Leads(made) {
		made = time.Time{} // another process knew of it before
	}
	r.ways.Set(keyID, target, way{paymentID: paymentID, mark: until, made: made, job: true})
	first, second := pay.RedirectJob(target)
	r.note(req.Context(), keyID, map[string]pay.NoticeMark{
		target: until,
		first:  {Count: binary.BigEndian.Uint64(id[:8]), Until: until.Until},
		second: {Count: binary.BigEndian.Uint64(id[8:]), Until: until.Until},
	})
}

// jobAt returns the job that a call asks about, as another process may have noted it.
func (r *redirects) jobAt(ctx context.Context, req *http.Request, call *Call) (job, error) {
	var id uuid.UUID
	var until pay.NoticeMark
	first, second := pay.RedirectJob(targetMark(req, call))
	for i, name := range []string{first, second} {
		m, err := r.payer.RedirectMark(ctx, name)
		if err != nil || !m.Leads(call.arrived) {
			return job{}, err
		}
		binary.BigEndian.PutUint64(id[8*i:], m.Count)
		until = pay.NoticeMark{Count: 1, Until: m.Until}
	}
	return job{id.String(), until}, nil
}

// openJob gets a call the payment of the job that it asks about. It never makes a new one.
func (t *Transport) openJob(req *http.Request, call *Call, m *memo) error {
	m.placed = t.redirects.place(req, call)
	return t.openPayment(req, call, m, call.job.paymentID)
}
