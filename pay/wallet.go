package pay

import (
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

// Wallet is an address that pays on one network: for the key that owns it, and for the keys that it
// is lent to.
type Wallet struct {
	ID         string `json:"ID"`         // UUIDv7, the id in DELETE /wallets/{id}
	KeyID      string `json:"KeyID"`      // of its owner
	ProviderID string `json:"ProviderID"` // wallet_id on REST: "local_…", "external_…", "cdp_…", or "purser_…" without a provider
	Network    string `json:"Network"`    // our name: "base"
	// Address is nil when no wallet provider is configured; such a wallet cannot pay.
	Address *x402.Address `json:"Address,omitempty"`
	Created time.Time     `json:"Created"`
	// Deleted is set once the wallet is hidden: its address can still receive money.
	Deleted *time.Time `json:"Deleted,omitempty"`
	// Approving is set once an operator has let Permit2 move tokens of the wallet.
	Approving *Approving `json:"Approving,omitempty"`
}

// Provider returns the name of the provider that made the wallet, "purser" if there was none.
func (w Wallet) Provider() string {
	name, _, _ := strings.Cut(w.ProviderID, "_")
	return name
}

// NewWallet holds the input of storing a wallet.
type NewWallet struct {
	Wallet
	// Secret is key material for the store to keep encrypted; nil: the provider keeps it.
	Secret []byte
	// Plans, when set, bound the live wallets of a claimed key's organization.
	Plans Plans
	// Imported says that the secret was made elsewhere. The audit names it so.
	Imported bool
}

// Most returns how many live wallets the owner of key k may have: that of the plan for a claimed
// key, if the wallet brings a table of plans, else limit.
func (w NewWallet) Most(k Key, org Organization, limit int) int {
	if w.Plans != nil && k.Claimed() {
		return w.Plans.Of(org.Plan).Wallets
	}
	return limit
}

// Share lends a wallet to keys, beside its owner. Each key has limits of its own, and all draw from
// one balance.
type Share struct {
	WalletID string
	KeyIDs   []string
	At       time.Time
}

// ProvidedWallet is a wallet provider's answer to a request for a new wallet.
type ProvidedWallet struct {
	ProviderID string
	Address    *x402.Address
	Secret     []byte
}
