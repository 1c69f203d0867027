package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/conns"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/x402"
)

// Call is one incoming request, with the key that pays for it and the payment that is made for it.
// However often it is sent upstream, there is one payment, with one payload.
//
// The door that took the request makes the Call and calls Finish when its answer has been written out
// or has failed. Several RoundTrips of a Call are attempts at that
// request, with the same method, path, query and body. An attempt at anything else is sent without
// a payment. Policies bind where purser dials: the paid host is that of the URL that is sent.
type Call struct {
	Key pay.Key
	// ReadKey, if not nil, reads Key before a payment is decided. Until then Key needs its ID only:
	// a free answer costs no look into the database.
	ReadKey        func(context.Context) (pay.Key, error)
	Task           string // label of the budget, may be empty
	IdempotencyKey string // the client's, or empty, or none of use; see [IdempotencyKey]
	Anew           bool   // the client wants a purchase of its own; see [HeaderAgain]
	// Retried: the client's library says that the request repeats an earlier one, see [saysRetried], or goes on with
	// its stream: EventSource asks again by itself when a stream has ended.
	Retried bool
	// MaxAmount bounds what a new payment may cost, nil: the key's policy does; see [HeaderMaxAmount].
	MaxAmount *money.Amount
	Dry       bool // nothing is paid; see [HeaderDryRun]
	// Unpaid is the door's reason to pay nothing for the request, whatever it costs; "": there is none.
	Unpaid string
	// URL returns the client's absolute URL, once a payment is decided. Repeats are recognized by
	// it. A door that may send the same request to several upstreams must set it, or a repeat that
	// goes to another one is a new payment. Nil or "": the URL that is sent first.
	URL func() string
	// Client returns the client's absolute URL, from which it resolves the redirects of answers. Nil: the
	// URL that is sent.
	Client func() string

	maxInvalid bool // MaxAmount could not be read
	closes     bool // the client closes its connection behind the answer

	mu       sync.Mutex
	caller   context.Context
	asking   context.Context // of the decision: caller, and for a dry run that of the request
	arrival  *pay.Arrival    // nil until it is sent first
	watch    *conns.Watch    // see Watch; nil: there is none yet
	memo     *memo
	finished bool
	over     chan struct{} // closed once it is finished; nil: none waits
	arrived  time.Time     // when its request was first sent on
	led      way           // the way of redirects that has led to it
	strayed  string        // the URL of another site whose free answer has led to it; ""
	job      job           // that it asks about
	signedIn bool          // see Transport.signIn
	cookies  cookies       // of its 402s
	carrier  carrier       // of its challenge and payment; nil: its request has not been answered
	approved *pay.Approval // that the call has waited for
	taken    int           // how often another payment had its challenge
	body     *replay       // of the incoming request; nil: none, or not looked at yet
	source   io.ReadCloser // what body reads from
	asked    string        // the URL that repeats are recognized by
	spare    []io.Closer   // bodies of further attempts that were not needed
}

// memo holds the payment of a call, and everything that further sends of its payload need.
type memo struct {
	attempt   *pay.Attempt
	wire      protocol.Protocol // of its payload
	answered  bool              // the payload has been answered once
	ended     bool              // the attempt has ended without an answer; the payment has not
	challenge x402.Challenge
	method    string
	uri       string // path and query: what the payload buys
	body      content
	slim      *x402.Payload // in the place of the attempt's; nil: it is not needed
	http1     bool          // the challenge came over HTTP/1
	host      string        // from here
	repeats   bool          // the payment is an earlier call's
	// onlyRepeat: there was no challenge, so no new payment is made.
	onlyRepeat bool
	unpaid     *unpaidError // nothing is sent, for this reason; nil: there is none
	placed     *pay.Redirects
	tail       *tail        // of the answer; nil: it has no end but that of its body
	earlier    *pay.Payment // as this call found it; nil for a new one
}

