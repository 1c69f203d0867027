package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// decline hands the seller's 402 on, with the reason why it was not paid.
func (t *Transport) decline(req *http.Request, resp *http.Response, reason string, cause error) (*http.Response, string, error) {
	why := t.explain(reason, cause)
	t.tellDeclined(req, reason, why.Detail, pay.PriceOf(cause), nil)
	if !why.resets.IsZero() {
		setRetryAfter(resp.Header, max(time.Second, why.resets.Sub(t.now())), t.now())
	}
	t.carrierFor(req).explain(req, resp, why, t.patience)
	t.logDeclined(req, why, cause)
	return resp, ResultDeclined, nil
}

// refuse answers a 402 that is not paid because of err, of the pay core or of this package.
func (t *Transport) refuse(req *http.Request, resp *http.Response, err error) (*http.Response, string, error) {
	reason, held := declined(err)
	if call := callOf(req.Context()); held == nil && !call.Dry && call.left() &&
		slices.Contains([]string{DeclinedUnavailable, DeclinedInternal, DeclinedCallerGone}, reason) {
		return t.declineWithheld(req, resp, DeclinedCallerGone, err) // an earlier payment may be out: it was not looked for
	}
	_, _, paced := pay.RetryAfter(err)
	failures, failed := errors.AsType[*pay.FailuresError](err)
	if text := unavailable(reason, err); text != "" && (!paced || failed && failures.Quotes) {
		level := slog.LevelError
		if reason == DeclinedOverloaded || reason == DeclinedSpool {
			level = slog.LevelWarn
		}
		t.tellDeclined(req, reason, text, nil, held)
		t.log.Log(req.Context(), level, "402 not paid", "key", callOf(req.Context()).Key.ID, "host", req.URL.Host, "reason", reason, "error", err)
		closeBody(resp)
		out := OwnResponse(req, http.StatusServiceUnavailable, reason, text)
		wait := admission.RetryAfter
		if failed {
			wait = failures.RetryAfter
		}
		t.carrierFor(req).own(req, out, problem{Error: text, Reason: reason})
		out.Header["Retry-After"] = resp.Header["Retry-After"]
		setRetryAfter(out.Header, wait, t.now())
		return out, ResultRefused, nil
	}
	if held != nil {
		req = req.WithContext(pay.WithPayment(req.Context(), held.ID))
		text := heldWords(held, err)
		t.tellDeclined(req, reason, text, nil, held)
		t.logDeclined(req, t.explain(reason, err), err)
		t.withholdChallenge(req, resp, held, reason, text)
		return resp, ResultDeclined, nil
	}
	if slices.Contains(behindPayments, reason) {
		return t.declineWithheld(req, resp, reason, err)
	}
	return t.decline(req, resp, reason, err)
}

// behindPayments lists the reasons of requests that an earlier payment may be for: the answer to one has led there, the
// client's own word is that it is the same request, or the key is gone by which payments are looked for.
var behindPayments = []string{pay.RuleRedirected, DeclinedReused, DeclinedKeyRevoked}

// setRetryAfter asks the client to wait. A seller that asks it to wait for longer keeps its word.
func setRetryAfter(h http.Header, wait time.Duration, now time.Time) {
	seconds := int(math.Ceil(wait.Seconds()))
	said := h.Get("Retry-After")
	if n, err := strconv.Atoi(said); err == nil && n >= seconds {
		return
	}
	if at, err := http.ParseTime(said); err == nil && at.Sub(now) >= wait {
		return
	}
	h.Set("Retry-After", strconv.Itoa(seconds))
}

// refuseJob hands on a 402 to a question about a job whose payment cannot be sent.
func (t *Transport) refuseJob(req *http.Request, call *Call, resp *http.Response, err error) (*http.Response, string, error) {
	open, is := errors.AsType[*pay.OpenError](err)
	if !is || call.Dry || open.Payment.Lease.Live(t.now()) {
		return t.refuse(req, resp, err)
	}
	p := open.Payment
	reason, text := afterSend(p), fmt.Sprintf(jobExpired, pay.Moment(p.ValidBefore()))
	t.tellDeclined(req, reason, text, nil, p)
	t.log.WarnContext(req.Context(), "402 to a question about a job whose payment has expired", "payment", p.ID, "host", req.URL.Host, "reason", reason)
	t.withholdChallenge(req, resp, p, reason, text)
	return resp, ResultDeclined, nil
}

