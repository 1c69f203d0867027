package payapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/internal/breaker"
	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// problem is the body of every refusal.
type problem struct {
	Error  string `json:"error"`
	Detail string `json:"detail,omitempty"`
	Rule   string `json:"rule,omitempty"`
	pay.FigureTexts
	Facilitator json.RawMessage `json:"facilitator,omitempty"`
	Payment     *paymentState   `json:"payment,omitempty"`
	Approval    *approvalView   `json:"approval,omitempty"`
	UpgradeURL  string          `json:"upgradeUrl,omitempty"`
	// Do says what to do about a reason that keeps purser from paying.
	Do *declines.Advice `json:"do,omitempty"`
	// Offers has all of the challenge, if a quote was refused.
	Offers []declines.Offer `json:"offers,omitempty"`
}

// approvalView names the approval that a payment needs.
type approvalView struct {
	ID      string `json:"id"`
	Expires string `json:"expires"` // RFC 3339, UTC
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
	textPolicy      = "Payment refused by policy"
	textReceipt     = "Invalid receipt"
	textVerify      = "Payment verification failed"
	textSettle      = "Payment settlement failed"
	detailGone      = "the client has left or half-closed its connection, which look the same, so nothing was paid; keep the connection open until the answer has come"
)

var (
	errNotFound    = &refusal{status: http.StatusNotFound, text: "Not found"}
	errInternal    = &refusal{status: http.StatusInternalServerError, text: "Internal error"}
	errBefore      = &refusal{status: http.StatusBadRequest, text: "Invalid before", detail: "the id of the last entry of the page before"}
	errMisdirect   = &refusal{status: http.StatusMisdirectedRequest, text: "Misdirected request", detail: "this address is not served under that host name"}
	errClosed      = &refusal{status: http.StatusForbidden, text: "Registration is closed", detail: "keys are made by the operator of this purser"}
	errOperatorKey = &refusal{status: http.StatusForbidden, text: "Not allowed for this key", detail: "the operator of this purser has made it, and deletes its wallets"}
	errCrossSite   = &refusal{status: http.StatusForbidden, text: "Cross-site request refused", detail: "the page's origin is not in PURSER_ALLOWED_ORIGINS"}
)

// keyError marks an error of POST /api-keys, which has its own text.
type keyError struct{ cause error }

func (e *keyError) Error() string { return "creating a key: " + e.cause.Error() }
func (e *keyError) Unwrap() error { return e.cause }

// Values of Retry-After, in seconds.
const (
	retryStore   = 5  // the store tries to recover every second
	retryOpen    = 5  // a repeat continues the payment
	retryHeld    = 5  // a person may have answered
	retryExpired = 60 // only recovery can still close the payment
)

// refuse turns an error into an answer. No other function does.
func (a *API) refuse(r *http.Request, err error) reply {
	status, body, retry := a.problemFor(err)
	if status == http.StatusTooManyRequests {
		body.UpgradeURL = a.upgrade(r)
	}
	switch {
	case errors.Is(err, errInternal): // logged where it was made
	case status == http.StatusInternalServerError:
		a.log.Error("request failed", "method", r.Method, "route", r.Pattern, "error", err)
	case status == http.StatusServiceUnavailable && r.Pattern == pathPay && (conns.Asked(r.Context()).Err() != nil || conns.Gone(r.Context())):
		body.Detail = detailGone // also where the end of the call looks like a fault of the store
	case status == http.StatusServiceUnavailable:
		a.log.Warn("request not served", "method", r.Method, "route", r.Pattern, "error", err)
	}
	if status != http.StatusInternalServerError {
		body.Do = declines.Do(cmp.Or(body.Rule, declinedWord(err)))
	}
	if quote, is := errors.AsType[*quoteError](err); is && (status == http.StatusBadRequest || status == http.StatusPaymentRequired) {
		body.Offers = declines.Offers(quote.offers)
	}
	rep := reply{status: status, body: body}
	if retry > 0 {
		rep.header = map[string]string{"Retry-After": strconv.Itoa(retry)}
	}
	return rep
}