// readKey reads the key that pays, unless the door has. A revoked key pays for nothing.
func (c *Call) readKey() error {
	if c.ReadKey == nil {
		return nil
	}
	key, err := c.ReadKey(c.asking)
	switch {
	case c.asking.Err() != nil, !c.Dry && c.left():
		return pay.ErrCallerGone
	case err != nil:
		return err
	case key.Revoked():
		return pay.ErrKeyNotFound
	}
	c.Key, c.ReadKey = key, nil
	return nil
}

// unanswered ends the attempt before the client is told that it failed: from here on a
// repeat gets the payment, however fast it is, and so does a further attempt of this call.
func (m *memo) unanswered() {
	m.ended = true
	m.attempt.Finish(false)
}

// IsDryRun reports whether a client's request asks for a price and buys nothing, by [HeaderDryRun].
func IsDryRun(h http.Header) bool {
	switch strings.ToLower(strings.Join(h.Values(HeaderDryRun), ",")) {
	case "", "0", "false":
		return false
	}
	return true
}

// Ask reads what the client of the incoming request asks of its payment, from the request's header.
func (c *Call) Ask(h http.Header) {
	c.Anew = strings.EqualFold(h.Get(HeaderAgain), "new")
	c.Retried = saysRetried(h) || h.Get("Last-Event-Id") != "" && !c.Anew
	c.Closing(h.Values("Connection")...)
	c.Dry = IsDryRun(h)
	if values := h.Values(HeaderMaxAmount); len(values) > 0 {
		most, err := money.ParseText(strings.Join(values, ","))
		c.MaxAmount, c.maxInvalid = &most, err != nil
	}
}

// NewCall makes the call of an incoming request.
func NewCall(key pay.Key, task, idempotencyKey string) *Call {
	return &Call{Key: key, Task: task, IdempotencyKey: idempotencyKey}
}

type callKey struct{}

// WithCall gives a request's context the call that it is sent for. ctx, the first one for several
// attempts, must end when the client of the incoming request leaves: that stops a payment that was not
// sent yet, and tells a repeat from a second purchase. If ctx can never end, nothing is paid. A context of
// [conns.Lasting] ends later, yet a client that has ended its side counts as one that has left.
func WithCall(ctx context.Context, c *Call) context.Context {
	c.mu.Lock()
	if c.caller == nil {
		c.caller = conns.Asked(ctx)
		c.asking = c.caller
	}
	c.mu.Unlock()
	return context.WithValue(ctx, callKey{}, c)
}

func callOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Closing reads the field Connection of the client's request. Ask does so as well, if the header has it.
func (c *Call) Closing(connection ...string) { c.closes = c.closes || conns.Closes(connection...) }

// Watch is for a door that does not end the call before its handler returns: it keeps the client's
// connection until Finish. When a piece of the answer was written, such a door does not tell.
func (c *Call) Watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memo != nil {
		c.memo.tail.close()
	}
	if !c.finished && c.watch == nil {
		c.watch = conns.NewWatch(c.caller, false)
	}
}

// Written is Watch for a door that has written all of an answer.
func (c *Call) Written(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finished && c.watch == nil {
		c.watch = conns.Take(w, r)
	}
}

// left reports whether the client of the incoming request has left.
func (c *Call) left() bool { return c.caller.Err() != nil || conns.Gone(c.caller) }

// Finish ends the call, after a send that is under way. Once is enough: what comes later changes
// nothing. answered says that the upstream's answer was written to the client in full: the payment is
// answered once the client has acknowledged it, see [conns.Watch]. Anything else leaves the payment
// to the client's repeat, unless the answer's own end was written: see [tail]. A door that tells its client of a
// failure of its own calls Finish(false) before it does.
func (c *Call) Finish(answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil && !c.finished {
		defer close(c.over)
	}
	c.finished = true
	c.arrival.Decided()
	if m := c.memo; m != nil && !m.ended {
		failpoint.Here(failpoint.ProxyFinishing)
		m.attempt.Deliver(answered && c.carrier.came() || m.tail.delivered(), c.acknowledged)
	}
	if c.memo != nil {
		c.memo.tail.finish()
	}
	c.watch.Drop()
	c.watch = nil
	c.body.release()
	for _, b := range c.spare {
		_ = b.Close()
	}
}

