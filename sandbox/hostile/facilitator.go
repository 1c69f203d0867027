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

// The calls of a facilitator that faults are about.
const (
	Verify = "/verify"
	Settle = "/settle"
)

// FacilitatorFault is what a facilitator does with a call instead of serving it.
type FacilitatorFault struct {
	Name string
	On   string // Verify or Settle
	// Always: every such call meets it, not just one.
	Always bool
	Do     func(*Call)
}

// Facilitator stands in front of an honest facilitator and fails as it is told to.
type Facilitator struct {
	honest http.Handler
	// foreign is a transaction that has nothing to do with a payment.
	foreign string
	// Met, when set, hears of every call that a fault is about to be done to. It is set before the first call.
	Met func(*Call, FacilitatorFault)
	// Choose, when set, picks the fault of each call that none was queued for. It is set before the first call.
	Choose func(*Call) (FacilitatorFault, bool)

	mu    sync.Mutex
	queue []FacilitatorFault
	kept  []func(context.Context)
	// swap holds the answer of a call that waits for another one's.
	swap *exchange
}

// exchange is where two calls swap their answers.
type exchange struct {
	first, second Answer
	met           chan struct{}
}

// NewFacilitator puts faults in front of an honest facilitator. What it claims of somebody else's is foreign, a
// transaction that has nothing to do with a payment.
func NewFacilitator(honest http.Handler, foreign string) *Facilitator {
	return &Facilitator{honest: honest, foreign: foreign}
}

// Meet replaces the faults that the next calls meet: of each kind of call the first one the first, and so on.
func (f *Facilitator) Meet(faults ...FacilitatorFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append([]FacilitatorFault(nil), faults...)
}

// Late does what faults have put off, such as settling after an answer that denied it.
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
	Authorization x402.Authorization // zero if there is none in it

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
	fault, due := f.due(c)
	if !due {
		c.Send(c.Serve())
		return
	}
	if f.Met != nil {
		f.Met(c, fault)
	}
	fault.Do(c)
}

// due takes the fault that a call meets.
func (f *Facilitator) due(c *Call) (FacilitatorFault, bool) {
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

// Serve does honestly what is asked for, whether or not the caller is still there, and returns the answer unsent.
func (c *Call) Serve() Answer { return c.serve(context.WithoutCancel(c.r.Context())) }

// Take makes the transfer of a call that is about something else.
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

// Reset ends the connection without an answer.
func (c *Call) Reset() { reset(c.w) }

// Hang leaves the caller without an answer until it is gone.
func (c *Call) Hang() { hang(c.w, c.r) }

// Pause lets the caller wait.
func (c *Call) Pause(d time.Duration) { pause(c.r.Context(), d) }

// Later puts the honest call off until [Facilitator.Late].
func (c *Call) Later() {
	c.facilitator.mu.Lock()
	defer c.facilitator.mu.Unlock()
	c.facilitator.kept = append(c.facilitator.kept, func(ctx context.Context) { c.serve(ctx) })
}

// settleAnswer is what /settle answers.
type settleAnswer struct {
	Success     bool   `json:"success"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer,omitempty"`
	ErrorReason string `json:"errorReason,omitempty"`
}

// Success is an answer of /settle that claims a transaction.
func (c *Call) Success(transaction string) Answer {
	return jsonAnswer(http.StatusOK, settleAnswer{
		Success: true, Transaction: transaction, Network: network().CAIP2(), Payer: c.Authorization.From.String(),
	})
}

// Failure is an answer of /settle that denies the transfer, and may name a transaction all the same.
func (c *Call) Failure(reason, transaction string) Answer {
	return jsonAnswer(http.StatusOK, settleAnswer{
		ErrorReason: reason, Transaction: transaction, Network: network().CAIP2(), Payer: c.Authorization.From.String(),
	})
}

// Invalid is an answer of /verify that refuses.
func (c *Call) Invalid(reason string) Answer {
	return jsonAnswer(http.StatusOK, map[string]any{
		"isValid": false, "invalidReason": reason, "payer": c.Authorization.From.String(),
	})
}

// transactionOf reads an answer of /settle.
func transactionOf(a Answer) string {
	var seen settleAnswer
	_ = json.Unmarshal(a.Body, &seen) // an honest one can be read
	return seen.Transaction
}

// Swap gives the caller the answer of another call, and that one this one's. It waits a while for another, and then
// gives the answer back.
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

// network is the network that everything here happens on.
func network() x402.Network {
	base, _ := x402.NetworkByWire("base") // the first entry of the pinned table
	return base
}
