package adminapi

import "net/http"

// Exec answers POST /purser/exec: all that a program needs to pay.
type Exec struct {
	Key     string  `json:"key"` // the secret
	KeyID   string  `json:"key_id"`
	Address *string `json:"address"` // of the wallet that it draws from; nil without a wallet provider
	Balance *string `json:"balance"` // in the smallest unit of USDC; nil when it is not known
	Network string  `json:"network"`
	Proxy   string  `json:"proxy"` // the proxy's URL for programs on this machine; empty if it listens on no TCP address
	CA      string  `json:"ca"`    // the interception root in PEM; empty when nothing is intercepted
	// Variables names those that purser's configuration refers to: no program of an agent gets them.
	Variables []string `json:"variables,omitempty"`
}

func (p *Purser) exec(r *http.Request) (any, error) {
	a, err := p.Keys.Exec(r.Context())
	if err != nil {
		return nil, err
	}
	if a.Key.Revoked() {
		return nil, Errorf(http.StatusConflict, "the exec key %s is revoked: 'purser keys create --exec' makes another one", a.Key.ID)
	}
	shown := p.shownWallet(r.Context(), a.Wallet)
	return Exec{
		Key: a.Secret, KeyID: a.Key.ID, Address: shown.Address, Balance: shown.Balance, Network: a.Wallet.Network,
		Proxy: p.ProxyURL(), CA: string(p.Root()), Variables: p.variables(),
	}, nil
}

// variables names the variables that the configuration of this purser refers to.
func (p *Purser) variables() []string {
	if p.Variables == nil {
		return nil
	}
	return p.Variables()
}
