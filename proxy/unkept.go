package proxy

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/purserpay/purser/internal/admission"
)

// bodyReason says why a body that could not be kept keeps a 402 from being paid.
func bodyReason(err error) string {
	switch {
	case errors.Is(err, errTooLarge):
		return DeclinedBodyTooLarge
	case errors.Is(err, errNoRoom):
		return DeclinedOverloaded
	case errors.Is(err, errSpool):
		return DeclinedSpool
	}
	return DeclinedBodyIncomplete
}

// unkept answers a 402 to a request whose body could not be kept.
//
// If that is our shortage, the same request may have been paid before, when there was
// room. Without its body no earlier payment is recognized. So the client gets a 503 and
// not the seller's challenge, which it might pay by itself a second time.
func (t *Transport) unkept(req *http.Request, resp *http.Response, err error) *http.Response {
	reason := bodyReason(err)
	if reason != DeclinedOverloaded && reason != DeclinedSpool {
		return t.decline(req, resp, reason, err)
	}
	t.declined(reason)
	t.log.WarnContext(req.Context(), "402 not paid", "key", keyOf(req), "host", req.URL.Host, "reason", reason, "error", err)
	closeBody(resp)
	out := ownResponse(req, http.StatusServiceUnavailable, problem{
		Error: "There is no room to keep the request body, so nothing was paid; repeat the same request", Reason: reason,
	})
	out.Header.Set("Retry-After", strconv.Itoa(int(admission.RetryAfter.Seconds())))
	return out
}
