package adminapi

import (
	"context"
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// Exec answers POST /purser/exec: all that a program needs to pay.
type Exec struct {
	Key   string `json:"key"` // the secret
	KeyID string `json:"key_id"`
	// Address is the wallet's; nil without a wallet provider.
	Address *string `json:"address"`
	// Balance is in the smallest unit of USDC; nil when it is not known.
	Balance *string `json:"balance"`
	Network string  `json:"network"`
	// Proxy is the proxy's URL for programs on this machine; empty if it listens on no TCP
	// address.
	Proxy string `json:"proxy"`
	// CA is the interception root in PEM; empty when nothing is intercepted.
	CA string `json:"ca"`
}

// balanceTime bounds the look at a wallet's balance.
const balanceTime = 3 * time.Second

// exec makes the exec key if need be and tells how to use it.
func (p *Purser) exec(r *http.Request) (any, error) {
	key, secret, err := p.Keys.Exec(r.Context())
	if err != nil {
		return nil, err
	}
	if key.Revoked() {
		return nil, Errorf(http.StatusConflict, "the exec key %s is revoked: remove %s, and the next start of a program makes another one, with a wallet of its own",
			key.ID, p.Keys.ExecPath())
	}
	wallet, err := p.Keys.Wallet(r.Context(), key)
	if err != nil {
		return nil, err
	}
	answer := Exec{Key: secret, KeyID: key.ID, Network: wallet.Network, Proxy: p.ProxyURL()}
	if wallet.Address != nil {
		address := wallet.Address.String()
		answer.Address, answer.Balance = &address, p.balance(r.Context(), wallet)
	}
	answer.CA = string(p.Root())
	return answer, nil
}

// balance asks the chain for the balance of a wallet; nil when it does not tell.
func (p *Purser) balance(ctx context.Context, w pay.Wallet) *string {
	if p.Chain == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	for _, n := range p.Networks {
		if n.Name != w.Network || len(n.Assets) == 0 {
			continue
		}
		have, err := p.Chain.Balance(ctx, n.Assets[0], *w.Address)
		if err != nil {
			p.Log.Warn("balance not known", "network", w.Network, "address", w.Address.String(), "error", err)
			return nil
		}
		text := have.String()
		return &text
	}
	return nil
}
