// Package facilitator calls an x402 facilitator over HTTP: POST /verify, POST /settle and GET
// /supported. Its Client implements pay.Facilitator.
//
// It hands on the facilitator's answer and does not interpret it. Package pay decides what an
// answer means for a payment. For example, a success with an errorReason, or without a valid
// transaction, is returned as it came.
package facilitator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
)

// Timeouts of calls. Settling waits for the chain; the reference clients allow it 90 s.
const (
	DefaultTimeout = 90 * time.Second
	verifyTimeout  = 30 * time.Second
	probeTimeout   = 10 * time.Second
)

// maxAnswer bounds an answer, in bytes. Honest ones are below 10 KB.
const maxAnswer = 256 << 10

// Options configures a Client.
type Options struct {
	// URL holds the base address. The client adds /verify, /settle and /supported to it.
	URL string
	// Key, when set, is sent to the facilitator as a Bearer token.
	Key string
	// Authorize, when set, returns a Bearer token for one call, instead of Key. Its errors have no
	// secrets.
	Authorize func(method string, target *url.URL) (token string, err error)
	// Timeout bounds a /settle. A /verify may take 30 s and a probe 10 s, or Timeout if that is
	// less. Default: DefaultTimeout.
	Timeout time.Duration
	// Transport carries the calls. Default: one that ignores the proxy variables of the
	// environment.
	Transport http.RoundTripper
	// MaxFailures bounds the failed calls in a row, per key and for all keys together. Beyond it,
	// Client.Ready refuses new payments for a while. Default: 5. Negative: no bound.
	MaxFailures int
	// Propagate, when set, adds the trace headers of the caller's context to a call.
	Propagate func(ctx context.Context, header http.Header)
	// Logger gets calls that ended without a verdict, with their context. Default: none.
	Logger *slog.Logger
	Clock  pay.Clock // default time.Now
}

// Client asks one facilitator. It is safe for concurrent use.
type Client struct {
	endpoint *endpoint.Endpoint
	token    func(method string, target *url.URL) (string, error) // nil: none is sent
	key      string                                               // to scrub
	timeout  time.Duration
	log      *slog.Logger
	now      pay.Clock
	breakers *breakers

	propagate func(context.Context, http.Header) // nil without tracing
}

var (
	_ pay.Facilitator = (*Client)(nil)
	_ pay.Breaking    = (*Client)(nil)
)

// New returns a Client, or an error about the options. Errors name the setting at fault and never
// repeat its value.
func New(o Options) (*Client, error) {
	e, err := endpoint.New(endpoint.Options{
		URL: o.URL, Setting: "PURSER_FACILITATOR_URL", MaxAnswer: maxAnswer, Transport: o.Transport,
	})
	if err != nil {
		return nil, err
	}
	if o.Authorize == nil && o.Key != "" {
		o.Authorize = func(string, *url.URL) (string, error) { return o.Key, nil }
	}
	if o.Authorize != nil && e.HasUser() {
		return nil, errors.New("PURSER_FACILITATOR_URL has a user and a key is set (PURSER_FACILITATOR_KEY, PURSER_FACILITATOR_AUTH): only one can be sent")
	}
	if !endpoint.Sendable(o.Key) {
		return nil, errors.New("PURSER_FACILITATOR_KEY: only visible ASCII characters can be sent")
	}
	c := &Client{
		endpoint: e, token: o.Authorize, key: o.Key, timeout: cmp.Or(max(o.Timeout, 0), DefaultTimeout), log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		now: o.Clock, breakers: newBreakers(o.MaxFailures), propagate: o.Propagate,
	}
	if c.now == nil {
		c.now = failpoint.Now
	}
	if !e.Encrypted() {
		c.log.Warn("PURSER_FACILITATOR_URL is plain http: signed payments can be read and changed on the way")
	}
	return c, nil
}

// WatchDates reports the Date of each answer. You must call it before the first call.
func (c *Client) WatchDates(dates pay.Dates) { c.endpoint.WatchDates(dates) }

// Close ends idle connections.
func (c *Client) Close() { c.endpoint.Close() }

// Verify calls POST /verify. Every error is an *Error.
func (c *Client) Verify(ctx context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	a, err := c.ask(ctx, "verify", verifyTimeout, x, "isValid")
	if err != nil {
		return pay.VerifyAnswer{}, err
	}
	return pay.VerifyAnswer{Valid: a.verdict, Reason: a.texts["invalidReason"], Payer: a.texts["payer"], Raw: a.raw}, nil
}

// Settle calls POST /settle. Every error is an *Error. An error leaves open whether the money
// moved, unless it is pay.ErrNotSent.
func (c *Client) Settle(ctx context.Context, x pay.Exchange) (pay.SettleAnswer, error) {
	a, err := c.ask(ctx, "settle", c.timeout, x, "success")
	if err != nil {
		return pay.SettleAnswer{}, err
	}
	return pay.SettleAnswer{
		Success: a.verdict, Reason: a.texts["errorReason"], Transaction: a.texts["transaction"],
		Network: a.texts["network"], Payer: a.texts["payer"], Amount: a.amount, Raw: a.raw,
	}, nil
}

