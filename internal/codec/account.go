package codec

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// The names by which the vault authenticates the secrets of keys, wallets, accounts and sessions.

// KeySecret names the secret of a key.
func KeySecret(id string) string { return "api-key/" + id }

// WalletSecret names the key material of a wallet.
func WalletSecret(id string) string { return "wallet/" + id }

// AccountSecret names what the provider says of a person.
func AccountSecret(id string) string { return "account/" + id }

// SessionSecret names the data of a session.
func SessionSecret(id string) string { return "session/" + id }

// Account holds an account as it is stored. Issuer and subject are in clear, because the index is made
// of them. The name and address of the person are sealed.
type Account struct {
	ID             string    `json:"ID"`
	Issuer         string    `json:"Issuer"`
	Subject        string    `json:"Subject"`
	OrganizationID string    `json:"OrganizationID"`
	Created        time.Time `json:"Created"`
	SignedIn       time.Time `json:"SignedIn"`
	Generation     uint64    `json:"Generation,omitempty"`
	Person         []byte    `json:"Person"` // Person, sealed
}

// Person holds the fields of an account that only the dashboard shows.
type Person struct {
	Name  string `json:"Name"`
	Email string `json:"Email"`
}

// SealAccount seals an account into its row.
func SealAccount(v *vault.Vault, a pay.Account) (row Account, err error) {
	text, err := json.Marshal(Person{a.Name, a.Email})
	if err != nil {
		return row, fmt.Errorf("encode account: %w", err)
	}
	sealed, err := v.Seal(text, AccountSecret(a.ID))
	if err != nil {
		return row, fmt.Errorf("seal account: %w", err)
	}
	return Account{
		ID: a.ID, Issuer: a.Issuer, Subject: a.Subject, OrganizationID: a.OrganizationID,
		Created: a.Created, SignedIn: a.SignedIn, Generation: a.Generation, Person: sealed,
	}, nil
}

// Unseal opens the row.
func (row Account) Unseal(v *vault.Vault) (pay.Account, error) {
	a := pay.Account{
		ID: row.ID, Identity: pay.Identity{Issuer: row.Issuer, Subject: row.Subject}, OrganizationID: row.OrganizationID,
		Created: row.Created, SignedIn: row.SignedIn, Generation: row.Generation,
	}
	text, err := v.Unseal(row.Person, AccountSecret(row.ID))
	if err != nil {
		return pay.Account{}, fmt.Errorf("account %s: %w", row.ID, err)
	}
	var p Person
	if err := json.Unmarshal(text, &p); err != nil {
		return pay.Account{}, fmt.Errorf("account %s: %w", row.ID, err)
	}
	a.Name, a.Email = p.Name, p.Email
	return a, nil
}

// AccountKey finds an account by its identity: a hash, which has no characters that an index refuses.
func AccountKey(issuer, subject string) []byte {
	hash := pay.HashOf("identity", issuer, subject)
	return hash[:]
}
