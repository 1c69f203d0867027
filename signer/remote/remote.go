// Package remote calls a signer over HTTP for wallet providers whose keys are outside this process.
// It tries again within a time limit, and it knows whether a signature may have been made.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/purserpay/purser/internal/endpoint"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/pay"
)

// DefaultTimeout bounds one call with all its tries, unless Options say otherwise.
const DefaultTimeout = 10 * time.Second

const (
	// maxAnswer bounds an answer, in bytes. A list of 10,000 accounts has 450 KB.
	maxAnswer = 1 << 20
	// maxTries bounds the tries of one call.
	maxTries = 3
	// firstPause is the time between the first two tries. It doubles with each further one.
	firstPause = 200 * time.Millisecond
	// clockAlarm is the difference of clocks that explains why credentials are not accepted.
	clockAlarm = 30 * time.Second
	// clockNoise is the precision of a Date header, and of its way.
	clockNoise = 2 * time.Second
)

// Options configures a Client.
type Options struct {
	// Provider is the name of the wallet provider.
	Provider string
	// URL holds the base address; Setting names its variable, for errors.
	URL, Setting string
	// Timeout bounds a call with all its tries. Default: DefaultTimeout.
	Timeout time.Duration
	// Secrets are removed from messages of the signer, as those in URL are.
	Secrets []string
	// Transport carries the calls. Default: one that ignores the proxy variables of the environment.
	Transport http.RoundTripper
	// Logger gets a warning if the calls can be read on the way. Default: none.
	Logger *slog.Logger
	Clock  pay.Clock // default time.Now
}

// Client calls one signer. It is safe for concurrent use.
type Client struct {
	*endpoint.Endpoint
	provider string
	timeout  time.Duration
	secrets  []string
	now      pay.Clock
}

// New returns a Client, or an error about the URL.
func New(o Options) (*Client, error) {
	e, err := endpoint.New(endpoint.Options{URL: o.URL, Setting: o.Setting, MaxAnswer: maxAnswer, Transport: o.Transport})
	if err != nil {
		return nil, err
	}
	c := &Client{Endpoint: e, provider: o.Provider, timeout: cmp.Or(max(o.Timeout, 0), DefaultTimeout), secrets: o.Secrets, now: o.Clock}
	if c.now == nil {
		c.now = failpoint.Now
	}
	if !e.Encrypted() && o.Logger != nil {
		o.Logger.Warn(o.Setting + " is plain http: signatures can be asked for and read on the way")
	}
	return c, nil
}

// Request is a call that the signer may get twice without harm.
type Request struct {
	Method, Path string
	Body         []byte
	// Header makes the headers of one try: a token may serve once.
	Header func() (http.Header, error)
}

// Answer is a complete answer of any status.
type Answer struct {
	endpoint.Answer
	// Unsure: another try had no answer, or a failure of the signer for one, and may have been carried
	// out.
	Unsure bool
}

// Call sends a request, and again if there is no answer, or one that says to try later. An error is a
// *pay.SignerError.
func (c *Client) Call(ctx context.Context, r Request) (Answer, error) {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	unsure := false
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		got, err := c.try(limited, r)
		last := try == maxTries
		if err == nil {
			if !later(got.Status) {
				return Answer{got, unsure}, nil
			}
			pause = max(pause, retryAfter(got))
		}
		if last || limited.Err() != nil || !fits(limited, pause) {
			if err != nil {
				return Answer{}, c.noAnswer(err, unsure)
			}
			return Answer{got, unsure}, nil
		}
		unsure = unsure || mayBeDone(got, err)
		select {
		case <-limited.Done():
		case <-time.After(pause):
		}
	}
}

func (c *Client) try(ctx context.Context, r Request) (endpoint.Answer, error) {
	header, err := r.Header()
	if err != nil {
		return endpoint.Answer{}, &endpoint.Error{Reason: err.Error(), Cause: err, NotSent: true}
	}
	return c.Endpoint.Call(ctx, r.Method, r.Path, header, r.Body)
}

