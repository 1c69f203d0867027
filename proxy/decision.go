package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/x402"
)

// decision says what one send of a payload has brought: decide reads the answer, and recordAnswer
// completes the decision with the payment. The payment's record, the seller's breaker, the
// client's answer and the metrics all follow it.
type decision struct {
	status int        // of the answer; 0 without one
	left   bool       // the payload may have reached the seller
	misled bool       // every connection led to an address that may not be paid
	seller sellerWord // grades the seller
	failed bool       // the request has brought nothing: an error, another 402 or no answer

	notes   []string // for the payment's story
	refused bool     // the answer is another 402
	refusal string   // the reason that the seller gave in it
	refuses bool     // the 402 says something of the payload
	used    bool     // the answer says that the payload was used
	said    string   // what the seller said against the payload, for people
	unseen  string   // why the 402 may be no answer to the payload; see unseen
	later   bool     // the answer is still to come, at the same URL; see comesLater

	// These follow from the payment, once the answer is recorded.
	reason string // one of the Declined words; empty: the client gets the seller's answer
	open   bool   // the client has no answer yet, so its repeat gets the payment
	result string // one of the Result words
}

// noteFailed stands in the story of a payment whose answer is an error by its words.
const noteFailed = "seller answered with an error"

// sellerWord grades the seller by an answer to a payload.
type sellerWord int

const (
	sellerSilent   sellerWord = iota // nothing: the fault is the request's, or the payload is an earlier one's
	sellerFailed                     // an error, another 402, or no answer
	sellerDelivers                   // the end of the body will tell
)

// decide reads an answer to a payload, or the error of its send. challenged is as for sendPaid. said is what the
// answer has said so far.
func (t *Transport) decide(req *http.Request, m *memo, challenged, resp *http.Response, said protocol.Answer, seen *sendTrace, err error) decision {
	if err != nil {
		d := decision{left: m.answered || !seen.unconnected(), misled: seen.astray(), notes: []string{"no answer: " + errorKind(err)}}
		if seen.connected.Load() && !errors.Is(err, pay.ErrLeaseLost) {
			d.failed, d.seller = true, sellerFailed
		}
		if m.repeats {
			d.seller = sellerSilent
		}
		return d
	}
	d := decision{status: resp.StatusCode, left: true}
	if said.Problem != nil {
		d.notes = append(d.notes, "receipt not readable: "+said.Problem.Error())
	}
	carrier := t.carrierFor(req)
	asks := carrier.asks(resp)
	if asks || said.Refuses {
		said = carrier.refusal(resp, m.wire, t.patience)
		d.refusal, d.refuses, d.used = said.Challenge.Error, said.Found, said.Used
	}
	d.refused = asks || said.Refuses
	d.failed = d.refused || said.Failed || d.status >= http.StatusBadRequest
	switch {
	case asks:
		d.refuses, d.seller = said.Found || !said.Receipted(), sellerFailed
		t.hear(req, &d, m, challenged, resp, said)
	case d.refused: // for want of something that is the wallet's
	case d.status >= http.StatusBadRequest:
		d.notes = append(d.notes, fmt.Sprintf("seller answered %d", d.status))
		if speaks(resp) {
			d.said = wordsOf(resp, t.patience)
		}
		if d.status >= http.StatusInternalServerError {
			d.seller = sellerFailed
		}
	case said.Failed:
		d.notes = append(d.notes, noteFailed)
	default:
		d.seller, d.later = sellerDelivers, comesLater(m.method, resp)
	}
	if r := said.Receipt; r != nil && r.ErrorReason+r.ErrorMessage != "" {
		d.said = "" // the receipt says it
	}
	if m.repeats && d.seller == sellerFailed { // it may be right about a payload that it has had before
		d.seller = sellerSilent
	}
	return d
}

