package adminapi

import "net/http"

// Exec answers POST /purser/exec: all that a program needs to pay.
type Exec struct {
	Key     string  `json:"key"` // the secret
	KeyID   string  `json:"key_id"`
	Address *string `json:"address"` // the wallet's; nil without a wallet provider
	Balance *string `json:"balance"` // in the smallest unit of USDC; nil when it is not known
	Network string  `json:"network"`
	Proxy   string  `json:"proxy"` // the proxy's URL for programs on this machine; empty if it listens on no TCP address
	CA      string  `json:"ca"`    // the interception root in PEM; empty when nothing is intercepted
}

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
	shown := p.shownWallet(r.Context(), wallet)
	return Exec{
		Key: secret, KeyID: key.ID, Address: shown.Address, Balance: shown.Balance, Network: wallet.Network,
		Proxy: p.ProxyURL(), CA: string(p.Root()),
	}, nil
}
