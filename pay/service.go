package pay

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/purserpay/purser/x402"
)

// KeyPrefix starts every generated key (SPEC §2).
const KeyPrefix = "pk_"

// KeyRequest is what POST /api-keys may ask for.
type KeyRequest struct {
	Label          string
	Secret         string // empty: generated
	OrganizationID string // privileged
	Plan           PlanName
	Policy         *Policy
	Operator       bool // see [Key.Operator]
}

// Resolve finds the key with this secret: ErrKeyNotFound, also for a revoked one.
func (p *Payer) Resolve(ctx context.Context, secret string) (Key, error) {
	k, err := p.KeyBySecret(ctx, secret)
	if err == nil && k.Revoked() {
		return Key{}, ErrKeyNotFound
	}
	return k, err
}

// KeyBySecret finds the key with this secret, revoked or not: ErrKeyNotFound.
func (p *Payer) KeyBySecret(ctx context.Context, secret string) (Key, error) {
	if !ValidSecret(secret) {
		return Key{}, ErrKeyNotFound
	}
	return p.store.KeyBySecret(ctx, secret)
}

// Key finds a key by id: ErrKeyNotFound.
func (p *Payer) Key(ctx context.Context, id string) (Key, error) { return p.store.Key(ctx, id) }

// Keys lists keys, oldest first, from behind the one with id after ("" is the beginning);
// at most 1,000 at a time.
func (p *Payer) Keys(ctx context.Context, after string, limit int) ([]Key, error) {
	return p.store.ListKeys(ctx, after, limit)
}

// SetPolicy gives a key a policy of its own, or, with nil, takes it away. No payment that
// is journaled afterwards goes by the one before. ErrKeyNotFound, *InputError.
func (p *Payer) SetPolicy(ctx context.Context, keyID string, pol *Policy) (Key, error) {
	if pol != nil {
		if err := pol.Validate(); err != nil {
			return Key{}, err
		}
	}
	k, err := p.store.SetPolicy(ctx, keyID, pol)
	if err == nil {
		p.log.Info("policy set", "key", k.ID, "revision", k.PolicyRevision)
	}
	return k, err
}

// AdoptKey makes a key the operator's, for good: see [Key.Operator]. No payment that is journaled
// afterwards goes by the limits before. ErrKeyNotFound.
func (p *Payer) AdoptKey(ctx context.Context, k Key) (Key, error) {
	if k.Operator {
		return k, nil
	}
	k, err := p.store.AdoptKey(ctx, k.ID)
	if err == nil {
		p.log.Info("key became the operator's", "key", k.ID, "revision", k.PolicyRevision)
	}
	return k, err
}

// CreateKey makes a key and returns it with its plaintext secret, which nothing gives
// back later. *InputError, ErrKeyExists, ErrKeyLimit.
func (p *Payer) CreateKey(ctx context.Context, r KeyRequest) (Key, string, error) {
	if utf8.RuneCountInString(r.Label) > 200 || !utf8.ValidString(r.Label) {
		return Key{}, "", &InputError{Field: "label", Reason: "at most 200 characters"}
	}
	if r.OrganizationID != "" && !validOrganizationID(r.OrganizationID) {
		return Key{}, "", &InputError{Field: "organization_id", Reason: "1 to 200 visible characters"}
	}
	if r.Policy != nil {
		if err := r.Policy.Validate(); err != nil {
			return Key{}, "", err
		}
	}
	secret := r.Secret
	if secret == "" {
		secret = generateSecret()
	} else if !ValidSecret(secret) {
		return Key{}, "", &InputError{Field: "key", Reason: "8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Key{}, "", fmt.Errorf("naming a key: %w", err)
	}
	k, err := p.store.CreateKey(ctx, NewKey{
		Key: Key{
			ID: id.String(), Label: r.Label, OrganizationID: r.OrganizationID,
			Created: p.now().UTC(), Policy: r.Policy, Operator: r.Operator,
		},
		Secret: secret, Plan: r.Plan, Plans: p.opts.Plans,
	})
	if err == nil {
		p.opts.Observer.KeyCreated()
	}
	return k, secret, err
}

// ValidSecret reports whether s can be an API key (DESIGN §5).
func ValidSecret(s string) bool {
	return len(s) >= 8 && len(s) <= 256 && strings.Trim(s, secretAlphabet) == ""
}

const secretAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~+/=-"

func validOrganizationID(s string) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > 200 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) < 0
}

