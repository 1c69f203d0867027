package storekit

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// Book holds the operations of a store on keys, organizations, accounts, wallets, settings and
// approvals. A store embeds it.
type Book struct {
	update func(ctx context.Context, keys []string, run func(tx BookTx) error) error
}

// NewBook returns a book. update runs a rule in a transaction, perhaps several times, and returns nil when
// that is durable. No decision about payments of the keys may be under way meanwhile.
func NewBook(update func(ctx context.Context, keys []string, run func(tx BookTx) error) error) Book {
	return Book{update}
}

// BookTx is a transaction of a [Book]. The rows that it returns belong to the caller.
type BookTx interface {
	Tx
	Keys
	Accounts
	Wallets
	Settings
	Approvals
}

// Keys keeps keys and organizations.
type Keys interface {
	// Key finds a key: ErrKeyNotFound.
	Key(id string) (pay.Key, error)
	// KeyBySecret finds a key: ErrKeyNotFound, ErrSecretReplaced.
	KeyBySecret(secret string) (pay.Key, error)
	// ExecKey finds the key that was made last as the Exec key: ErrKeyNotFound.
	ExecKey() (pay.Key, error)
	// AddKey writes a new key with its secret.
	AddKey(k pay.NewKey) error
	// PutKey replaces a key.
	PutKey(k pay.Key) error
	// PutLinkedKey replaces a key that has got an organization, and keeps its secret.
	PutLinkedKey(k pay.Key, secret string) error
	// PutReissuedKey replaces a key and its secret. The earlier one counts as replaced. The store keeps its
	// hash in the key's Overlap, if there is one.
	PutReissuedKey(k pay.Key, secret string) error

	// OrganizationOf finds an organization. An unknown one has the free plan.
	OrganizationOf(id string) (org pay.Organization, known bool, err error)
	// KeysOf lists an organization's keys, oldest first; "" has none.
	KeysOf(orgID string) ([]pay.Key, error)
	// PutOrganization replaces an organization.
	PutOrganization(org pay.Organization) error
}

// update runs a rule and returns its value.
func update[T any](ctx context.Context, b Book, keys []string, rule func(tx BookTx) (T, error)) (value T, err error) {
	err = b.update(ctx, keys, func(tx BookTx) (err error) {
		value, err = rule(tx)
		return err
	})
	if err != nil {
		value = *new(T)
	}
	return value, err
}

// Enter writes the audit entry of a change.
func Enter(ctx context.Context, tx Tx, c pay.Change) error {
	var w writing
	if err := w.enter(ctx, tx, c); err != nil {
		return err
	}
	return w.to(tx)
}
