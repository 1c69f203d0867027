// Package facilitator is pay.Facilitator over the x402 facilitator HTTP API: POST /verify and /settle, GET /supported.
//
// It reports what the facilitator said and nothing more. What an answer means for a payment is decided in package pay;
// in particular a success with an errorReason, or without a proper transaction, is handed on as it was answered.
package facilitator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/pay"
)

// How long calls may take. Settling waits for the chain: the reference clients give it 90 s.
const (
	DefaultTimeout = 90 * time.Second
	verifyTimeout  = 30 * time.Second
	probeTimeout   = 10 * time.Second
)

// maxAnswer bounds an answer. Honest ones are below 10 KB, even with a whole RPC error in errorMessage.
const maxAnswer = 256 << 10

// Options configure a facilitator.
type Options struct {
	// URL is the base address; /verify, /settle and /supported are joined to it.
	URL string
	// Key, when set, is sent as a Bearer token, and to nobody else.
	Key string
	// Timeout bounds a /settle; zero is DefaultTimeout. A /verify has 30 s and a probe 10 s, or Timeout if that is less.
	Timeout time.Duration
	// Transport carries the calls; nil is one that ignores the environment's proxy variables.
	Transport http.RoundTripper
	// MaxFailures is how many of a key's calls in a row may fail before no new payment of it is begun for a while, and how
	// many of all may not get there before none is: Client.Ready.
	// Default: 5; negative: no bound.
	MaxFailures int
	// Propagate, when set, puts what identifies the trace that a call belongs to into its header.
	Propagate func(ctx context.Context, header http.Header)
	// Logger is told of calls that ended without a verdict, under their context; nil discards.
	Logger *slog.Logger
	Clock  pay.Clock // default time.Now
}

// Client is a pay.Facilitator.
type Client struct {
	endpoint *endpoint.Endpoint
	key      string
	timeout  time.Duration
	log      *slog.Logger
	now      pay.Clock
	breakers *breakers // nil: none

	propagate func(context.Context, http.Header) // nil: nothing
}

var (
	_ pay.Facilitator = (*Client)(nil)
	_ pay.Breaking    = (*Client)(nil)
)

// New checks the options. Its errors name the setting at fault and never repeat its value.
func New(o Options) (*Client, error) {
	e, err := endpoint.New(endpoint.Options{
		URL: o.URL, Setting: "PURSER_FACILITATOR_URL", MaxAnswer: maxAnswer, Transport: o.Transport,
	})
	if err != nil {
		return nil, err
	}
	if o.Key != "" && e.HasUser() {
		return nil, errors.New("PURSER_FACILITATOR_URL has a user and PURSER_FACILITATOR_KEY is set: only one can be sent")
	}
	for _, c := range []byte(o.Key) {
		if c <= ' ' || c > '~' {
			return nil, errors.New("PURSER_FACILITATOR_KEY: only visible ASCII characters can be sent")
		}
	}
	c := &Client{endpoint: e, key: o.Key, timeout: o.Timeout, log: o.Logger, now: o.Clock, breakers: newBreakers(o.MaxFailures), propagate: o.Propagate}
	if c.now == nil {
		c.now = time.Now
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if !e.Encrypted() {
		c.log.Warn("PURSER_FACILITATOR_URL is plain http: signed payments can be read and changed on the way")
	}
	return c, nil
}

// WatchDates has the Date of each answer reported; see [pay.Timekeeper.Dates]. It must be called before the first call.
func (c *Client) WatchDates(dates pay.Dates) { c.endpoint.WatchDates(dates) }

// Close ends idle connections.
func (c *Client) Close() { c.endpoint.Close() }

// Verify is POST /verify. Every error is an *Error.
func (c *Client) Verify(ctx context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	a, err := c.ask(ctx, "verify", verifyTimeout, x, "isValid")
	if err != nil {
		return pay.VerifyAnswer{}, err
	}
	return pay.VerifyAnswer{Valid: a.verdict, Reason: a.texts["invalidReason"], Payer: a.texts["payer"], Raw: a.raw}, nil
}

// Settle is POST /settle. Every error is an *Error and leaves open whether the money moved, unless it is
// pay.ErrNotSent.
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

// Probe is GET /supported: 200 and a list of kinds. A facilitator that answers that and fails at payments is not well.
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

// Error says why a call has no verdict. Its text names neither URL nor key. It is pay.ErrNotSent when nothing of the
// request can have reached the facilitator.
type Error struct {
	Call   string // "verify", "settle", "supported"
	Status int    // HTTP status, 0 without an answer
	Reason string

	cause   error
	notSent bool
}

func (e *Error) Error() string { return "facilitator " + e.Call + ": " + e.Reason }

func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is(err, pay.ErrNotSent) tell whether anything was sent.
func (e *Error) Is(target error) bool { return target == pay.ErrNotSent && e.notSent }

// ask makes one call and reads its verdict. It never repeats a /settle: only the payer knows whether it may.
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
	if c.key != "" {
		header.Set("Authorization", "Bearer "+c.key)
	}
	if c.propagate != nil {
		c.propagate(ctx, header)
	}
	if call == "verify" { // a question
		header = endpoint.Repeatable(header)
	}
	got, err := c.endpoint.Call(ctx, method, call, header, body)
	if err != nil {
		failure, _ := errors.AsType[*endpoint.Error](err)
		return endpoint.Answer{}, &Error{Call: call, Reason: err.Error(), cause: err, notSent: failure != nil && failure.NotSent}
	}
	return got, nil
}

// encode writes the body by hand, because json.Marshal would compact and escape what is compared byte for byte. It also
// returns what must not come back in an answer's words: our key, and the signature, with which anybody could settle.
// Its r and s count by themselves, since RPC errors quote them apart, as arguments or inside calldata.
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
