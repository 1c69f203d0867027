package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/x402"
)

// problem is the JSON body of every answer of purser's own.
type problem struct {
	Error   string       `json:"error"`
	Reason  string       `json:"reason"`
	Detail  string       `json:"detail,omitempty"`
	Payment *paymentView `json:"payment,omitempty"`
	// SellerSaid quotes the seller's reason for refusing the payload. It is no word of purser's.
	SellerSaid string `json:"sellerSaid,omitempty"`
	// Do says what to do about a 402.
	Do *declines.Advice `json:"do,omitempty"`
}

// paymentView tells clients of a payment.
type paymentView struct {
	ID          string    `json:"id"`
	State       pay.State `json:"state"`
	ValidBefore string    `json:"validBefore"` // RFC 3339, UTC
}

func view(p *pay.Payment) *paymentView {
	return &paymentView{ID: p.ID, State: p.State, ValidBefore: p.ValidBefore().Format(time.RFC3339)}
}

// label marks an answer to a request that was sent with a payload.
func label(h http.Header, p *pay.Payment) {
	h.Set(HeaderPayment, p.ID)
	h.Set(HeaderAmount, p.Moved().String())
	if p.Transaction != "" {
		h.Set(HeaderTransaction, p.Transaction)
	}
}

// withhold hands on a 402 to a payload without its challenge, and logs it. earlier is the payment as the
// call found it, nil for a new one. unseen is as in a decision.
func (t *Transport) withhold(req *http.Request, resp *http.Response, p, earlier *pay.Payment, unseen, what string, more ...any) {
	reason, text := withheld(p, earlier)
	if unseen != "" {
		text += ". " + unseen
		more = append(more, "seen", unseen)
	}
	t.tellDeclined(req, reason, text, nil, p)
	t.log.WarnContext(req.Context(), what, append(more, "payment", p.ID, "host", req.URL.Host, "reason", reason)...)
	t.withholdChallenge(req, resp, p, reason, text)
}

// withholdChallenge takes the challenge out of a 402: a payload has left, and a client that pays by
// itself would pay a second time.
func (t *Transport) withholdChallenge(req *http.Request, resp *http.Response, p *pay.Payment, reason, text string) {
	told, inHeader := withheldProblem(p, reason, text)
	t.carrierFor(req).withhold(req, resp, told, inHeader)
	h := resp.Header
	label(h, p)
	if p.State == pay.Open && p.Sendable(t.now()) {
		setRetryAfter(h, 5*time.Second, t.now()) // the same payload can be sent again
	}
}

// withheldProblem tells a client of a payment whose payload has left. The second text is for headers, which logs
// have.
func withheldProblem(p *pay.Payment, reason, text string) (_ problem, inHeader string) {
	if empty := p.EmptyWallet(); empty != "" {
		text += "; " + empty
	}
	told := text
	if p.SellerSaid != "" {
		text += ". The seller said: " + words.Quote(p.SellerSaid)
	}
	if word := words.ReasonIn(p.SellerSaid); word != "" {
		told += ". The seller said: " + words.Quote(word)
	}
	return problem{Error: text, Reason: reason, Detail: text, Payment: view(p), SellerSaid: p.SellerSaid}, printable(told)
}

// hearLate takes an answer to a payload that came behind other messages of its stream. It returns what the client
// gets in the place of a refusal.
func (t *Transport) hearLate(req *http.Request, call *Call, m *memo, resp *http.Response, said protocol.Answer) *problem {
	call.mu.Lock()
	defer call.mu.Unlock()
	if said.Receipt != nil {
		m.attempt.Receipt(*said.Receipt)
	}
	if !said.Found && !said.Failed {
		return nil
	}
	d := decision{status: resp.StatusCode, left: true, failed: true, refused: said.Found, refusal: said.Challenge.Error, refuses: said.Found}
	if !said.Found {
		d.notes = []string{noteFailed}
	}
	t.recordAnswer(m, &d)
	if body, is := resp.Body.(*watched); is && body.ended != nil {
		if body.ended = nil; said.Found && !m.repeats {
			t.sellers.failed(call.Key.ID, req.URL.Host)
		}
	}
	if d.open && !m.ended {
		m.unanswered()
	}
	if !said.Found {
		return nil
	}
	p := m.attempt.Payment()
	reason, text := withheld(p, m.earlier)
	t.tellDeclined(req, reason, text, nil, p)
	t.log.WarnContext(req.Context(), "challenge behind other messages to a paid call", "payment", p.ID, "host", req.URL.Host, "reason", reason)
	told, _ := withheldProblem(p, reason, text)
	return &told
}

