package payapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Bounds on fields of POST /v1/pay.
const (
	maxRequestURL     = 8 << 10 // in bytes
	maxIdempotencyKey = 255     // in characters
)

// payResult is the body of a successful POST /v1/pay.
type payResult struct {
	PaymentSignature string       `json:"paymentSignature"`
	Settled          bool         `json:"settled"`
	Transaction      string       `json:"transaction"`
	PaymentHeader    string       `json:"paymentHeader"`
	Payment          paymentState `json:"payment"`
}

// pay serves POST /v1/pay.
func (a *API) pay(r *http.Request, key pay.Key, place *place) (reply, error) {
	r = r.WithContext(conns.Asked(r.Context()))
	if conns.Blind(r.Context()) {
		return reply{}, fmt.Errorf("the end of the client's request cannot be seen: %w", pay.ErrUnavailable)
	}
	arrival := a.payer.Arrive(key.ID)
	defer arrival.Decided()
	want, err := a.payRequest(r)
	want.Key, want.Arrival, want.Gone = key, arrival, func() bool { return conns.Gone(r.Context()) }
	if err != nil {
		if pay.Code(err) == pay.CodeHeader || isBusy(err) { // other faults are of the call, and not of a purchase
			a.tellDeclined(want, err)
		}
		return reply{}, err
	}
	var attempt *pay.Attempt
	if err = pay.ErrCallerGone; r.Context().Err() == nil && !want.Gone() {
		attempt, err = a.attempt(r, want, place)
	}
	if err != nil {
		a.tellDeclined(want, err)
		return reply{}, err
	}
	row := attempt.Payment()
	spoken := a.protocols.Of(attempt.Payload())
	if spoken == nil {
		attempt.Finish(false)
		return reply{}, fmt.Errorf("payment %s is in a protocol that is not configured here", row.ID)
	}
	name, credential := spoken.Credential(attempt.Payload())
	result := payResult{
		PaymentSignature: credential, PaymentHeader: name,
		Settled: row.State == pay.Settled, Transaction: row.Transaction, Payment: newPaymentState(row),
	}
	failpoint.Here(failpoint.APIAnswering)
	attempt.Ending(true) // its client may be back before the writer is
	return reply{status: http.StatusOK, body: result, finish: func(w http.ResponseWriter, written bool) {
		attempt.Deliver(written, func() func() bool { return acknowledged(w, r, attempt) })
	}}, nil
}

// acknowledged watches the end of an answer: see [pay.Attempt.Deliver]. A client that does not close its
// connection, as it has announced, is taken for one without an answer once.
func acknowledged(to http.ResponseWriter, r *http.Request, attempt *pay.Attempt) func() bool {
	w := conns.Take(to, r)
	if w == nil {
		return nil
	}
	closes := conns.Closes(r.Header.Values("Connection")...) && !attempt.Repeats()
	return func() bool { return w.Acknowledged(closes) }
}

// attempt pays. A call that needs a person's approval waits for it outside its place, and pays the terms
// that were approved.
func (a *API) attempt(r *http.Request, want pay.Request, place *place) (*pay.Attempt, error) {
	attempt, err := a.payer.Pay(r.Context(), want)
	if pay.Code(err) != pay.CodeApproval {
		return attempt, err
	}
	err = place.outside(r, func() (failed error) {
		want.Approved, failed = a.payer.AwaitApproval(r.Context(), want, err)
		return failed
	})
	if err != nil {
		return nil, err
	}
	if attempt, err = a.payer.Pay(r.Context(), want); err != nil {
		_, err = a.payer.AwaitApproval(r.Context(), want, err) // it waits once
	}
	return attempt, err
}

// tellDeclined tells of a payment that was refused, in the words of the answer.
func (a *API) tellDeclined(want pay.Request, err error) {
	if a.declined == nil {
		return
	}
	_, body, _ := a.problemFor(err)
	d := pay.Decline{
		Reason: cmp.Or(body.Rule, declinedWord(err)), Detail: cmp.Or(body.Detail, body.Error),
		KeyID: want.Key.ID, Task: want.Task, Host: pay.RecordedHost(want.URL), Tool: policy.ToolOf(want.URL), Price: pay.PriceOf(err),
	}
	if body.Payment != nil {
		d.Payment = body.Payment.ID
	}
	a.declined(d)
}

// declinedWord returns the reason word for an error, the same as at the proxy.
func declinedWord(err error) string {
	if isBusy(err) {
		return "overloaded"
	}
	code := pay.Code(err)
	if failed, is := errors.AsType[*pay.FailedError](err); is && code == pay.CodeFailed {
		return declines.OfFailed(failed)
	}
	return cmp.Or(declines.Of(code).Word, string(code))
}

