package proxy

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/pay"
)

const (
	// maxJobBody bounds what is kept of an answer to read from it where its job can be asked about.
	maxJobBody = 64 << 10
	// maxJobURLs bounds how many URLs count in it.
	maxJobURLs = 8
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

// linked returns the targets of Link headers (RFC 8288) that lead to the state of a job.
func linked(h http.Header) (found []string) {
	for part := range strings.SplitSeq(strings.Join(h.Values("Link"), ","), "<") {
		target, parameters, _ := strings.Cut(part, ">")
		for p := range strings.FieldsFuncSeq(strings.ToLower(parameters), func(r rune) bool { return r == ';' || r == ',' }) {
			relations, is := strings.CutPrefix(strings.ReplaceAll(strings.TrimSpace(p), " =", "="), "rel=")
			if is && slices.ContainsFunc(strings.Fields(strings.Trim(relations, `"`)), func(r string) bool { return r == "monitor" || r == "status" }) {
				found = append(found, target)
			}
		}
	}
	return found[:min(len(found), maxJobURLs)]
}

// comesLater reports whether the answer to a paid GET says that the work goes on, and names no place of its own: its
// client asks again where it did. That is no second purchase, unlike an order that is sent a second time.
func comesLater(method string, resp *http.Response) bool {
	return resp.StatusCode == http.StatusAccepted && method == http.MethodGet && len(linked(resp.Header)) == 0 &&
		!slices.ContainsFunc(locationHeaders, func(name string) bool { return resp.Header.Get(name) != "" })
}

// begins looks for a job in the answer to a call's payment, and to a call that asks about one. A seller may settle when
// the job is done, and ask each question for the payment. So the payment is the answer to those as well.
func (r *redirects) begins(req *http.Request, call *Call, resp *http.Response, p *pay.Payment) {
	asks := call.job.paymentID != ""
	switch {
	case asks && isRedirect(resp), resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusCreated, resp.StatusCode == http.StatusAccepted:
	default:
		return
	}
	until := call.job.until
	if p != nil {
		until = pay.RedirectMark(p.ValidBefore(), 1)
	}
	if on := pay.RedirectMark(r.now().Add(jobTime), 1); asks && until.Until.Before(on.Until) {
		// A payment that expired without moving its money buys nothing: its place is soon one like any other.
		if of := r.ofJob(req, call, p); of != nil && of.State == pay.Settled {
			until = on
		}
	}
	names := func(all []string) {
		for _, where := range all {
			r.job(req, call, p, until, where)
		}
	}
	method := methodOf(req)
	orders := asks || method != http.MethodGet && method != http.MethodHead || resp.StatusCode == http.StatusAccepted
	if orders { // what another one got has a place of its own, unless it says that the work goes on
		r.again(req, call, resp, p, until)
		for _, name := range locationHeaders {
			names(resp.Header.Values(name))
		}
		names(linked(resp.Header))
	}
	body, is := resp.Body.(*watched)
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if !is || err != nil || !strings.HasSuffix(kind, "json") || resp.ContentLength > maxJobBody {
		return
	}
	body.piece = whole(resp, func(text []byte) {
		body.piece = nil
		found, goesOn := jobURLs(text)
		goesOn = goesOn || resp.StatusCode == http.StatusAccepted
		if id := jobID(text); len(found) == 0 && id != "" && goesOn && !asks && method == http.MethodPost {
			found = []string{strings.TrimSuffix(call.clientURL(req).EscapedPath(), "/") + "/" + url.PathEscape(id)}
		}
		if orders || goesOn {
			names(found)
		}
	})
}

// whole returns what takes the pieces of a body, and hands on the JSON object that they make, once. The client cannot
// read the URL before all of the object has come.
func whole(resp *http.Response, hear func([]byte)) func([]byte) {
	var text []byte
	coding, looks, heard := resp.Header.Get("Content-Encoding"), 0, false
	return func(piece []byte) {
		if heard {
			return
		}
		if text = append(text, piece...); len(text) > maxJobBody || looks == maxJobLooks {
			heard, text = true, nil
			return
		}
		if ends := bytes.HasSuffix(bytes.TrimRight(text, jsonSpace), []byte("}")); coding == "" && !ends || len(piece) == 0 {
			return
		}
		looks++
		if end := bytes.TrimRight(decoded(text, coding), jsonSpace); bytes.HasSuffix(end, []byte("}")) && json.Valid(end) {
			heard, text = true, nil
			hear(end)
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

// jobURLs returns where a JSON answer says that its job can be asked about, and whether it says that the job goes on.
func jobURLs(text []byte) (found []string, goesOn bool) {
	var top map[string]json.RawMessage
	if json.Unmarshal(text, &top) != nil {
		return nil, false
	}
	for _, name := range []string{"", "data", "job", "task", "result", "urls", "links", "_links"} {
		of := top
		if name != "" {
			of = nil
			if name == "links" {
				found = append(found, listed(top[name])...)
			}
			if top[name] == nil || json.Unmarshal(top[name], &of) != nil {
				continue
			}
		}
		found = append(found, within(of, strings.HasSuffix(name, "links") || name == "urls")...)
		if name == "data" { // JSON:API
			var links map[string]json.RawMessage
			if json.Unmarshal(of["links"], &links) == nil {
				found = append(found, within(links, true)...)
			}
		}
		for _, member := range []string{"status", "state"} {
			goesOn = goesOn || slices.Contains(unfinished, strings.ToLower(textOf(of[member])))
		}
	}
	return found[:min(len(found), maxJobURLs)], goesOn
}

// within returns the URLs of a job in the members of an object. With links, short names are theirs as well.
func within(of map[string]json.RawMessage, links bool) (found []string) {
	for _, member := range slices.Sorted(maps.Keys(of)) {
		name := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(member, "_", ""), "-", ""))
		if !jobMember(name) && (!links || !slices.Contains(jobLinks, name)) {
			continue
		}
		where := textOf(of[member])
		var link struct{ Href string }
		if where == "" && json.Unmarshal(of[member], &link) == nil {
			where = link.Href // HAL and JSON:API
		}
		if where != "" {
			found = append(found, where)
		}
	}
	return found
}

// listed returns the URLs of a job in a list of links.
func listed(value json.RawMessage) (found []string) {
	var links []struct{ Rel, Href string }
	if json.Unmarshal(value, &links) != nil {
		return nil
	}
	for _, link := range links {
		if slices.Contains(jobLinks, strings.ToLower(link.Rel)) {
			found = append(found, link.Href)
		}
	}
	return found
}

// textOf returns a string of JSON, "" for anything else.
func textOf(value json.RawMessage) (text string) {
	if bytes.HasPrefix(value, []byte(`"`)) {
		_ = json.Unmarshal(value, &text)
	}
	return text
}

var (
	// jobLinks names the links that lead to the state of a job, or to what it makes.
	jobLinks = []string{"get", "status", "self", "poll", "result", "stream", "monitor"}
	// jobStems and jobEnds make the names of members that have the URL of a job.
	jobStems = []string{"poll", "polling", "status", "response", "result", "results", "job", "task", "wait", "stream", "progress", "statusqueryget"}
	jobEnds  = []string{"url", "uri", "endpoint", "href", "link"}
	// unfinished lists the states of jobs that go on.
	unfinished = []string{
		"queued", "pending", "processing", "starting", "running", "submitted", "accepted", "scheduled", "waiting",
		"in_progress", "in-progress", "in progress", "inprogress", "in_queue", "validating", "not_started", "notstarted", "working",
	}
	// jobIDs name the members with the id of a job.
	jobIDs = []string{"id", "job_id", "jobId", "task_id", "taskId", "request_id", "requestId", "run_id", "runId", "prediction_id", "generation_id"}
)

// jobMember reports whether a member has the URL of a job, by its name in lower case and without underscores.
func jobMember(name string) bool {
	return slices.ContainsFunc(jobEnds, func(end string) bool {
		stem, is := strings.CutSuffix(name, end)
		return is && slices.Contains(jobStems, stem)
	})
}

// jobID returns the id of an order's job in a JSON answer, "" if it has none. Many APIs name no URL: the job is below
// the place where it was ordered.
func jobID(text []byte) string {
	var top map[string]json.RawMessage
	_ = json.Unmarshal(text, &top)
	for _, of := range []json.RawMessage{text, top["data"], top["job"], top["task"], top["result"]} {
		var members map[string]json.RawMessage
		if of == nil || json.Unmarshal(of, &members) != nil {
			continue
		}
		for _, name := range jobIDs {
			if id := textOf(members[name]); id != "" && len(id) <= 128 {
				return id
			}
		}
	}
	return ""
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