// later reports whether a status asks for another try.
func later(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// retryAfter returns the time that the answer asks to wait.
func retryAfter(a endpoint.Answer) time.Duration {
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || seconds < 0 || seconds > int(time.Hour/time.Second) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// fits reports whether the context leaves time for a pause.
func fits(ctx context.Context, pause time.Duration) bool {
	until, ok := ctx.Deadline()
	return !ok || time.Until(until) > pause
}

// mayBeDone reports whether a try may have been carried out although it brought no result.
func mayBeDone(a endpoint.Answer, err error) bool {
	failure, _ := errors.AsType[*endpoint.Error](err)
	return err == nil && a.Status >= http.StatusInternalServerError || err != nil && (failure == nil || !failure.NotSent)
}

// noAnswer returns the error of a call without an answer.
func (c *Client) noAnswer(err error, unsure bool) error {
	e := &pay.SignerError{
		Provider: c.provider, Fault: pay.SignerUnreachable, Detail: "cannot be reached: " + err.Error(),
		Unsigned: !unsure && !mayBeDone(endpoint.Answer{}, err), Cause: err,
	}
	if errors.Is(err, context.DeadlineExceeded) {
		e.Fault, e.Detail = pay.SignerSlow, fmt.Sprintf("gave no answer in %s", c.timeout)
	}
	return e
}

// Fault returns an error about an answer that was read. A signer that answers with an error has signed
// nothing, unless it fails itself.
func (c *Client) Fault(a Answer, fault pay.SignerFault, format string, args ...any) error {
	return &pay.SignerError{
		Provider: c.provider, Fault: fault, Detail: fmt.Sprintf(format, args...),
		Unsigned: !a.Unsure && fault != pay.SignerUnreadable && fault != pay.SignerFailing,
	}
}

// Refused returns the error for an HTTP status that is no success. message is the signer's word, or "".
func (c *Client) Refused(a Answer, message string) error {
	text := a.StatusText()
	if message = c.Readable(message); message != "" {
		text += ": " + message
	}
	switch status := a.Status; {
	case status == http.StatusUnauthorized:
		return c.denied(a, text)
	case status == http.StatusTooManyRequests:
		return c.Fault(a, pay.SignerBusy, "asks for fewer requests: it answered %s", text)
	case status == http.StatusNotFound:
		return c.Fault(a, pay.SignerUnknown, "does not know that: it answered %s", text)
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return c.Fault(a, pay.SignerConflict, "has an earlier request like this: it answered %s", text)
	case status >= http.StatusInternalServerError:
		return c.Fault(a, pay.SignerFailing, "fails: it answered %s", text)
	}
	return c.Fault(a, pay.SignerRefused, "refuses: it answered %s", text)
}

// denied returns the error for credentials that are not accepted. Tokens are valid for a time, so a
// wrong clock is a reason.
func (c *Client) denied(a Answer, text string) error {
	fault, clock := pay.SignerDenied, ""
	if date, err := http.ParseTime(a.Header.Get("Date")); err == nil {
		ahead := c.now().Sub(date).Round(time.Second)
		if ahead.Abs() > clockNoise {
			way := "ahead of"
			if ahead < 0 {
				way = "behind"
			}
			clock = fmt.Sprintf("; the clock of this machine is %s %s the signer's", ahead.Abs(), way)
		}
		if ahead.Abs() >= clockAlarm {
			fault = pay.SignerClock
		}
	}
	return c.Fault(a, fault, "does not accept purser's credentials: it answered %s%s", text, clock)
}

// Readable returns a message of the signer: without secrets, printable, and at most 200 bytes.
func (c *Client) Readable(message string) string {
	return words.Truncate(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, c.Scrub(message, c.secrets...)), 200)
}

// CheckWallet returns an error unless the provider made the wallet and the message is from it.
func (c *Client) CheckWallet(w pay.Wallet, m pay.Message) error {
	switch {
	case w.Address == nil:
		return pay.ErrNoAddress
	case w.Provider() != c.provider:
		return c.Fault(Answer{}, pay.SignerUnknown, "did not make this wallet, which is one of %s", w.Provider())
	case m.From != *w.Address:
		return c.Fault(Answer{}, pay.SignerRefused, "is not asked: the message is from %s, and the wallet is %s", m.From, w.Address)
	}
	return nil
}
