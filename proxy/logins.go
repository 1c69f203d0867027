package proxy

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
)

// FailuresAtOnce and FailuresPerMinute bound how often a client may be wrong about its API key.
const (
	FailuresAtOnce    = 20
	FailuresPerMinute = 30
)

// Reasons of refusals at every door that relays.
const (
	ReasonTooManyLogins = "too-many-failed-logins"
	ReasonTask          = "task-label"
	ReasonAPIKey        = "api-key" // at doors that are no proxy to their clients
)

// Logins finds the keys of the secrets that clients send, and slows down guesses. It is safe for
// concurrent use.
type Logins struct {
	payer   *pay.Payer
	guesses *perclient.Logins
	now     pay.Clock
}

// NewLogins makes Logins by a clock; nil: the system's.
func NewLogins(payer *pay.Payer, clock pay.Clock) *Logins {
	if clock == nil {
		clock = failpoint.Now
	}
	return &Logins{payer, perclient.NewLogins(FailuresAtOnce, FailuresPerMinute), clock}
}

// TooManyError says that a client was wrong about its key too often, and has to wait.
type TooManyError struct{ Wait time.Duration }

// Error implements error.
func (e *TooManyError) Error() string { return "too many requests with a wrong API key" }

// Header returns the headers of an answer to the client.
func (e *TooManyError) Header() http.Header {
	return http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(e.Wait.Seconds())))}}
}

// Key returns the key of a secret that a client sent from peer, which may be the zero address. The error
// is [pay.ErrKeyNotFound] for a wrong secret, a *[TooManyError], or that of the store.
func (l *Logins) Key(ctx context.Context, peer netip.Addr, secret string) (pay.Key, error) {
	guess := pay.HashOf(secret)
	if wait := l.guesses.Blocked(peer, guess, l.now()); wait > 0 {
		return pay.Key{}, &TooManyError{wait}
	}
	key, err := l.payer.Resolve(ctx, secret)
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		l.guesses.Failed(peer, l.now())
	case err == nil:
		l.guesses.Succeeded(guess, l.now())
	}
	return key, err
}

// Refusal is an answer of purser's own to a request that a door does not relay.
type Refusal struct {
	Status       int
	Reason, Text string
	Header       http.Header // more headers
	Cause        error       // for the log
}

// Response makes the answer to a request.
func (n *Refusal) Response(r *http.Request) *http.Response {
	resp := OwnResponse(r, n.Status, n.Reason, n.Text)
	maps.Copy(resp.Header, n.Header)
	return resp
}

// Bearer returns the key of the value of a header, where it may stand behind the word Bearer.
func (l *Logins) Bearer(ctx context.Context, peer netip.Addr, value string) (key pay.Key, secret string, no *Refusal) {
	secret = strings.TrimSpace(value)
	if scheme, token, has := strings.Cut(secret, " "); has && strings.EqualFold(scheme, "Bearer") {
		secret = strings.TrimSpace(token)
	}
	if !pay.ValidSecret(secret) {
		return key, "", &Refusal{Status: http.StatusUnauthorized, Reason: ReasonAPIKey, Text: "This API needs an API key of purser's"}
	}
	key, err := l.Key(ctx, peer, secret)
	if many, ok := errors.AsType[*TooManyError](err); ok {
		return key, "", &Refusal{Status: http.StatusTooManyRequests, Reason: ReasonTooManyLogins, Text: "Too many requests", Header: many.Header()}
	}
	switch {
	case errors.Is(err, pay.ErrKeyNotFound):
		return key, "", &Refusal{Status: http.StatusUnauthorized, Reason: ReasonAPIKey, Text: "The API key is not valid"}
	case err != nil:
		return key, "", &Refusal{
			Status: http.StatusServiceUnavailable, Reason: DeclinedUnavailable, Text: "Service unavailable", Header: http.Header{"Retry-After": {"5"}}, Cause: err,
		}
	}
	return key, secret, nil
}
