package pay

import (
	"time"

	"github.com/purserpay/purser/x402"
)

// Wallet is an address that pays for one key on one network.
type Wallet struct {
	ID         string `json:"ID"` // UUIDv7, the id in DELETE /wallets/{id}
	KeyID      string `json:"KeyID"`
	ProviderID string `json:"ProviderID"` // wallet_id on REST: "local_…", the provider's own id, or "purser_…" without a provider
	Network    string `json:"Network"`    // our name: "base"
	// Address is nil when no wallet provider is configured; such a wallet cannot pay.
	Address *x402.Address `json:"Address,omitempty"`
	Created time.Time     `json:"Created"`
	// Deleted is set once the wallet is hidden: its address can still receive money.
	Deleted *time.Time `json:"Deleted,omitempty"`
}

// NewWallet holds the input of storing a wallet.
type NewWallet struct {
	Wallet
	// Secret is key material for the store to keep encrypted; nil: the provider keeps it.
	Secret []byte
	// Plans, when set, bound the live wallets of a claimed key's organization.
	Plans Plans
}

// Most returns how many live wallets the owner of key k may have: that of the plan for a claimed
// key, if the wallet brings a table of plans, else limit.
func (w NewWallet) Most(k Key, org Organization, limit int) int {
	if w.Plans != nil && k.Claimed() {
		return w.Plans.Of(org.Plan).Wallets
	}
	return limit
}

// ProvidedWallet is a wallet provider's answer to a request for a new wallet.
type ProvidedWallet struct {
	ProviderID string
	Address    *x402.Address
	Secret     []byte
}
