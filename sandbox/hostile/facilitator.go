package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// Calls of a facilitator that can fail.
const (
	Verify = "/verify"
	Settle = "/settle"
)

// Facilitator stands in front of an honest facilitator and fails on command.
type Facilitator struct {
	script[Call]
	honest http.Handler
	now    func() time.Time // for the Date header
	// foreign is a transaction without a payment, for false claims.
	foreign string
	swaps   chan exchange
}

// exchange offers an answer for that of another call.
type exchange struct {
	offered Answer
	back    chan Answer
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
	stamp(w, f.now())
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		reset(w)
		return
	}
	c := &Call{Path: r.URL.Path, Authorization: AuthorizationOf(body), facilitator: f, w: w, r: r, body: body}
	f.play(c.Path, c, func() { c.Send(c.Serve()) })
}

// AuthorizationOf returns the authorization in the body of a call, or a zero one.
func AuthorizationOf(body []byte) x402.Authorization {
	var seen struct {
		Version int             `json:"x402Version"`
		Payload json.RawMessage `json:"paymentPayload"`
	}
	_ = json.Unmarshal(body, &seen) // the honest facilitator refuses what is not a call
	a, _, _ := x402.Payload{Version: seen.Version, JSON: seen.Payload}.Authorization()
	return a
}

// Serve performs the call honestly, even when the caller has left, and returns the answer unsent.
func (c *Call) Serve() Answer { return c.serve(context.WithoutCancel(c.r.Context()), c.Path) }

// Take makes the transfer, whatever the call asks for.
func (c *Call) Take() { c.serve(context.WithoutCancel(c.r.Context()), Settle) }

func (c *Call) serve(ctx context.Context, path string) Answer {
	r := c.r.Clone(ctx)
	r.URL.Path = path
	r.Body = io.NopCloser(bytes.NewReader(c.body))
	out := honest.NewPage()
	c.facilitator.honest.ServeHTTP(out, r)
	return Answer{Status: out.Status, Header: out.Header(), Body: out.Body}
}

// Send answers the call.
func (c *Call) Send(a Answer) { a.writeTo(c.w) }

// Reset closes the connection without an answer.
func (c *Call) Reset() { reset(c.w) }

// Hang sends no answer until the caller leaves.
func (c *Call) Hang() { hang(c.w, c.r) }

// Later postpones the honest call until [Facilitator.Late].
func (c *Call) Later() {
	c.facilitator.keep(func(ctx context.Context) { c.serve(ctx, c.Path) })
}

// Success returns an answer to /settle that claims a transaction.
func (c *Call) Success(transaction string) Answer {
	return jsonAnswer(http.StatusOK, honest.SettleAnswer{
		Success: true, Transaction: transaction, Network: honest.WireNetwork(2), Payer: c.Authorization.From.String(),
	})
}

// Failure returns an answer to /settle that denies the transfer. It may name a transaction all the
// same.
func (c *Call) Failure(reason, transaction string) Answer {
	return jsonAnswer(http.StatusOK, honest.SettleAnswer{
		ErrorReason: reason, Transaction: transaction, Network: honest.WireNetwork(2), Payer: c.Authorization.From.String(),
	})
}

// Invalid returns an answer to /verify that refuses.
func (c *Call) Invalid(reason string) Answer {
	return jsonAnswer(http.StatusOK, honest.VerifyAnswer{InvalidReason: reason, Payer: c.Authorization.From.String()})
}

// transactionOf returns the transaction in an answer to /settle.
func transactionOf(a Answer) string {
	var seen honest.SettleAnswer
	_ = json.Unmarshal(a.Body, &seen) // an honest answer can be read
	return seen.Transaction
}

// Swap exchanges this call's answer with another call's. When no other call comes within five
// seconds, it returns the answer unchanged.
func (c *Call) Swap(a Answer) Answer {
	mine := exchange{a, make(chan Answer, 1)}
	select {
	case c.facilitator.swaps <- mine:
		return <-mine.back
	case other := <-c.facilitator.swaps:
		other.back <- a
		return other.offered
	case <-time.After(5 * time.Second):
	case <-c.r.Context().Done():
	}
	return a
}