// Probe calls GET /supported and expects a list of kinds. It also fails while payments fail.
func (c *Client) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, c.timeout))
	defer cancel()
	got, err := c.send(ctx, http.MethodGet, "supported", nil)
	if err != nil {
		return err
	}
	var supported struct {
		Kinds []json.RawMessage `json:"kinds"`
	}
	if got.Status != http.StatusOK {
		return &Error{Call: "supported", Status: got.Status, Reason: "answered " + got.StatusText()}
	}
	if err := json.Unmarshal(got.Body, &supported); err != nil || supported.Kinds == nil {
		return &Error{Call: "supported", Status: got.Status, Reason: "answered without a list of kinds"}
	}
	return c.Failing()
}

// Error reports a call without a verdict. Its text names neither the URL nor the key. errors.Is
// matches pay.ErrNotSent when no byte of the request can have reached the facilitator.
type Error struct {
	Call   string // "verify", "settle", "supported"
	Status int    // HTTP status, 0 without an answer
	Reason string

	cause   error
	notSent bool
}

func (e *Error) Error() string { return "facilitator " + e.Call + ": " + e.Reason }

func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is match pay.ErrNotSent when nothing was sent.
func (e *Error) Is(target error) bool { return target == pay.ErrNotSent && e.notSent }

// ask makes one call and reads its verdict. It never repeats a /settle.
func (c *Client) ask(ctx context.Context, call string, timeout time.Duration, x pay.Exchange, verdict string) (answer, error) {
	body, secrets, err := c.encode(x)
	if err != nil {
		return answer{}, &Error{Call: call, Reason: err.Error(), cause: err, notSent: true}
	}
	limited, cancel := context.WithTimeout(ctx, min(timeout, c.timeout))
	defer cancel()
	began := time.Now()
	got, err := c.send(limited, http.MethodPost, call, body)
	if err != nil {
		c.noAnswer(ctx, x.KeyID, err)
		c.log.WarnContext(ctx, "facilitator gave no answer", "call", call, "error", err, "took", time.Since(began))
		return answer{}, err
	}
	a, err := read(got.Body, verdict, func(s string) string { return c.endpoint.Scrub(s, secrets...) })
	c.answered(x.KeyID, got.Status, err == nil)
	if err != nil {
		err = &Error{
			Call: call, Status: got.Status, cause: err,
			Reason: fmt.Sprintf("answered %s without a verdict: %s", got.StatusText(), err),
		}
		c.log.WarnContext(ctx, "facilitator gave no verdict", "error", err, "took", time.Since(began))
		return answer{}, err
	}
	return a, nil
}

func (c *Client) send(ctx context.Context, method, call string, body []byte) (endpoint.Answer, error) {
	header := http.Header{}
	if c.token != nil {
		token, err := c.token(method, c.endpoint.Target(call))
		if err != nil {
			return endpoint.Answer{}, &Error{Call: call, Reason: err.Error(), cause: err, notSent: true}
		}
		header.Set("Authorization", "Bearer "+token)
	}
	if c.propagate != nil {
		c.propagate(ctx, header)
	}
	if call == "verify" { // a /verify only asks, so repeating it is harmless
		header = endpoint.Repeatable(header)
	}
	got, err := c.endpoint.Call(ctx, method, call, header, body)
	if err != nil {
		failure, _ := errors.AsType[*endpoint.Error](err)
		return endpoint.Answer{}, &Error{Call: call, Reason: err.Error(), cause: err, notSent: failure != nil && failure.NotSent}
	}
	return got, nil
}

// encode writes the body by hand: the facilitator compares parts byte for byte. It also returns the
// secrets to scrub from an answer: our key and the signature, also its r and s, which RPC errors
// quote apart.
func (c *Client) encode(x pay.Exchange) (body []byte, secrets []string, err error) {
	_, signature, err := x.Payload.Authorization()
	if err != nil {
		return nil, nil, err
	}
	if !json.Valid(x.Requirement) {
		return nil, nil, errors.New("the requirement is not valid JSON")
	}
	b := make([]byte, 0, len(x.Payload.JSON)+len(x.Requirement)+80)
	b = append(b, `{"x402Version":`...)
	b = strconv.AppendInt(b, int64(x.Payload.Version), 10)
	b = append(b, `,"paymentPayload":`...)
	b = append(b, x.Payload.JSON...)
	b = append(b, `,"paymentRequirements":`...)
	b = append(b, x.Requirement...)
	b = append(b, '}')
	text := signature.String()
	return b, []string{c.key, x.Payload.Header(), text[2:66], text[66:130]}, nil
}
