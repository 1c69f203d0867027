package proxy

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/pay"
)

// decline hands the seller's 402 on, with the reason why it was not paid.
func (t *Transport) decline(req *http.Request, resp *http.Response, reason string, cause error) *http.Response {
	t.declined(reason)
	log := t.log.With("key", keyOf(req), "host", req.URL.Host, "reason", reason)
	if cause != nil {
		log.InfoContext(req.Context(), "402 not paid", "error", cause)
	} else {
		log.InfoContext(req.Context(), "402 not paid")
	}
	resp.Header.Set(HeaderDeclined, reason)
	return resp
}

// refuse hands on the 402 after the pay core has said no.
func (t *Transport) refuse(req *http.Request, resp *http.Response, err error) (*http.Response, string) {
	reason, held := declined(err)
	if failures, is := errors.AsType[*pay.FailuresError](err); is {
		resp.Header.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(failures.RetryAfter.Seconds())))))
		return t.decline(req, resp, reason, err), ResultDeclined
	}
	if reason == DeclinedOverloaded {
		t.declined(reason)
		t.log.WarnContext(req.Context(), "402 not paid", "key", keyOf(req), "host", req.URL.Host, "reason", reason, "error", err)
		closeBody(resp)
		return overloaded(req), ResultRefused
	}
	if reason == DeclinedUnavailable || reason == DeclinedReconciling || reason == DeclinedClock || reason == DeclinedInternal {
		// The journal could not be asked, so a payload for this request may be out. A client
		// that knows x402 would pay the seller's challenge again.
		t.declined(reason)
		t.log.ErrorContext(req.Context(), "402 not paid", "key", keyOf(req), "host", req.URL.Host, "reason", reason, "error", err)
		closeBody(resp)
		text := "Payments are not possible at the moment; repeat the same request"
		if restored, ok := errors.AsType[*pay.ReconcilingError](err); ok {
			text = "Payments are not possible at the moment: " + restored.Error()
		}
		if clock, ok := errors.AsType[*pay.ClockError](err); ok {
			text = "Payments are not possible at the moment: " + clock.Error()
		}
		out := ownResponse(req, http.StatusServiceUnavailable, problem{Error: text, Reason: reason})
		out.Header.Set("Retry-After", "5")
		return out, ResultRefused
	}
	if held == nil {
		return t.decline(req, resp, reason, err), ResultDeclined
	}
	t.decline(req.WithContext(pay.WithPayment(req.Context(), held.ID)), resp, reason, err)
	t.withholdChallenge(req, resp, held, reason)
	return resp, ResultDeclined
}

// declineRedirected hands on a 402 that the answer to a payment has led to, unpaid and without a
// challenge.
func (t *Transport) declineRedirected(req *http.Request, call *Call, resp *http.Response, paymentID string) (*http.Response, string) {
	p, err := t.payer.Payment(req.Context(), call.Key, paymentID)
	if err != nil {
		return t.refuse(req, resp, err)
	}
	reason := afterSend(p)
	t.declined(reason)
	t.log.WarnContext(pay.WithPayment(req.Context(), p.ID), "402 where the answer to a payment led", "payment", p.ID, "host", req.URL.Host, "reason", reason)
	t.withholdChallenge(req, resp, p, reason)
	return resp, ResultDeclined
}

// bodyReason returns the word for a body that could not be kept.
func bodyReason(err error) string {
	switch {
	case errors.Is(err, errTooLarge):
		return DeclinedBodyTooLarge
	case errors.Is(err, errQuota):
		return DeclinedOverloaded
	case errors.Is(err, errSpool):
		return DeclinedSpool
	}
	return DeclinedBodyIncomplete
}

// declineBody answers a 402 to a request whose body could not be kept.
//
// If purser is short of room, the same request may have been paid before, when there was room.
// Without its body no earlier payment is recognized. So the client gets a 503 and not the seller's
// challenge, which it might pay by itself a second time.
func (t *Transport) declineBody(req *http.Request, resp *http.Response, err error) (*http.Response, string) {
	reason := bodyReason(err)
	if reason != DeclinedOverloaded && reason != DeclinedSpool {
		return t.decline(req, resp, reason, err), ResultDeclined
	}
	t.declined(reason)
	t.log.WarnContext(req.Context(), "402 not paid", "key", keyOf(req), "host", req.URL.Host, "reason", reason, "error", err)
	closeBody(resp)
	out := ownResponse(req, http.StatusServiceUnavailable, problem{
		Error: "There is no room to keep the request body, so nothing was paid; repeat the same request", Reason: reason,
	})
	out.Header.Set("Retry-After", strconv.Itoa(int(admission.RetryAfter.Seconds())))
	return out, ResultRefused
}