// acknowledged watches the end of the answer: see [pay.Attempt.Deliver].
func (c *Call) acknowledged() func() bool {
	w := c.memo.tail.take()
	if w == nil {
		w = c.watch
	}
	if w == nil {
		w = conns.NewWatch(c.caller, true)
	}
	if c.watch != w {
		c.watch.Drop()
	}
	if c.watch = nil; w == nil {
		return nil
	}
	// A client that reads to the end of its connection never closes first. Its next call is taken for a
	// repeat once, and not for ever.
	closes := c.closes && !c.memo.repeats
	return func() bool { return w.Acknowledged(closes) }
}

// content returns a reader of the request's body for one more attempt, nil if it has none. It fails
// if an earlier attempt has used the body up: an attempt with a part of it must not be sent.
func (c *Call) content(req *http.Request, s *spooler) (*reading, error) {
	if !hasBody(req) {
		return nil, nil
	}
	if c.body != nil {
		b, err := c.body.open()
		switch {
		case sameBody(req.Body, c.source):
			return b, err
		case err == nil:
			// The copy will do. The new body may read from the same source, so it is not closed yet.
			c.spare = append(c.spare, req.Body)
			return b, nil
		}
		c.body.release() // a door that keeps bodies itself gives a new one to each attempt
	}
	c.body, c.source = newReplay(req, c.Key.ID, s), req.Body
	return c.body.open()
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// whole returns all of the request's body, for an attempt with a payment.
func (c *Call) whole(req *http.Request) (content, error) {
	if !hasBody(req) {
		return (*replay)(nil).whole()
	}
	return c.body.whole()
}

// Answering notes that the door is about to write the upstream's answer: a client that has left
// by now does not get it, and its repeat gets the payment.
func (c *Call) Answering() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.memo; m != nil && !m.ended && c.left() {
		m.unanswered()
	}
}

// Fail notes that the client gets err instead of the upstream's answer. If a payload has left by
// then, the returned error names its payment.
func (c *Call) Fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lost *SendError
	if c.memo == nil || errors.As(err, &lost) {
		return err
	}
	if !c.memo.ended {
		c.memo.unanswered()
	}
	return &SendError{Payment: c.memo.attempt.Payment(), carrier: c.carrier, cause: err}
}

// Pending reports whether a payment waits for the end of the call.
func (c *Call) Pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memo != nil && !c.memo.ended && !c.finished
}

// Payment returns the payment that was made for the call, nil if there was none.
func (c *Call) Payment() *pay.Payment {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.memo == nil {
		return nil
	}
	return c.memo.attempt.Payment()
}

// maxIdempotencyKey bounds an Idempotency-Key, in characters (docs/design/calls.md).
const maxIdempotencyKey = 255

// keyHeaders name the headers in which libraries send the key of a logical request. The first one that is there counts.
var keyHeaders = []string{"Idempotency-Key", "X-Idempotency-Key", "Repeatability-Request-Id"}

// IdempotencyKey returns the value of the request's Idempotency-Key header, or of one that means the same, "" if it
// has none. For a malformed value [Transport] does not pay, because the client counts on not paying twice.
func IdempotencyKey(h http.Header) string {
	var values []string
	for _, name := range keyHeaders {
		if values = h.Values(name); len(values) > 0 {
			break
		}
	}
	if len(values) == 1 && values[0] != "" {
		return values[0]
	}
	return strings.Join(values, ", ") + strings.Repeat(" ", min(1, len(values))) // not a key, or none
}

// check refuses what the client has asked for and purser cannot keep to. A key is 1 to 255 visible ASCII
// characters.
func (c *Call) check() error {
	if c.maxInvalid {
		return errMaxInvalid
	}
	malformed := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if len(c.IdempotencyKey) > maxIdempotencyKey || strings.ContainsFunc(c.IdempotencyKey, malformed) {
		return errKeyInvalid
	}
	return nil
}

var errMaxInvalid = errors.New("Purser-Max-Amount is not one amount of USDC such as 0.05")

var errKeyInvalid = errors.New("the Idempotency-Key is not one value of 1 to 255 visible ASCII characters")