// jobExpired tells a client of a job whose payment cannot be sent any more, and when it ended.
const jobExpired = "This asks about a job that was paid for, and the authorization of that payment has expired (%s) before the seller took it; " +
	"nothing was paid now. Order the job again, or ask the seller"

// tellDeclined tells the observer of a 402 that is not paid, or not answered. held is the payment that the
// call has made or repeats, nil without one. A dry run buys nothing, so it is not told.
func (t *Transport) tellDeclined(req *http.Request, reason, detail string, price *money.Amount, held *pay.Payment) {
	call := callOf(req.Context())
	if call.Dry {
		return
	}
	d := pay.Decline{
		Reason: reason, Detail: printable(detail), KeyID: call.Key.ID, Task: call.Task,
		Host: pay.RecordedHost(req.URL.Scheme + "://" + req.URL.Host), Price: price,
	}
	if call.carrier != nil {
		d.Tool = policy.ToolOf(call.carrier.booked(req.URL))
	}
	if held != nil {
		amount := held.Moved()
		d.Payment, d.Price = held.ID, &amount
	}
	t.observer.Declined(d)
}

func (t *Transport) logDeclined(req *http.Request, why Explanation, cause error) {
	call := callOf(req.Context())
	t.log.InfoContext(req.Context(), "402 not paid", "key", call.Key.ID, "host", req.URL.Host, "task", call.Task, "amount", why.Price,
		"reason", why.Reason, "detail", why.Detail, "error", cause)
}

// unavailable returns the text of the 503 that takes the place of a 402, "" if the client gets the 402.
//
// If the journal is not asked, or the request's body cannot be kept for want of room, a payload
// for this request may be out. A client that knows x402 would pay the seller's challenge again.
func unavailable(reason string, err error) string {
	why := "; repeat the same request"
	switch reason {
	case DeclinedOverloaded, DeclinedSpool:
		if errors.Is(err, errQuota) || reason == DeclinedSpool {
			return "There is no room to keep the request body, so nothing was paid" + why
		}
		if failures, is := errors.AsType[*pay.FailuresError](err); is {
			return "Nothing was decided, because " + failures.Error() + why
		}
		return "Too much is under way" + why
	case DeclinedUnavailable, DeclinedReconciling, DeclinedClock, DeclinedInternal:
		if restored, is := errors.AsType[*pay.ReconcilingError](err); is {
			why = ": " + restored.Error()
		}
		if clock, is := errors.AsType[*pay.ClockError](err); is {
			why = ": " + clock.Error()
		}
		return "Payments are not possible at the moment" + why
	}
	return ""
}

// declineRedirected hands on a 402 to which the answer to a payment of this process has led, unpaid and
// without a challenge.
func (t *Transport) declineRedirected(req *http.Request, call *Call, resp *http.Response) (*http.Response, string, error) {
	p, err := t.payer.Payment(req.Context(), call.Key, call.led.paymentID)
	if err != nil {
		return t.refuse(req, resp, err)
	}
	reason := afterSend(p)
	t.tellDeclined(req, reason, pay.RedirectedHere, nil, p)
	t.log.WarnContext(req.Context(), "402 where the answer to a payment led", "payment", p.ID, "host", req.URL.Host, "reason", reason)
	t.withholdChallenge(req, resp, p, reason, pay.RedirectedHere)
	return resp, ResultDeclined, nil
}

// declineWithheld hands on a 402 without its challenge, because a payment for it may be out: see behindPayments. Or its
// client has left, and no earlier payment was looked for. A client that pays by itself would pay it.
func (t *Transport) declineWithheld(req *http.Request, resp *http.Response, reason string, err error) (*http.Response, string, error) {
	why := t.explain(reason, err)
	why.Detail = printable(why.Detail)
	t.tellDeclined(req, why.Reason, why.Detail, pay.PriceOf(err), nil)
	t.logDeclined(req, why, err)
	t.carrierFor(req).withhold(req, resp, problem{Error: notPaid + why.Detail, Reason: why.Reason, Detail: why.Detail}, why.Detail)
	return resp, ResultDeclined, nil
}

