package payapi

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// problem is the body of every refusal.
type problem struct {
	Error       string          `json:"error"`
	Detail      string          `json:"detail,omitempty"`
	Rule        string          `json:"rule,omitempty"`
	Facilitator json.RawMessage `json:"facilitator,omitempty"`
	Payment     *paymentState   `json:"payment,omitempty"`
	UpgradeURL  string          `json:"upgradeUrl,omitempty"`
}

// refusal is an error about the request itself, with its answer.
type refusal struct {
	status       int
	text, detail string
	retryAfter   int // in seconds; 0: none
}

func (e *refusal) Error() string { return e.text }

func badRequest(text, detail string) error {
	return &refusal{status: http.StatusBadRequest, text: text, detail: detail}
}

// Texts that more than one place uses.
const (
	textKeyFailed   = "Failed to create API key"
	textUnavailable = "Service unavailable"
	textTooMany     = "Too many requests"
	textHeader      = "paymentRequiredHeader (base64) required"
	textReceipt     = "Invalid receipt"
	textVerify      = "Payment verification failed"
	textSettle      = "Payment settlement failed"
)

var (
	errNotFound  = &refusal{status: http.StatusNotFound, text: "Not found"}
	errInternal  = &refusal{status: http.StatusInternalServerError, text: "Internal error"}
	errBefore    = badRequest("Invalid before", "the id of the last entry of the page before")
	errMisdirect = &refusal{status: http.StatusMisdirectedRequest, text: "Misdirected request", detail: "this address is not served under that host name"}
	errClosed    = &refusal{status: http.StatusForbidden, text: "Registration is closed", detail: "keys are made by the operator of this purser"}
	errCrossSite = &refusal{status: http.StatusForbidden, text: "Cross-site request refused", detail: "the page's origin is not in PURSER_ALLOWED_ORIGINS"}
)

// keyError marks an error of POST /api-keys, which has its own text.
type keyError struct{ cause error }

func (e *keyError) Error() string { return "creating a key: " + e.cause.Error() }
func (e *keyError) Unwrap() error { return e.cause }

// Values of Retry-After, in seconds.
const (
	retryStore   = 5  // the store tries to recover every second
	retryOpen    = 5  // a repeat continues the payment
	retryExpired = 60 // only recovery can still close the payment
)

// refuse turns an error into an answer. No other function does.
func (a *API) refuse(r *http.Request, err error) reply {
	status, body, retry := a.judge(err)
	if status == http.StatusTooManyRequests {
		body.UpgradeURL = a.upgrade(r)
	}
	switch {
	case errors.Is(err, errInternal): // logged where it was made
	case status == http.StatusInternalServerError:
		a.log.Error("request failed", "method", r.Method, "route", r.Pattern, "error", err)
	case status == http.StatusServiceUnavailable && r.Context().Err() == nil:
		a.log.Warn("request not served", "method", r.Method, "route", r.Pattern, "error", err)
	}
	rep := reply{status: status, body: body}
	if retry > 0 {
		rep.header = map[string]string{"Retry-After": strconv.Itoa(retry)}
	}
	return rep
}

// judge returns status, body and Retry-After in seconds for an error. 0 means no Retry-After.
func (a *API) judge(err error) (int, problem, int) {
	_, creating := errors.AsType[*keyError](err)
	if e, ok := errors.AsType[*refusal](err); ok {
		body := problem{Error: e.text, Detail: e.detail}
		if creating && e.status == http.StatusServiceUnavailable {
			body.Error = textKeyFailed
		}
		return e.status, body, e.retryAfter
	}
	if status, body, retry, ok := a.judgePayment(err); ok {
		return status, body, retry
	}
	if e, ok := errors.AsType[*pay.InputError](err); ok {
		return http.StatusBadRequest, inputProblem(e), 0
	}
	simple := func(status int, text string) (int, problem, int) { return status, problem{Error: text}, 0 }
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		return simple(http.StatusUnauthorized, "API key not resolved")
	case errors.Is(err, pay.ErrKeyExists):
		return simple(http.StatusBadRequest, "That API key already exists")
	case errors.Is(err, pay.ErrKeyLimit):
		return simple(http.StatusTooManyRequests, "API key limit reached for your plan")
	case errors.Is(err, pay.ErrKeyRevoked): // revoked during the call
		return a.judge(pay.ErrKeyNotFound)
	case errors.Is(err, pay.ErrWalletLimit):
		return simple(http.StatusTooManyRequests, "Wallet limit reached for your plan")
	case errors.Is(err, pay.ErrQuota):
		return simple(http.StatusTooManyRequests, "Payment limit reached for your plan this month")
	case errors.Is(err, pay.ErrWalletNotFound):
		return simple(http.StatusNotFound, "Wallet not found")
	case errors.Is(err, pay.ErrPaymentNotFound):
		return simple(http.StatusNotFound, "Payment not found")
	case errors.Is(err, pay.ErrEventNotFound):
		return a.judge(errBefore)
	case errors.Is(err, pay.ErrIdempotencyReused):
		return simple(http.StatusBadRequest, pay.ErrIdempotencyReused.Error())
	case unavailable(err):
		body := problem{Error: textUnavailable}
		if e, restored := errors.AsType[*pay.ReconcilingError](err); restored {
			body.Detail = e.Error()
		}
		if e, clock := errors.AsType[*pay.ClockError](err); clock {
			body.Detail = e.Error()
		}
		if creating {
			body.Error = textKeyFailed
		}
		return http.StatusServiceUnavailable, body, retryStore
	}
	return simple(http.StatusInternalServerError, errInternal.text)
}

