package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const otherSeller = "0x2222222222222222222222222222222222222222"

var (
	testPayee  = must(x402.ParseAddress(testSeller))
	otherPayee = must(x402.ParseAddress(otherSeller))
	allDoors   = []pay.Door{pay.DoorAPI, pay.DoorProxy, pay.DoorTransport}
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// buy is something to pay for. What is not set is of no matter.
type buy struct {
	door    pay.Door
	url     string
	method  string
	task    string
	amount  uint64
	payTo   string
	timeout int
}

// entry is a requirement of a challenge.
func (b buy) entry() string {
	if b.payTo == "" {
		b.payTo = testSeller
	}
	if b.timeout == 0 {
		b.timeout = 60
	}
	return fmt.Sprintf(`{"scheme":"exact","network":"eip155:8453","amount":"%d","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
		"payTo":%q,"maxTimeoutSeconds":%d,"extra":{"name":"USD Coin","version":"2"}}`, b.amount, b.payTo, b.timeout)
}

// request asks for it through its door; accepts are further entries of the challenge.
func (w *world) request(b buy, accepts ...buy) pay.Request {
	entries := []string{b.entry()}
	for _, more := range accepts {
		entries = append(entries, more.entry())
	}
	c, err := x402.DecodeHeader(`{"x402Version":2,"accepts":[` + strings.Join(entries, ",") + `]}`)
	if err != nil {
		w.t.Fatal(err)
	}
	r := pay.Request{Key: w.key, Door: b.door, Task: b.task, Settlement: pay.SettleSeller, Challenge: c, URL: b.url}
	if b.door != pay.DoorAPI {
		if b.method == "" {
			b.method = "GET"
		}
		r.HTTP = &pay.HTTPRequest{Method: b.method, URL: b.url}
	}
	return r
}

// open begins a payment and leaves its caller answered, but the outcome open.
func (w *world) open(b buy, accepts ...buy) (*pay.Payment, error) {
	a, err := w.payer.Open(context.Background(), w.request(b, accepts...))
	if err != nil {
		return nil, err
	}
	a.Finish(true)
	w.quiet()
	return a.Payment(), nil
}

// settle begins a payment, which the seller settles.
func (w *world) settle(b buy) *pay.Payment {
	w.t.Helper()
	a, err := w.payer.Open(context.Background(), w.request(b))
	if err != nil {
		w.t.Fatalf("%+v: %v", b, err)
	}
	tx := w.sellerMoves(a.Payload())
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
	a.Finish(true)
	w.quiet()
	return w.payment(a.Payment().ID)
}

// set gives the test's key a policy.
func (w *world) set(pol pay.Policy) {
	w.t.Helper()
	var err error
	if w.key, err = w.books.SetPolicy(context.Background(), w.key.ID, &pol); err != nil {
		w.t.Fatal(err)
	}
}

// rule is the rule that refused, "" for none.
func rule(err error) string {
	var refused *pay.PolicyError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		if refused.Detail == "" {
			return "no detail: " + refused.Rule
		}
		return refused.Rule
	}
	return err.Error()
}

// numbered are URLs of one endpoint that are not the same request.
func numbered(n int) string { return fmt.Sprintf("https://api.example.com/v1/data?n=%d", n) }