// generateSecret makes a key of 256 random bits.
func generateSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return KeyPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// CreateWallet makes a wallet for the key. An empty network is base.
// *InputError for an unknown one, ErrWalletLimit, ErrKeyRevoked.
func (p *Payer) CreateWallet(ctx context.Context, k Key, network string) (Wallet, error) {
	if network == "" {
		network = "base"
	}
	n, ok := p.network(network)
	if !ok || n.Name != network {
		return Wallet{}, &InputError{Field: "network", Reason: "Unsupported network " + truncate(network, 64)}
	}
	if k.Revoked() {
		return Wallet{}, ErrKeyRevoked // its money would be out of reach
	}
	// Asked before the provider makes an account that nobody would use; CreateWallet below
	// is what enforces the limit, by what the key and its plan are then.
	if err := p.roomForWallet(ctx, k); err != nil {
		return Wallet{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Wallet{}, fmt.Errorf("naming a wallet: %w", err)
	}
	made, err := p.opts.Wallets.Create(ctx, id.String(), n.Name)
	if err != nil {
		return Wallet{}, fmt.Errorf("creating a wallet with provider %s: %w", p.opts.Wallets.Name(), err)
	}
	w := Wallet{
		ID: id.String(), KeyID: k.ID, ProviderID: made.ProviderID, Network: n.Name,
		Address: made.Address, Created: p.now().UTC(),
	}
	return w, p.store.CreateWallet(ctx, NewWallet{Wallet: w, Secret: made.Secret, Plans: p.opts.Plans}, UnclaimedWallets)
}

func (p *Payer) roomForWallet(ctx context.Context, k Key) error {
	limit := UnclaimedWallets
	if k.Claimed() {
		org, err := p.store.Organization(ctx, k.OrganizationID)
		if err != nil {
			return err
		}
		limit = p.opts.Plans.Of(org.Plan).Wallets
	}
	have, err := p.store.WalletCount(ctx, k)
	if err == nil && have >= limit {
		err = ErrWalletLimit
	}
	return err
}

// ListWallets lists the key's live wallets, oldest first.
func (p *Payer) ListWallets(ctx context.Context, k Key) ([]Wallet, error) {
	return p.store.Wallets(ctx, k.ID)
}

// DeleteWallet hides a wallet of the key and stops its use: ErrWalletNotFound.
func (p *Payer) DeleteWallet(ctx context.Context, k Key, id string) error {
	return p.store.DeleteWallet(ctx, k.ID, id, p.now().UTC())
}

// walletFor is the oldest live wallet of the key on a network: *NoWalletError.
func (p *Payer) walletFor(ctx context.Context, k Key, network string) (Wallet, error) {
	ws, err := p.store.Wallets(ctx, k.ID)
	if err != nil {
		return Wallet{}, err
	}
	for _, w := range ws {
		if w.Network == network {
			return w, nil
		}
	}
	return Wallet{}, &NoWalletError{Network: network}
}

// Payment finds one of the key's payments: ErrPaymentNotFound, also for another key's.
func (p *Payer) Payment(ctx context.Context, k Key, id string) (*Payment, error) {
	row, err := p.store.Payment(ctx, id)
	if err != nil {
		return nil, err
	}
	if row.KeyID != k.ID {
		return nil, ErrPaymentNotFound
	}
	return row, nil
}

// Payments lists the key's payments, newest first. label is a state, a flag or "".
func (p *Payer) Payments(ctx context.Context, k Key, label string, limit int, before string) ([]*Payment, error) {
	return p.store.Payments(ctx, PaymentQuery{KeyID: k.ID, Label: label, Limit: limit, Before: before})
}

// Pending is what a key's open payments amount to.
type Pending struct{ Count, Amount x402.Amount }

// Spend lists the key's spend events, newest first, with what is still pending of the
// whole key. ErrEventNotFound; *InputError for what cannot be a task label.
func (p *Payer) Spend(ctx context.Context, k Key, q SpendQuery) ([]SpendEvent, Pending, error) {
	if q.Task != "" && !ValidTask(q.Task) {
		return nil, Pending{}, &InputError{Field: "task", Reason: "1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	events, err := p.store.SpendEvents(ctx, k.ID, q)
	if err != nil {
		return nil, Pending{}, err
	}
	n, sum := PendingCounters(k.ID)
	count, err1 := p.store.Counter(ctx, n)
	amount, err2 := p.store.Counter(ctx, sum)
	return events, Pending{Count: count, Amount: amount}, errors.Join(err1, err2)
}