// hear reads what a 402 to a payload says against it. Words that stood in the 402 before the payment say nothing of
// one.
func (t *Transport) hear(req *http.Request, d *decision, m *memo, challenged, resp *http.Response, said protocol.Answer) {
	again := said.Challenge
	d.said = t.carrierFor(req).words(resp, t.patience)
	if d.said != "" && d.said == wordsOf(challenged, t.patience) {
		d.said = ""
	}
	if told := words.OfSeller(again.Error); told != "" && again.Error != m.challenge.Error && (d.said == told || !strings.HasPrefix(d.said, told)) {
		d.said = "" // the challenge says it
	}
	same := !said.Receipted() && d.said == "" && m.sameChallenge(again)
	if same {
		d.refusal = ""
	}
	if d.unseen = unseen(resp.Header, same, same && m.attempt.Payment().IdempotencyKey != ""); d.unseen != "" {
		d.notes = append(d.notes, d.unseen)
	}
}

// recordAnswer has the payment take what was decided, and completes the decision with what became
// of the payment.
func (t *Transport) recordAnswer(m *memo, d *decision) {
	a := m.attempt
	for _, note := range d.notes {
		a.Observe(note)
	}
	switch {
	case d.used:
		a.AnswerUsed(d.refusal)
	case d.refuses:
		a.Answer402(d.refusal)
	}
	if binds, is := m.wire.(protocol.Binding); is && d.refused {
		if realm, other, wrong := binds.WrongNonce(a.Payload(), d.refusal+" "+d.said); wrong {
			a.WrongNonce(realm, other)
		}
	}
	if d.said != "" {
		a.Hear(d.said)
	}
	p := a.Payment()
	a.Failed(nil)
	if d.failed {
		a.Failed(&pay.Undelivered{Status: d.status})
		if p.State == pay.Settled && !m.repeats { // whatever the error, the seller has taken the money
			d.seller = sellerFailed
		}
	}
	switch {
	case d.status == 0:
		d.open, d.result = true, ResultUnanswered
	case d.refused:
		// A client that is told in full that the seller has the money and delivers nothing has its
		// answer. Its next request is a purchase.
		d.reason, d.open, d.result = afterSend(p), p.State != pay.Settled, ResultDeclined
	default:
		d.open, d.result = d.later || d.failed, ResultPaid
	}
}

// tellSellers hands the decision to the breaker of the seller. The end of a body is heard later.
func (t *Transport) tellSellers(req *http.Request, call *Call, d *decision, resp *http.Response) {
	keyID, host, repeats, attempt := call.Key.ID, req.URL.Host, call.memo.repeats, call.memo.attempt
	failed := func() {
		if !repeats && t.sellers.failed(keyID, host) {
			t.log.Warn("no new payments to a seller that does not deliver", "key", keyID, "host", host)
		}
	}
	var body *watched
	if resp != nil {
		body, _ = resp.Body.(*watched)
	}
	carrier := t.carrierFor(req)
	ended := func(err error) {
		switch whole := err == io.EOF; { //nolint:errorlint // bodies return it bare
		case whole && !carrier.came(): // the client may ask for the rest
		case whole && !lacksBody(req, d.status, body):
			t.sellers.forget(keyID, host)
		case whole || conns.Asked(req.Context()).Err() == nil: // empty, or cut, and not because the client has left
			attempt.Failed(&pay.Undelivered{Status: d.status})
			failed()
		}
	}
	switch d.seller {
	case sellerSilent:
	case sellerFailed:
		failed()
	case sellerDelivers:
		if body != nil {
			body.ended = ended
		} else { // the connection speaks another protocol now
			ended(io.EOF)
		}
	}
}

// lacksBody reports whether an answer whose body has ended has none, where its status promises one. Other methods than
// GET may have done what they were paid for, and so does a 204.
func lacksBody(req *http.Request, status int, body *watched) bool {
	return body != nil && !body.some.Load() && methodOf(req) == http.MethodGet &&
		slices.Contains([]int{http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusPartialContent}, status)
}

// Members in which sellers say why they refuse a payload: those that name a reason, and those that tell of it.
var (
	reasonMembers  = []string{"errorReason", "invalidReason", "error", "reason", "title", "code", "errorCode", "error_code", "paymentError", "payment_error"}
	messageMembers = []string{"errorMessage", "invalidMessage", "message", "msg", "detail", "details", "description", "error_description"}
	// around has what other objects with words may stand in.
	around = []string{"error", "detail", "details", "data", "errors", "message", "reason", "paymentResponse", "settleResponse", "verifyResponse", "settlement", "verification"}
)

// maxAround bounds how deep words are looked for.
const maxAround = 3

