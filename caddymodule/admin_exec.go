package caddymodule

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/purserpay/purser/pay"
)

// execAnswer is what POST /purser/exec answers: all that a program needs to pay.
type execAnswer struct {
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
func (*adminAPI) exec(w http.ResponseWriter, r *http.Request) error {
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	key, secret, err := t.app.ensureExecKey(r.Context(), t.payer)
	if err != nil {
		return adminFailure(err)
	}
	if key.Revoked() {
		return adminError(http.StatusConflict, "the exec key %s is revoked: remove %s, and the next start of a program makes another one, with a wallet of its own",
			key.ID, t.app.execPath())
	}
	wallet, err := t.app.ensureWallet(r.Context(), t.payer, key)
	if err != nil {
		return adminFailure(err)
	}
	answer := execAnswer{Key: secret, KeyID: key.ID, Network: wallet.Network, Proxy: t.app.proxyURL()}
	if wallet.Address != nil {
		address := wallet.Address.String()
		answer.Address, answer.Balance = &address, t.balance(r.Context(), wallet)
	}
	if t.authority != nil {
		answer.CA = string(t.authority.root())
	}
	return writeBody(w, http.StatusOK, answer)
}

// balance is what a wallet has, as the chain tells now; nil when it does not.
func (t *tenant) balance(ctx context.Context, w pay.Wallet) *string {
	if t.chain == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, balanceTime)
	defer cancel()
	for _, n := range t.app.settings.networks {
		if n.Name != w.Network || len(n.Assets) == 0 {
			continue
		}
		have, err := t.chain.Balance(ctx, n.Assets[0], *w.Address)
		if err != nil {
			t.log.Warn("balance not known", "network", w.Network, "address", w.Address.String(), "error", err)
			return nil
		}
		text := have.String()
		return &text
	}
	return nil
}

// proxyURL is where programs on this machine find the proxy: on loopback if it listens
// there. It is empty if there is no address.
func (a *App) proxyURL() string {
	var found netip.AddrPort
	for _, d := range a.doors {
		p, ok := d.(*Proxy)
		if !ok || p.server == nil {
			continue
		}
		listeners, err := addrPorts(p.server.Listen)
		if err != nil {
			continue
		}
		for _, l := range listeners {
			switch {
			case l.Addr() == netip.IPv6Unspecified():
				l = netip.AddrPortFrom(netip.IPv6Loopback(), l.Port())
			case l.Addr().IsUnspecified():
				l = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), l.Port())
			}
			if !found.IsValid() || l.Addr().IsLoopback() && !found.Addr().IsLoopback() {
				found = l
			}
		}
	}
	if !found.IsValid() {
		return ""
	}
	return "http://" + found.String()
}