// payRequest reads the body, and checks the challenge before the other fields.
func (a *API) payRequest(r *http.Request) (want pay.Request, err error) {
	f, err := readFields(r, textHeader)
	if err != nil {
		return want, err
	}
	header, _, err := f.text("paymentRequiredHeader", textHeader)
	if err != nil {
		return want, err
	}
	if want.Challenge, err = a.decodeChallenge(header); err != nil {
		return want, err
	}
	want.Door = policy.DoorAPI
	if want.URL, err = requestURL(f, want.Challenge); err != nil {
		return want, err
	}
	if want.IdempotencyKey, err = idempotencyKey(f); err != nil {
		return want, err
	}
	settlement, _, err := f.text("settlement", "Invalid settlement")
	if err != nil {
		return want, err
	}
	unless := a.settlement
	if want.Challenge.Version >= x402.OtherProtocols { // a facilitator settles payments of x402 only
		unless = pay.SettleSeller
	}
	if want.Settlement, err = pay.ParseSettlement(settlement, unless); err != nil {
		return want, err
	}
	if want.Task, _, err = f.text("task", "Invalid task"); err != nil {
		return want, err
	}
	want.MaxAmount, err = maxAmount(r)
	return want, err
}

// maxAmount reads the most that the caller wants to pay. It refuses an unreadable text: the caller counts
// on it.
func maxAmount(r *http.Request) (*money.Amount, error) {
	values := r.Header.Values("Purser-Max-Amount")
	if len(values) == 0 {
		return nil, nil
	}
	most, err := money.ParseText(strings.Join(values, ","))
	if err != nil {
		return nil, badRequest("Invalid Purser-Max-Amount", "one amount of USDC such as 0.05")
	}
	return &most, nil
}

// decodeChallenge reads a challenge header. It accepts base64 only: plain JSON, which sellers may
// send at other doors, would contradict the text of the refusal.
func (a *API) decodeChallenge(header string) (x402.Challenge, error) {
	header = strings.TrimSpace(header)
	switch {
	case header == "":
		return x402.Challenge{}, &pay.HeaderError{Cause: errors.New("nothing was given")}
	case header[0] == '{' || header[0] == '[':
		return x402.Challenge{}, &pay.HeaderError{Cause: errors.New("not base64")}
	}
	c, err := a.protocols.Decode(header)
	if err != nil {
		return c, &pay.HeaderError{Cause: err}
	}
	if !slices.ContainsFunc(c.Accepts, func(q x402.Requirement) bool { return q.Network != "" }) {
		return c, &pay.HeaderError{Cause: errors.New("no requirement names a network")}
	}
	return c, nil
}

// requestURL returns the URL for the books: the caller's, or else the seller's if it is valid.
func requestURL(f fields, c x402.Challenge) (string, error) {
	const text = "Invalid requestUrl"
	given, _, err := f.text("requestUrl", text)
	switch {
	case err != nil:
		return "", err
	case given == "" && validRequestURL(c.ResourceURL):
		if err := checkHost(c.ResourceURL); err != nil {
			return "", &pay.HeaderError{Cause: fmt.Errorf("the URL of the resource: %w", err)}
		}
		return c.ResourceURL, nil
	case given != "" && !validRequestURL(given) && !validToolURL(given):
		return "", badRequest(text, "an absolute http or https URL of at most 8 KiB")
	}
	if err := checkHost(given); err != nil {
		return "", badRequest(text, err.Error())
	}
	return given, nil
}

func validRequestURL(s string) bool { return len(s) <= maxRequestURL && absoluteURL(s) }

// validToolURL reports whether s names a tool, resource or prompt of an MCP server.
func validToolURL(s string) bool { return len(s) <= maxRequestURL && policy.NamesTool(s) }

func checkHost(valid string) error {
	u, err := url.Parse(valid)
	if err != nil {
		return err
	}
	return policy.CheckHost(u)
}

// idempotencyKey reads the caller's key. It refuses an empty key, because the caller would not get
// the expected protection.
func idempotencyKey(f fields) (string, error) {
	const text = "Invalid idempotencyKey"
	key, given, err := f.text("idempotencyKey", text)
	if err != nil || !given {
		return "", err
	}
	// Invalid escapes all decode to U+FFFD, and different keys would become one.
	if n := utf8.RuneCountInString(key); n < 1 || n > maxIdempotencyKey || strings.ContainsRune(key, utf8.RuneError) {
		return "", badRequest(text, "1 to 255 characters")
	}
	return key, nil
}