// Explanation tells a client why a 402 was not paid. The header Purser-Declined-Detail has its
// detail, and what to do. A body that is empty, JSON or not what the client accepts has all of it.
type Explanation struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	pay.FigureTexts
	Quote    *quoteView       `json:"quote,omitempty"`  // of a dry run
	Offers   []declines.Offer `json:"offers,omitempty"` // those of the challenge, in the order of choice
	Approval *approvalView    `json:"approval,omitempty"`
	// Do says what to do about the reason; nil for a word that is none.
	Do *declines.Advice `json:"do,omitempty"`

	resets time.Time
}

// Explain tells of a reason that needs no figures.
func Explain(reason string) Explanation {
	return Explanation{Reason: reason, Detail: declines.Why(reason), Do: declines.Do(reason)}
}

// explain tells of an error of the pay core or of this package.
func (t *Transport) explain(reason string, err error) Explanation {
	e := Explain(reason)
	if dry, is := errors.AsType[*dryRunError](err); is {
		if e.Quote = viewOf(dry.quote); dry.refusal == nil && e.Quote != nil {
			e.Detail = e.Quote.sentence()
		}
		e.Offers = declines.Offers(dry.quote.Offers)
		err = dry.refusal
	}
	if detail := detailOf(err); detail != "" {
		e.Detail = detail
	}
	if rule, is := errors.AsType[*pay.PolicyError](err); is && rule.Figures != nil {
		e.FigureTexts, e.resets = rule.Figures.Texts(), rule.Figures.Resets
	}
	if held, is := errors.AsType[*pay.ApprovalError](err); is {
		e.Price, e.Approval = money.Text(held.Approval.Terms.Amount), approvalOf(err)
	}
	if wait, _, is := pay.RetryAfter(err); is {
		e.resets = t.now().Add(wait)
	}
	if reason == DeclinedUnready {
		e.resets = t.now().Add(unreadyFor)
	}
	return e
}

// unreadyFor is when a client may ask again for what cannot be paid at the moment.
const unreadyFor = 5 * time.Second

// detailOf returns what an error has to say to the client; "" if its reason says it all.
func detailOf(err error) string {
	if rule, is := errors.AsType[*pay.PolicyError](err); is {
		return rule.Detail
	}
	if held, is := errors.AsType[*pay.ApprovalError](err); is {
		return held.Detail()
	}
	if failed, is := errors.AsType[*pay.FailedError](err); is {
		if failed.Facilitator != nil && failed.Cause == nil {
			return "the facilitator said: " + words.Quote(words.Of(failed.Detail))
		}
		return failed.Detail
	}
	if _, text, is := pay.RetryAfter(err); is {
		return text
	}
	return cmp.Or(saying[*pay.NoWalletError](err), saying[*x402.UnsupportedError](err), saying[*pay.UnreadyError](err), saying[*pay.HeaderError](err), saying[*unpaidError](err))
}

// saying returns the text of the error of a type that err wraps; "" if there is none.
func saying[E error](err error) string {
	if e, is := errors.AsType[E](err); is {
		return e.Error()
	}
	return ""
}

// Into puts an explanation into the 402 of a seller, whose challenge stays.
func (e Explanation) Into(req *http.Request, resp *http.Response) { e.into(req, resp, bodyPatience) }

// mark puts a reason and its detail into a header, with what to do as far as there is room, and words into the status
// line.
func mark(req *http.Request, h http.Header, reason, detail, words string) {
	h.Set(HeaderDeclined, reason)
	if do := declines.Do(reason).String(); do != "" {
		detail = strings.TrimPrefix(detail+". "+do, ". ")
	}
	if detail != "" {
		h.Set(HeaderDetail, printable(detail))
	}
	rephrase(req, http.StatusPaymentRequired, words)
}