// sellersWords returns what a body says against a payload, cleaned and bounded; "" if it says nothing. Bodies
// are JSON, or text that is no page.
func sellersWords(header http.Header, body []byte) string {
	body = decoded(body, header.Get("Content-Encoding"))
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	switch first := strictjson.Kind(body); {
	case first == '{' || first == '[' || first == '"' && kind != "text/plain":
		if !json.Valid(body) || strictjson.Nesting(body) > 32 {
			return ""
		}
		if text, is := strictjson.Unquote(bytes.TrimSpace(body)); is {
			return words.OfSeller(text)
		}
		if body = object(body); body == nil {
			return ""
		}
		return wordsIn(body, 0)
	case kind != "text/plain" && (kind != "" || first == '<'), !utf8.Valid(body):
		return ""
	}
	return words.OfSeller(string(body))
}

// wordsIn returns the words of a valid JSON object.
func wordsIn(body []byte, depth int) string {
	members := map[string]json.RawMessage{}
	for name, value := range strictjson.Members(body) {
		members[name] = value
	}
	first := func(names []string) string {
		for _, name := range names {
			if text, is := strictjson.Unquote(members[name]); is && words.OfSeller(text) != "" {
				return words.OfSeller(text)
			}
		}
		return ""
	}
	reason, message := first(reasonMembers), first(messageMembers)
	if message != reason || message == "" {
		reason = strings.Trim(reason+": "+message, ": ")
	}
	if depth == maxAround {
		return reason
	}
	for _, name := range around {
		inner := firstText(members[name])
		if value := object(members[name]); value != nil {
			inner = wordsIn(value, depth+1)
		}
		if inner != "" && inner != reason {
			return words.OfSeller(strings.Trim(reason+": "+inner, ": "))
		}
	}
	return words.OfSeller(reason)
}

// firstText returns the words of a valid JSON list that begins with a text.
func firstText(value []byte) string {
	if strictjson.Kind(value) == '[' {
		for element := range strictjson.Elements(value) {
			text, _ := strictjson.Unquote(element)
			return words.OfSeller(text)
		}
	}
	return ""
}

// object returns a valid JSON value if it is an object, or a list that begins with one.
func object(value []byte) []byte {
	if strictjson.Kind(value) == '[' {
		for element := range strictjson.Elements(value) {
			value = element
			break
		}
	}
	if strictjson.Kind(value) != '{' {
		return nil
	}
	return value
}

// wordsOf reads what a seller says in an answer. A body that does not end is cut off.
func wordsOf(resp *http.Response, patience time.Duration) string {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		return ""
	}
	read, _ := readWhole(resp, patience)
	return sellersWords(resp.Header, read)
}

// speaks reports whether an error answer may say something in words. Its body is the client's, so a stream is left
// alone.
func speaks(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == "application/json" || strings.HasSuffix(kind, "+json") || kind == "text/plain" && resp.ContentLength > 0
}

// Words for a 402 that is not about the payment.
const (
	wordsCached = "The 402 came from a cache, so the seller may not have seen the payment"
	wordsKept   = "The seller has kept its first 402 under the Idempotency-Key of the request and gives it again, so it may not have looked at the payment"
	wordsSame   = "The seller has answered with the same challenge, as if it had not seen the payment"
)

// unseen says why a 402 to a payload may be no answer to it; "" if nothing tells so. same reports that it is the
// challenge that asked for the payment, without a word about one.
func unseen(h http.Header, same, keyed bool) string {
	switch {
	case replayed(h):
		return wordsKept
	case cached(h):
		return wordsCached
	case same && keyed:
		return wordsSame + ". It may have kept its first 402 under the Idempotency-Key of the request"
	case same:
		return wordsSame
	}
	return ""
}

// replayed reports whether a seller says that it gives an answer again that it keeps under an Idempotency-Key.
func replayed(h http.Header) bool {
	for _, name := range []string{"Idempotent-Replayed", "Idempotent-Replay", "Idempotency-Replayed", "X-Idempotent-Replayed", "X-Idempotency-Replayed"} {
		if strings.EqualFold(strings.TrimSpace(h.Get(name)), "true") {
			return true
		}
	}
	return false
}

