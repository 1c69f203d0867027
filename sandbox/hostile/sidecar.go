package hostile

import (
	"context"
	"fmt"
	"net/http"

	"github.com/purserpay/purser/x402"
)

// Deployment returns the customer of a deployment's own key, whose wallet purser has made.
func Deployment(ctx context.Context, purser, key string) (*Customer, error) {
	c := &Customer{Purser: purser, Key: key, api: client(nil), direct: client(nil)}
	var list struct {
		Wallets []struct{ Address x402.Address }
	}
	if err := c.call(ctx, http.MethodGet, "/wallets/me", nil, &list); err != nil {
		return nil, err
	}
	if len(list.Wallets) != 1 {
		return nil, fmt.Errorf("purser's own key has %d wallets", len(list.Wallets))
	}
	c.Wallet = list.Wallets[0].Address
	return c.At(purser)
}

// BuyBeside requests an order once at a sidecar door. The base URL of the door replaces the
// seller's. Requests there spend by the deployment's key.
func (c *Customer) BuyBeside(ctx context.Context, sidecar string, o Order) Result {
	at := fmt.Sprintf("%s/buy?id=%d", sidecar, o.ID)
	if o.Version == 1 {
		at += "&v=1"
	}
	if o.Method == "" {
		o.Method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(ctx, o.Method, at, nil)
	if err != nil {
		return Result{Err: err}
	}
	if o.Key != "" {
		r.Header.Set("Idempotency-Key", o.Key)
	}
	got, err := do(c.direct, r)
	return result(got, err)
}