// rephrase puts words into the status line of an answer, because some HTTP libraries show their users nothing else.
func rephrase(req *http.Request, status int, words string) {
	words = printable(words)
	conns.Rephrase(req.Context(), status, http.StatusText(status)+"; "+words[:min(len(words), maxPhrase)])
}

// notPaid begins the words for people.
const notPaid = "purser did not pay: "

// maxPhrase bounds what a status line has of words.
const maxPhrase = 250

// approvalPause is the time after which a held request may ask again. It waits for an answer then, as before.
const approvalPause = 5 * time.Second

// bodyPatience bounds the time in which the body of a 402 is read.
const bodyPatience = 10 * time.Second

func (e Explanation) into(req *http.Request, resp *http.Response, patience time.Duration) {
	e.head(req, resp)
	if req.Method == http.MethodHead {
		return
	}
	members, ours := e.place(req, resp, patience)
	if !ours {
		return
	}
	_ = resp.Body.Close()
	setBody(req, resp, members)
}

// head puts an explanation into the header, and completes its texts.
func (e *Explanation) head(req *http.Request, resp *http.Response) {
	e.Detail = printable(e.Detail)
	e.Error = notPaid + cmp.Or(e.Detail, e.Reason) // some SDKs show their users no other member
	mark(req, resp.Header, e.Reason, e.Detail, e.Error)
	if e.Approval != nil {
		resp.Header.Set(HeaderApproval, e.Approval.ID)
		if e.Reason == "approval-needed" {
			setRetryAfter(resp.Header, approvalPause, time.Now())
		}
	}
}

// place returns the body with the explanation: the members of the seller's, if that is a JSON object, and
// ours over them. It returns false if the seller's body stays as it is.
func (e Explanation) place(req *http.Request, resp *http.Response, patience time.Duration) (any, bool) {
	own, err := plainjson.Marshal(e)
	if err != nil {
		return nil, false
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	object := kind == "application/json" || strings.HasSuffix(kind, "+json")
	if resp.ContentLength == 0 || resp.Body == nil || resp.Body == http.NoBody {
		return json.RawMessage(own), true
	}
	if !object {
		return json.RawMessage(own), acceptsJSON(req.Header)
	}
	read, whole := readWhole(resp, patience)
	if !whole {
		return nil, false
	}
	plain := bytes.TrimSpace(decoded(read, resp.Header.Get("Content-Encoding")))
	if len(plain) == 0 {
		return json.RawMessage(own), true
	}
	// Written anew, a challenge that contradicts itself might be readable, and another client would pay it.
	if e.Reason == DeclinedUnreadable {
		return nil, false
	}
	members, err := strictjson.Object(plain)
	if err != nil {
		return nil, false
	}
	seller := maps.Clone(members)
	if json.Unmarshal(own, &members) != nil {
		return nil, false
	}
	for name, value := range seller { // the client may look for the terms there
		if x402.Wrapped(value) {
			members[name] = value
		}
	}
	return members, true
}

// readWhole reads a body to its end, at most as much as a challenge may have. It puts back what it
// has read.
func readWhole(resp *http.Response, patience time.Duration) (read []byte, whole bool) {
	source := resp.Body
	cut := time.AfterFunc(patience, func() { _ = source.Close() })
	defer cut.Stop()
	read, err := io.ReadAll(io.LimitReader(source, x402.MaxChallengeBytes+1))
	putBack(resp, read, err)
	return read, err == nil && len(read) <= x402.MaxChallengeBytes
}

// acceptsJSON reports whether a client names JSON among what it accepts. Browsers do not, and see the
// seller's page.
func acceptsJSON(h http.Header) bool {
	return strings.Contains(strings.ToLower(strings.Join(h.Values("Accept"), ",")), "application/json")
}

// maxDetail bounds what a header has of words that may be the seller's.
const maxDetail = 500

// printable returns text as a header can have it: in ASCII, on one line, bounded.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\u2026':
			return '.'
		case r < ' ', r == utf8.RuneError:
			return ' '
		case r > '~':
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxDetail)]
}