// problemFor returns status, body and Retry-After in seconds for an error. 0 means no Retry-After.
func (a *API) problemFor(err error) (int, problem, int) {
	_, creating := errors.AsType[*keyError](err)
	if e, ok := errors.AsType[*refusal](err); ok {
		body := problem{Error: e.text, Detail: e.detail}
		if creating && e.status == http.StatusServiceUnavailable {
			body.Error = textKeyFailed
		}
		return e.status, body, e.retryAfter
	}
	code := pay.Code(err)
	if simple, ok := answers[code]; ok {
		return simple.status, problem{Error: simple.text, Detail: simple.detail}, 0
	}
	switch code {
	case pay.CodeHeader:
		return http.StatusBadRequest, problem{Error: textHeader, Detail: as[*pay.HeaderError](err).Error()}, 0
	case pay.CodeNoWallet:
		e := as[*pay.NoWalletError](err)
		return http.StatusBadRequest, problem{Error: "No wallet for network " + e.Network + ". Create one with POST /wallets.", Detail: e.Unpayable}, 0
	case pay.CodeUnsupported:
		e := as[*x402.UnsupportedError](err)
		what := e.Kind
		if what == "scheme" {
			what = "payment scheme"
		}
		return http.StatusBadRequest, problem{Error: "Unsupported " + what + " " + e.Value, Detail: e.Detail}, 0
	case pay.CodeInput:
		return http.StatusBadRequest, inputProblem(as[*pay.InputError](err)), 0
	case pay.CodeFailures, pay.CodeQuestions:
		wait, detail, _ := pay.RetryAfter(err)
		return http.StatusTooManyRequests, problem{Error: textTooMany, Detail: detail}, max(1, int(math.Ceil(wait.Seconds())))
	case pay.CodePolicy:
		e := as[*pay.PolicyError](err)
		body := problem{Error: textPolicy, Rule: e.Rule, Detail: e.Detail, FigureTexts: e.Figures.Texts()}
		return http.StatusPaymentRequired, body, a.until(e.Figures)
	case pay.CodeApproval:
		held := approvalProblem(as[*pay.ApprovalError](err))
		if held.Approval != nil && held.Rule == "approval-needed" {
			return http.StatusPaymentRequired, held, retryHeld
		}
		return http.StatusPaymentRequired, held, 0
	case pay.CodeOpen:
		state, retry := a.stateOf(as[*pay.OpenError](err).Payment)
		return http.StatusPaymentRequired, problem{Error: textSettle, Detail: "the outcome of this payment is not known yet; send the same call again", Payment: state}, retry
	case pay.CodeFailed:
		body, retry := a.failed(as[*pay.FailedError](err))
		return http.StatusPaymentRequired, body, retry
	case pay.CodeSigner:
		return http.StatusServiceUnavailable, problem{Error: textUnavailable, Detail: as[*pay.SignerError](err).Error()}, retryStore
	case pay.CodeUnready:
		return http.StatusServiceUnavailable, problem{Error: textUnavailable, Detail: as[*pay.UnreadyError](err).Error()}, retryOpen
	case pay.CodeReconciling, pay.CodeClock, pay.CodeUnavailable, pay.CodeCallerGone, pay.CodeEnded:
		body := problem{Error: textUnavailable}
		if creating {
			body.Error = textKeyFailed
		}
		if code == pay.CodeReconciling {
			body.Detail = as[*pay.ReconcilingError](err).Error()
		}
		if code == pay.CodeClock {
			body.Detail = as[*pay.ClockError](err).Error()
		}
		return http.StatusServiceUnavailable, body, retryStore
	default:
		return errInternal.status, problem{Error: errInternal.text}, 0
	}
}

// approvalProblem returns the body for a payment that a person must approve first, or has denied.
func approvalProblem(e *pay.ApprovalError) problem {
	body := problem{Error: textPolicy, Rule: e.Rule(), Detail: e.Detail()}
	body.Price = money.Text(e.Approval.Terms.Amount)
	if id := e.Approval.ID; id != "" {
		body.Approval = &approvalView{ID: id, Expires: e.Approval.Expires.UTC().Format(time.RFC3339)}
	}
	return body
}