// hand makes an answer to a payload the client's.
func (t *Transport) hand(req *http.Request, m *memo, resp *http.Response, d *decision) *http.Response {
	p := m.attempt.Payment()
	switch {
	case d.reason != "":
		t.withhold(req, resp, p, m.earlier, d.unseen, "402 after the payment was sent", "seller", words.ReasonIn(p.SellerSaid))
	case !d.open:
		m.body.replay.release() // a client that is content with its answer does not try again
		keepPrivate(resp.Header)
	default:
		neverStored(resp.Header)
	}
	if d.status >= http.StatusBadRequest {
		t.protocols.Withhold(resp.Header) // a client could pay it, whatever the status
	}
	label(resp.Header, p)
	if d.reason == "" && d.open {
		told := fmt.Sprintf("The seller answered %d to the payment", d.status)
		if d.later {
			told += ", so more is to come; repeat the same request for it"
		}
		if word := words.ReasonIn(p.SellerSaid); word != "" && d.said != "" {
			told += " and said: " + words.Quote(word)
		}
		if empty := p.EmptyWallet(); empty != "" && d.said != "" {
			told += "; " + empty
		}
		resp.Header.Set(HeaderDetail, printable(told))
	}
	if d.open {
		m.readPage(resp, min(bodyPatience, t.patience))
		m.unanswered()
	}
	m.ending(resp)
	return resp
}

// readPage reads an answer that is no stream while its payment can still take the evidence of it. Words were read before.
func (m *memo) readPage(resp *http.Response, patience time.Duration) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	short := resp.ContentLength > 0 && resp.ContentLength <= x402.MaxChallengeBytes || resp.ContentLength < 0 && kind == "text/html"
	if _, unread := resp.Body.(*watched); unread && short && m.tail == nil {
		readWhole(resp, patience)
	}
}

// ending has the attempt hear of the last of an answer before the door writes that. A client may have it and ask for
// the next thing before the door knows.
func (m *memo) ending(resp *http.Response) {
	body, more := resp.Body.(*watched)
	attempt := m.attempt
	if attempt.Ending(!more); more {
		body.last, body.left = func() { attempt.Ending(true) }, resp.ContentLength
	}
}

// setBody gives a response a JSON body of ours.
func setBody(req *http.Request, resp *http.Response, v any) {
	body, err := plainjson.Marshal(v)
	if err != nil { // strings, times and JSON that was read
		panic(fmt.Sprintf("proxy: encoding an answer: %v", err))
	}
	body = append(forSDK(req.Header, body), '\n')
	for _, name := range []string{ // of the body that was there
		"Content-Encoding", "Content-Range", "Content-Language", "Content-Location",
		"Accept-Ranges", "Etag", "Last-Modified", "Content-Digest", "Repr-Digest", "Digest", "Trailer",
	} {
		resp.Header.Del(name)
	}
	resp.Trailer = nil
	resp.Header.Set("Content-Type", "application/json")
	resp.Header.Set("X-Content-Type-Options", "nosniff")
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	resp.TransferEncoding, resp.Uncompressed = nil, false
	resp.ContentLength = int64(len(body))
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if req.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
}

// ErrorResponse makes the answer for an error of [Transport.RoundTrip], without names or addresses that
// were looked up. A door writes it after Call.Finish(false). Its body is in memory.
func ErrorResponse(req *http.Request, err error) *http.Response {
	var (
		lost      *SendError
		denied    *guard.DeniedError
		untrusted *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &lost):
		status := http.StatusBadGateway
		if lost.Timeout() {
			status = http.StatusGatewayTimeout
		}
		text := "The paid request was sent, but no answer came back; repeat the same request"
		if lost.Payment.State == pay.Settled {
			text = "The payment was made, but no answer came back; repeat the same request"
		}
		told := problem{Error: text, Reason: afterSend(lost.Payment), Payment: view(lost.Payment)}
		resp := ownResponse(req, status, told)
		label(resp.Header, lost.Payment)
		neverStored(resp.Header)
		if lost.carrier != nil {
			lost.carrier.own(req, resp, told)
		}
		return resp
	case errors.As(err, &denied):
		return OwnResponse(req, http.StatusForbidden, string(denied.Verdict), "This proxy does not connect to that address")
	case errors.As(err, &untrusted) && len(untrusted.UnverifiedCertificates) > 0:
		return OwnResponse(req, http.StatusBadGateway, reasonCertificate, "The upstream's certificate "+whyUntrusted(untrusted))
	case errors.Is(err, context.Canceled) && conns.Asked(req.Context()).Err() != nil:
		return OwnResponse(req, http.StatusBadGateway, DeclinedCallerGone, textGone)
	case timedOut(err):
		return OwnResponse(req, http.StatusGatewayTimeout, reasonTimeout, cmp.Or(failedHandshake(err), "The upstream did not answer in time"))
	case failedHandshake(err) != "":
		return OwnResponse(req, http.StatusBadGateway, reasonTLS, failedHandshake(err))
	}
	return OwnResponse(req, http.StatusBadGateway, reasonUnreachable, "The upstream could not be reached or broke off")
}

const textGone = "The client has left or half-closed its connection, which look the same, so the request was given up; keep the connection open until the answer has come"

// OwnResponse makes an answer of purser's own, in JSON, with the reason in the header too. It is to be written next
// on the request's connection, because its status line names the text.
func OwnResponse(req *http.Request, status int, reason, text string) *http.Response {
	return DetailedResponse(req, status, reason, text, "")
}

