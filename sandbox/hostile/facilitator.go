package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/purserpay/purser/x402"
)

// Calls of a facilitator that can fail.
const (
	Verify = "/verify"
	Settle = "/settle"
)

// FacilitatorFault replaces the facilitator's answer to a call.
type FacilitatorFault struct {
	Name string
	On   string // Verify or Settle
	// Always makes every such call fail, not only one.
	Always bool
	Do     func(*Call)
}

// Facilitator stands in front of an honest facilitator and fails on command.
type Facilitator struct {
	honest http.Handler
	// foreign is a transaction without a payment.
	foreign string
	// Met, when set, is called before a fault is played. Set it before the first call.
	Met func(*Call, FacilitatorFault)
	// Choose, when set, picks the fault of a call for which none is queued. Set it before the first
	// call.
	Choose func(*Call) (FacilitatorFault, bool)

	mu    sync.Mutex
	queue []FacilitatorFault
	kept  []func(context.Context)
	// swap holds a call that waits to exchange its answer with another call.
	swap *exchange
}

// exchange connects two calls that swap their answers.
type exchange struct {
	first, second Answer
	met           chan struct{}
}

// NewFacilitator adds faults to an honest facilitator. foreign is a transaction without a payment,
// for false claims.
func NewFacilitator(honest http.Handler, foreign string) *Facilitator {
	return &Facilitator{honest: honest, foreign: foreign}
}

// Meet replaces the queue of faults. The first fault of a kind goes to the first call of that kind,
// and so on.
func (f *Facilitator) Meet(faults ...FacilitatorFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append([]FacilitatorFault(nil), faults...)
}

// Late performs the calls that faults have postponed, such as a settlement after a denial.
func (f *Facilitator) Late(ctx context.Context) {
	f.mu.Lock()
	kept := f.kept
	f.kept = nil
	f.mu.Unlock()
	for _, do := range kept {
		do(ctx)
	}
}

// Call is one call of the facilitator.
type Call struct {
	Path          string
	Authorization x402.Authorization // zero when the call has none

	facilitator *Facilitator
	w           http.ResponseWriter
	r           *http.Request
	body        []byte
}

// ServeHTTP answers a call, honestly unless a fault is due.
func (f *Facilitator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		reset(w)
		return
	}
	c := &Call{Path: r.URL.Path, facilitator: f, w: w, r: r, body: body}
	var seen struct {
		Version int             `json:"x402Version"`
		Payload json.RawMessage `json:"paymentPayload"`
	}
	if json.Unmarshal(body, &seen) == nil {
		c.Authorization, _, _ = x402.Payload{Version: seen.Version, JSON: seen.Payload}.Authorization()
	}
	fault, due := f.nextFault(c)
	if !due {
		c.Send(c.Serve())
		return
	}
	if f.Met != nil {
		f.Met(c, fault)
	}
	fault.Do(c)
}

// nextFault returns the fault for a call.
func (f *Facilitator) nextFault(c *Call) (FacilitatorFault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, fault := range f.queue {
		if fault.On != c.Path {
			continue
		}
		if !fault.Always {
			f.queue = append(f.queue[:i:i], f.queue[i+1:]...)
		}
		return fault, true
	}
	if f.Choose != nil {
		return f.Choose(c)
	}
	return FacilitatorFault{}, false
}

// Serve performs the call honestly, even when the caller has left, and returns the answer unsent.
func (c *Call) Serve() Answer { return c.serve(context.WithoutCancel(c.r.Context())) }

// Take makes the transfer, whatever the call asks for.
func (c *Call) Take() { c.serveAs(context.WithoutCancel(c.r.Context()), Settle) }

func (c *Call) serve(ctx context.Context) Answer { return c.serveAs(ctx, c.r.URL.Path) }

func (c *Call) serveAs(ctx context.Context, path string) Answer {
	r := c.r.Clone(ctx)
	r.URL.Path = path
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	out := newRecorder()
	c.facilitator.honest.ServeHTTP(out, r)
	return out.Answer
}

// Send answers the call.
func (c *Call) Send(a Answer) { a.writeTo(c.w) }

// Reset closes the connection without an answer.
func (c *Call) Reset() { reset(c.w) }

// Hang sends no answer until the caller leaves.
func (c *Call) Hang() { hang(c.w, c.r) }

// Pause delays the answer.
func (c *Call) Pause(d time.Duration) { pause(c.r.Context(), d) }

// Later postpones the honest call until [Facilitator.Late].
func (c *Call) Later() {
	c.facilitator.mu.Lock()
	defer c.facilitator.mu.Unlock()
	c.facilitator.kept = append(c.facilitator.kept, func(ctx context.Context) { c.serve(ctx) })
}

// settleAnswer is the body of an answer to /settle.
type settleAnswer struct {
	Success     bool   `json:"success"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer,omitempty"`
	ErrorReason string `json:"errorReason,omitempty"`
}

// Success returns an answer to /settle that claims a transaction.
func (c *Call) Success(transaction string) Answer {
	return jsonAnswer(http.StatusOK, settleAnswer{
		Success: true, Transaction: transaction, Network: network().CAIP2(), Payer: c.Authorization.From.String(),
	})
}

// Failure returns an answer to /settle that denies the transfer. It may name a transaction all the
// same.
func (c *Call) Failure(reason, transaction string) Answer {
	return jsonAnswer(http.StatusOK, settleAnswer{
		ErrorReason: reason, Transaction: transaction, Network: network().CAIP2(), Payer: c.Authorization.From.String(),
	})
}

// Invalid returns an answer to /verify that refuses.
func (c *Call) Invalid(reason string) Answer {
	return jsonAnswer(http.StatusOK, map[string]any{
		"isValid": false, "invalidReason": reason, "payer": c.Authorization.From.String(),
	})
}

// transactionOf returns the transaction in an answer to /settle.
func transactionOf(a Answer) string {
	var seen settleAnswer
	_ = json.Unmarshal(a.Body, &seen) // an honest answer can be read
	return seen.Transaction
}

// Swap exchanges this call's answer with another call's. When no other call comes within five
// seconds, it returns the answer unchanged.
func (c *Call) Swap(a Answer) Answer {
	f := c.facilitator
	f.mu.Lock()
	if x := f.swap; x != nil {
		f.swap = nil
		x.second = a
		close(x.met)
		f.mu.Unlock()
		return x.first
	}
	x := &exchange{first: a, met: make(chan struct{})}
	f.swap = x
	f.mu.Unlock()
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case <-x.met:
		return x.second
	case <-timer.C:
	case <-c.r.Context().Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.swap == x {
		f.swap = nil
		return a
	}
	return x.second
}

// network returns the network of the sandbox.
func network() x402.Network {
	base, _ := x402.NetworkByWire("base") // the first entry of the pinned table
	return base
}