// cached reports whether a cache says that it has given an answer.
func cached(h http.Header) bool {
	if age := strings.Trim(strings.TrimSpace(h.Get("Age")), "0"); age != "" && strings.Trim(age, "0123456789") == "" {
		return true
	}
	for name, values := range h { // such as X-Cache, X-Vercel-Cache, and Cf-Cache-Status
		if !strings.HasSuffix(name, "Cache") && !strings.HasSuffix(name, "Cache-Status") {
			continue
		}
		parts := strings.FieldsFunc(strings.ToLower(strings.Join(values, ",")), func(r rune) bool { return r < 'a' || r > 'z' })
		if slices.Contains(parts, "hit") || slices.Contains(parts, "stale") {
			return true
		}
	}
	timing := strings.ReplaceAll(strings.ToLower(strings.Join(h.Values("Server-Timing"), ",")), " ", "") // Akamai's
	return strings.Contains(timing, "cdn-cache;desc=hit")
}

// sameChallenge reports whether a 402 to a payload asks as the one before the payment did, in the payload's protocol.
func (m *memo) sameChallenge(again x402.Challenge) bool {
	before := slices.DeleteFunc(slices.Clone(m.challenge.Accepts), func(r x402.Requirement) bool { return !m.wire.Writes(r.Version) })
	if len(again.Accepts) == 0 || len(again.Accepts) != len(before) || again.Error != m.challenge.Error {
		return false
	}
	for i, r := range again.Accepts {
		was := before[i]
		if r.Version >= x402.OtherProtocols && !bytes.Equal(r.Raw, was.Raw) { // each challenge of MPP has an id
			return false
		}
		if r.Scheme != was.Scheme || r.Network != was.Network || r.Amount != was.Amount || r.Asset != was.Asset || r.PayTo != was.PayTo {
			return false
		}
	}
	return true
}

// withheld returns the reason word, and words for people, for a 402 to a payload that has left. earlier
// is the payment as the call found it, nil for a new one.
func withheld(p, earlier *pay.Payment) (reason, text string) {
	reason = afterSend(p)
	switch {
	case reason == DeclinedVoid:
		return reason, "The payment for this request was not made; repeat the request"
	case reason == DeclinedOpen:
		return reason, "A payment for this request was sent and its outcome is not known yet; repeat the same request"
	case earlier != nil && earlier.Delivered():
		return DeclinedBefore, fmt.Sprintf("This was paid before, on %s, and its answer was delivered; nothing was paid now, and the seller does not give that answer again. %s",
			pay.Moment(p.Closed), anew(p))
	case earlier != nil && earlier.State == pay.Settled:
		return reason, fmt.Sprintf("This was paid before, on %s, and the answer was lost; the seller answers 402 to the same payment now. %s",
			pay.Moment(p.Closed), anew(p))
	}
	return reason, "The payment was made, but the seller answered 402 again. " + anew(p)
}

// heldWords tells of an error with a payment that has left, or may still settle.
func heldWords(p *pay.Payment, err error) string {
	if _, dry := errors.AsType[*dryRunError](err); dry {
		return fmt.Sprintf("Dry run: this repeats payment %s of %s, begun on %s; nothing new would be paid",
			p.ID, money.Text(p.Moved()), pay.Moment(p.Created))
	}
	if _, spent := errors.AsType[*pay.SpentError](err); spent {
		return fmt.Sprintf("This was paid before, on %s, as the chain tells. purser's books were restored from a backup since, so the payment cannot be sent to the seller again. %s",
			pay.Moment(p.Created), anew(p))
	}
	if unsent, is := errors.AsType[*unsentError](err); is {
		return "Nothing was paid now: " + unsent.Error()
	}
	if failed, is := errors.AsType[*pay.FailedError](err); is && p.State == pay.Settled {
		return fmt.Sprintf("This was paid before, on %s. Nothing was paid now, and the payment could not be sent again: %s", pay.Moment(p.Closed), failed.Detail)
	}
	_, text := withheld(p, nil)
	return text
}

// anew says how the client buys the same thing once more.
func anew(p *pay.Payment) string {
	if p.IdempotencyKey != "" {
		return "To buy it once more, send another Idempotency-Key; without one, send Purser-Again: new"
	}
	return "The next request for this is a new purchase"
}