// DetailedResponse makes an answer as [OwnResponse] does, with a detail behind the text.
func DetailedResponse(req *http.Request, status int, reason, text, detail string) *http.Response {
	return ownResponse(req, status, problem{Error: text, Reason: reason, Detail: detail})
}

func ownResponse(req *http.Request, status int, p problem) *http.Response {
	told := p.Error
	if p.Detail != "" {
		told += ": " + p.Detail
	}
	if p.Do == nil {
		p.Do = declines.Do(p.Reason)
	}
	rephrase(req, status, told)
	resp := &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), Request: req,
	}
	resp.Header.Set(HeaderError, p.Reason)
	setBody(req, resp, p)
	return resp
}

// WriteResponse writes an answer of purser's own, whose body is in memory.
func WriteResponse(w http.ResponseWriter, resp *http.Response) {
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the client may be gone
}

// Reasons of answers that purser gives itself, beside those of reasons.go.
const (
	reasonUnreachable = "upstream-unreachable"
	reasonTimeout     = "upstream-timeout"
	reasonCertificate = "upstream-certificate" // it is not to be trusted
	reasonTLS         = "upstream-tls"         // the handshake failed
)

// keepPrivate keeps a paid answer out of shared caches: it is for one wallet. The seller's directives for
// the client's own cache stay, such as max-age.
func keepPrivate(h http.Header) {
	given, whole := directives(strings.Join(h.Values("Cache-Control"), ","))
	if !whole {
		neverStored(h)
		return
	}
	kept := []string{"private"}
	for _, directive := range given {
		name, _, _ := strings.Cut(directive, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "private": // with a value it allows shared caches the rest
		case "public", "s-maxage", "proxy-revalidate":
		default:
			kept = append(kept, directive)
		}
	}
	h.Set("Cache-Control", strings.Join(kept, ", "))
	dropCacheOrders(h)
}

// neverStored keeps an answer out of every cache, because the client's repeat must reach purser.
func neverStored(h http.Header) {
	h.Set("Cache-Control", "private, no-store")
	dropCacheOrders(h)
}

// cacheOrders lists headers for particular caches that have other names than <cache>-Cache-Control.
var cacheOrders = []string{"Surrogate-Control", "Edge-Control", "X-Accel-Expires"}

// dropCacheOrders takes out what particular caches obey in place of Cache-Control (RFC 9213), such as nginx.
func dropCacheOrders(h http.Header) {
	for name := range h {
		if strings.HasSuffix(name, "-Cache-Control") || slices.Contains(cacheOrders, name) {
			delete(h, name)
		}
	}
}

// notCached keeps caches on the way from answering a request with the 402 that they have kept. The client's
// directives stay if they do not ask for a kept answer, or if the client has signed them.
func notCached(h http.Header) {
	if signs(h, "cache-control") || signs(h, "pragma") {
		return
	}
	given, whole := directives(strings.Join(h.Values("Cache-Control"), ","))
	asked := []string{"no-cache"}
	for _, directive := range given {
		name, _, _ := strings.Cut(directive, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-cache", "max-age", "max-stale", "min-fresh", "only-if-cached", "stale-if-error":
		default:
			if whole {
				asked = append(asked, directive)
			}
		}
	}
	h.Set("Cache-Control", strings.Join(asked, ", "))
	h.Set("Pragma", "no-cache") // caches of HTTP/1.0, and the rules of many servers, look there
}

// directives splits a Cache-Control at commas outside quotes. It returns false if a quote does not end.
func directives(text string) (list []string, whole bool) {
	quoted, escaped, begin := false, false, 0
	add := func(end int) {
		if directive := strings.TrimSpace(text[begin:end]); directive != "" {
			list = append(list, directive)
		}
		begin = end + 1
	}
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			add(i)
		}
	}
	add(len(text))
	return list, !quoted
}

// headerSDK is sent by the SDKs that Stainless makes, such as those of OpenAI and Anthropic.
const headerSDK = "X-Stainless-Lang"

// sdkError has the form that model providers give their errors. Some SDKs show their users only the message
// of an error of this form.
type sdkError struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code,omitempty"` // the reason
}

// forSDK returns a body of ours as a client's SDK understands it: the text of "error" becomes an object, with all that its
// user has to know in the message. All other clients get the text.
func forSDK(h http.Header, body []byte) []byte {
	if h.Get(headerSDK) == "" {
		return body
	}
	var (
		members map[string]json.RawMessage
		text    string
	)
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members["error"], &text) != nil {
		return body
	}
	var (
		detail string
		do     declines.Advice
	)
	_, _ = json.Unmarshal(members["detail"], &detail), json.Unmarshal(members["do"], &do) // a body may have neither
	if detail != "" && !strings.Contains(text, detail) {
		text += ": " + detail
	}
	if do.Developer != "" {
		text += ". " + do.Developer
	}
	var err error
	if members["error"], err = plainjson.Marshal(sdkError{text, "purser", members["reason"]}); err != nil {
		return body
	}
	out, err := plainjson.Marshal(members)
	if err != nil {
		return body
	}
	return out
}