// UnavailableText returns the text of the 503 that is sent when the store cannot be opened and no
// API runs.
func UnavailableText(r *http.Request) string {
	if r.Method == http.MethodPost && r.URL.Path == "/api-keys" {
		return textKeyFailed
	}
	return textUnavailable
}

// unavailable reports whether the store cannot write, or the caller has left and reads no answer.
func unavailable(err error) bool {
	return errors.Is(err, pay.ErrUnavailable) || errors.Is(err, pay.ErrCallerGone) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// judgePayment maps the errors that only paying can return.
func (a *API) judgePayment(err error) (status int, body problem, retry int, ok bool) {
	if e, is := errors.AsType[*pay.HeaderError](err); is {
		return http.StatusBadRequest, problem{Error: textHeader, Detail: e.Error()}, 0, true
	}
	if e, is := errors.AsType[*pay.FailuresError](err); is {
		return http.StatusTooManyRequests, problem{Error: textTooMany, Detail: e.Error()}, max(1, int(math.Ceil(e.RetryAfter.Seconds()))), true
	}
	if e, is := errors.AsType[*pay.NoWalletError](err); is {
		return http.StatusBadRequest, problem{Error: e.Error() + ". Create one with POST /wallets."}, 0, true
	}
	if e, is := errors.AsType[*x402.UnsupportedError](err); is {
		what := e.Kind
		if what == "scheme" {
			what = "payment scheme"
		}
		return http.StatusBadRequest, problem{Error: "Unsupported " + what + " " + e.Value, Detail: e.Detail}, 0, true
	}
	if e, is := errors.AsType[*pay.PolicyError](err); is {
		return http.StatusPaymentRequired, problem{Error: "Payment refused by policy", Rule: e.Rule, Detail: e.Detail}, 0, true
	}
	if e, is := errors.AsType[*pay.OpenError](err); is {
		body = problem{Error: textSettle, Detail: "the outcome of this payment is not known yet"}
		body.Payment, retry = a.stateOf(e.Payment)
		return http.StatusPaymentRequired, body, retry, true
	}
	if e, is := errors.AsType[*pay.FailedError](err); is {
		body = problem{Error: textVerify, Detail: e.Detail, Facilitator: e.Facilitator}
		if e.Stage == pay.StageSettle {
			body.Error = textSettle
		}
		body.Payment, retry = a.stateOf(e.Payment)
		if open, failing := errors.AsType[*breaker.OpenError](e); failing && e.Payment == nil {
			retry = max(1, int(math.Ceil(open.In.Seconds())))
		}
		return http.StatusPaymentRequired, body, retry, true
	}
	return 0, problem{}, 0, false
}

// stateOf returns the payment's state for a refusal, and the seconds until a repeat makes sense
// while it is open.
func (a *API) stateOf(p *pay.Payment) (*paymentState, int) {
	if p == nil {
		return nil, 0
	}
	state := newPaymentState(p)
	switch {
	case p.State != pay.Open:
		return &state, 0
	case p.Sendable(a.now()):
		return &state, retryOpen
	}
	return &state, retryExpired
}

// inputProblem returns the text for a malformed field that package pay found.
func inputProblem(e *pay.InputError) problem {
	switch e.Field {
	case "label", "key", "organization_id", "plan":
		return problem{Error: textKeyFailed, Detail: e.Error()}
	case "network":
		return problem{Error: e.Reason}
	}
	return problem{Error: "Invalid " + e.Field, Detail: e.Reason}
}

// upgrade returns the URL for higher limits, which a 429 names.
func (a *API) upgrade(r *http.Request) string {
	if a.upgradeURL != "" {
		return a.upgradeURL
	}
	return a.origin(r) + "/dashboard"
}

// origin returns the public URL, or else the address of the request.
func (a *API) origin(r *http.Request) string {
	switch {
	case a.publicURL != "":
		return a.publicURL
	case r.Host == "":
		return ""
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