// until returns the seconds until a rule lets the same payment pass; 0 if no time helps.
func (a *API) until(f *pay.Figures) int {
	if f == nil || f.Resets.IsZero() {
		return 0
	}
	return max(1, int(math.Ceil(f.Resets.Sub(a.now()).Seconds())))
}

// answers has the answers to errors that hold nothing else.
var answers = map[pay.ErrorCode]refusal{
	pay.CodeKeyNotFound:     {status: http.StatusUnauthorized, text: declines.UnknownKey, detail: declines.UnknownKeyDetail},
	pay.CodeKeyRevoked:      {status: http.StatusUnauthorized, text: declines.UnknownKey, detail: declines.UnknownKeyDetail}, // revoked during the call
	pay.CodeKeyExists:       {status: http.StatusBadRequest, text: "That API key already exists"},
	pay.CodeKeyLimit:        {status: http.StatusTooManyRequests, text: "API key limit reached for your plan"},
	pay.CodeWalletLimit:     {status: http.StatusTooManyRequests, text: "Wallet limit reached for your plan"},
	pay.CodeQuota:           {status: http.StatusTooManyRequests, text: "Payment limit reached for your plan this month", detail: "the count begins anew with the next month (UTC)"},
	pay.CodeWalletNotFound:  {status: http.StatusNotFound, text: "Wallet not found"},
	pay.CodePaymentNotFound: {status: http.StatusNotFound, text: "Payment not found"},
	pay.CodeEventNotFound:   *errBefore,
	pay.CodeChallenge:       {status: http.StatusConflict, text: pay.ErrChallengeTaken.Error(), detail: "ask the seller again, and pay its fresh challenge"},
	pay.CodeReused:          {status: http.StatusBadRequest, text: "idempotencyKey already used for a different request", detail: "use one key for one request, and a new key for this one"},
}

// as returns the error of a type that the error's code says is there.
func as[E error](err error) E {
	e, _ := errors.AsType[E](err)
	return e
}

// failed returns the body for a payment that was not made, or of which that is not known, and the
// seconds until a repeat makes sense.
func (a *API) failed(e *pay.FailedError) (body problem, retry int) {
	body = problem{Error: textVerify, Detail: e.Detail, Facilitator: e.Facilitator}
	if e.Stage == pay.StageSettle {
		body.Error = textSettle
	}
	switch pay.Code(e.Cause) {
	default: // the detail says all
	case pay.CodeNoFacilitator:
		body.Detail += ` (PURSER_FACILITATOR_URL); "settlement":"seller" works without one`
	case pay.CodeSellerSettles:
		body.Detail += `. Pay it with "settlement":"seller"`
		if earlier := as[*pay.SellerSettlesError](e).Earlier; earlier != "" {
			body.Detail += "; the earlier payment is " + earlier
		}
	}
	body.Payment, retry = a.stateOf(e.Payment)
	if open, failing := errors.AsType[*breaker.OpenError](e); failing && e.Payment == nil {
		retry = max(1, int(math.Ceil(open.In.Seconds())))
	}
	return body, retry
}

// WriteUnavailable answers a request while the store cannot be opened and no API runs. detail, which may be empty, is for
// strangers. GET /health says it, too.
func WriteUnavailable(w http.ResponseWriter, r *http.Request, version, detail string) {
	var body any = problem{Error: unavailableText(r), Detail: detail}
	if r.Method == http.MethodGet && r.URL.Path == "/health" {
		body = struct {
			OK       bool           `json:"ok"`
			Service  string         `json:"service"`
			Version  string         `json:"version"`
			Database databaseHealth `json:"database"`
			problem
		}{Service: service, Version: version, Database: databaseHealth{Configured: true}, problem: problem{Error: textUnavailable, Detail: detail}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = plainjson.Encoder(w).Encode(body)
}

func unavailableText(r *http.Request) string {
	if r.Method == http.MethodPost && r.URL.Path == "/api-keys" {
		return textKeyFailed
	}
	return textUnavailable
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
