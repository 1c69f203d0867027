package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Explanation tells a client why a 402 was not paid. The header Purser-Declined-Detail has its
// detail. A body that is empty, JSON or not what the client accepts has all of it.
type Explanation struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	pay.FigureTexts
	Quote    *quoteView    `json:"quote,omitempty"` // of a dry run
	Approval *approvalView `json:"approval,omitempty"`

	resets time.Time
}

// Explain tells of a reason that needs no figures.
func Explain(reason string) Explanation {
	return Explanation{Reason: reason, Detail: declines.Why(reason)}
}

// explain tells of an error of the pay core or of this package.
func (t *Transport) explain(reason string, err error) Explanation {
	e := Explain(reason)
	if dry, is := errors.AsType[*dryRunError](err); is {
		if e.Quote = viewOf(dry.quote); dry.refusal == nil && e.Quote != nil {
			e.Detail = e.Quote.words()
		}
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
	return e
}

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
	return cmp.Or(saying[*pay.NoWalletError](err), saying[*x402.UnsupportedError](err), saying[*pay.HeaderError](err), saying[unaskedError](err))
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

// mark puts a reason and its detail into a header, and words into the status line: some HTTP libraries
// show their users nothing else of an answer.
func mark(req *http.Request, h http.Header, reason, detail, words string) {
	h.Set(HeaderDeclined, reason)
	if detail != "" {
		h.Set(HeaderDetail, detail)
	}
	conns.Rephrase(req.Context(), http.StatusPaymentRequired, "Payment Required; "+words[:min(len(words), maxPhrase)])
}

// notPaid begins the words for people.
const notPaid = "purser did not pay: "

// maxPhrase bounds what a status line has of words.
const maxPhrase = 250

// bodyPatience bounds the time in which the body of a 402 is read.
const bodyPatience = 10 * time.Second

func (e Explanation) into(req *http.Request, resp *http.Response, patience time.Duration) {
	e.Detail = printable(e.Detail)
	e.Error = notPaid + cmp.Or(e.Detail, e.Reason) // some SDKs show their users no other member
	mark(req, resp.Header, e.Reason, e.Detail, e.Error)
	if e.Approval != nil {
		resp.Header.Set(HeaderApproval, e.Approval.ID)
	}
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

// place returns the body with the explanation: the members of the seller's, if that is a JSON object, and
// ours over them. It returns false if the seller's body stays as it is.
func (e Explanation) place(req *http.Request, resp *http.Response, patience time.Duration) (any, bool) {
	own, err := json.Marshal(e)
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
