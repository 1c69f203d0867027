package payapi_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// unmoved is a chain on which no authorization is used. It counts how often it is asked for one.
type unmoved struct {
	pay.Chain
	traces chan struct{}
}

func (u *unmoved) Identify(_ context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	return pay.ChainIdentity{ChainID: n.ChainID, Genesis: "0x" + strings.Repeat("01", 32)}, nil
}

func (u *unmoved) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	return money.New(1_000_000), nil
}

func (u *unmoved) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	u.traces <- struct{}{}
	id, err := u.Identify(ctx, q.Network, q.Asset)
	return pay.Trace{Chain: id, SafeTime: q.Created, SafeNumber: 1, SafeHash: "0x" + strings.Repeat("02", 32), Latest: q.Created}, err
}

// Receipts that have the chain asked are told to wait, when those of one key have had it asked too often.
// Another key is served.
func TestReceiptsThatAskTheChainAreBounded(t *testing.T) {
	t.Parallel()
	chain := &unmoved{traces: make(chan struct{}, 1000)}
	w := newWorld(t, func(s *setup) { s.pay.Chain = chain })
	key, other := w.payingKey(), w.payingKey()
	claim := receipt(map[string]any{"success": false, "errorReason": "nonce_already_used", "transaction": ""})
	post := func(secret string, n int) answer {
		id := w.call("POST", "/v1/pay", secret, order(5, "settlement", "seller", "requestUrl", "https://host-"+strconv.Itoa(n)+".example/")).is(200, "").text("payment.id")
		w.released(id)
		for range 5 {
			if a := w.call("POST", "/v1/payments/"+id+"/receipt", secret, claim); a.status != 200 {
				return a
			}
		}
		return w.call("GET", "/v1/payments/"+id, secret, nil).is(200, "").want("payment.state", "open")
	}
	for n := range 60 {
		a := post(key, n)
		if a.status == 200 {
			continue
		}
		after, err := strconv.Atoi(a.is(429, tooMany).header.Get("Retry-After"))
		if err != nil || after < 1 || after > 60 || !strings.Contains(a.text("detail"), "RPC") {
			t.Errorf("Retry-After %q, %s", a.header.Get("Retry-After"), a.raw)
		}
		if asked := len(chain.traces); asked > 40 {
			t.Errorf("the chain was asked %d times", asked)
		}
		if a := post(other, 1); a.status != 200 {
			t.Errorf("another key: %s", a.raw)
		}
		return
	}
	t.Errorf("receipts of a key had the chain asked %d times, without an end", len(chain.traces))
}
