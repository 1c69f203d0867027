package boltstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// accountIdentity names an account in the vault.
func accountIdentity(id string) string { return "account/" + id }

// accountRow holds an account as it is stored. Issuer and subject are in clear, because the index
// is made of them. The name and address of the person are sealed.
type accountRow struct {
	ID             string    `json:"ID"`
	Issuer         string    `json:"Issuer"`
	Subject        string    `json:"Subject"`
	OrganizationID string    `json:"OrganizationID"`
	Created        time.Time `json:"Created"`
	SignedIn       time.Time `json:"SignedIn"`
	Generation     uint64    `json:"Generation,omitempty"`
	Person         []byte    `json:"Person"` // person, sealed
}

// person holds the fields of an account that only the dashboard shows.
type person struct {
	Name  string `json:"Name"`
	Email string `json:"Email"`
}

// identityKey makes the index key of an identity.
func identityKey(issuer, subject string) []byte {
	hash := pay.HashOf("identity", issuer, subject)
	return hash[:]
}

// accountRowOf seals an account into its row.
func (d *DB) accountRowOf(a pay.Account) (row accountRow, err error) {
	text, err := json.Marshal(person{a.Name, a.Email})
	if err != nil {
		return row, fmt.Errorf("encode account: %w", err)
	}
	sealed, err := d.vault.Load().Seal(text, accountIdentity(a.ID))
	if err != nil {
		return row, fmt.Errorf("seal account: %w", err)
	}
	return accountRow{
		ID: a.ID, Issuer: a.Issuer, Subject: a.Subject, OrganizationID: a.OrganizationID,
		Created: a.Created, SignedIn: a.SignedIn, Generation: a.Generation, Person: sealed,
	}, nil
}

// account opens a row.
func (d *DB) account(row accountRow) (pay.Account, error) {
	a := pay.Account{
		ID: row.ID, Identity: pay.Identity{Issuer: row.Issuer, Subject: row.Subject}, OrganizationID: row.OrganizationID,
		Created: row.Created, SignedIn: row.SignedIn, Generation: row.Generation,
	}
	text, err := d.vault.Load().Unseal(row.Person, accountIdentity(row.ID))
	if err != nil {
		return pay.Account{}, fmt.Errorf("account %s: %w", row.ID, err)
	}
	var p person
	if err := json.Unmarshal(text, &p); err != nil {
		return pay.Account{}, fmt.Errorf("account %s: %w", row.ID, err)
	}
	a.Name, a.Email = p.Name, p.Email
	return a, nil
}

func accountIn(tx *bbolt.Tx, id string) (row accountRow, err error) {
	encoded := tx.Bucket(accountsBucket).Get([]byte(id))
	if encoded == nil {
		return row, pay.ErrAccountNotFound
	}
	if err := decodeRow(encoded, &row); err != nil {
		return row, fmt.Errorf("account %s: %w", id, err)
	}
	return row, nil
}

func (b *batch) putAccount(row accountRow) error {
	encoded, err := encodeRow(row)
	if err != nil {
		return err
	}
	return b.put(accountsBucket, []byte(row.ID), encoded)
}

// Enroll signs a person in.
func (d *DB) Enroll(ctx context.Context, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if e.Account.ID == "" || e.Account.OrganizationID != "" && e.Key.OrganizationID != e.Account.OrganizationID {
		return a, false, errors.New("enroll: no id, or a key of another organization")
	}
	key, err := d.newKey(e.Key)
	if err != nil {
		return a, false, err
	}
	identity := identityKey(e.Account.Issuer, e.Account.Subject)
	err = d.do(ctx, &op{run: func(b *batch) error {
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		a, first = e.Account, true
		begins := a.OrganizationID != "" // with an organization
		if id := b.get(identitiesBucket, identity); id != nil {
			was, err := accountIn(b.tx, string(id))
			if err != nil {
				return err
			}
			first = false
			a.ID, a.Created, a.Generation = was.ID, was.Created, was.Generation
			if was.OrganizationID != "" {
				a.OrganizationID, begins = was.OrganizationID, false
			}
		}
		row, err := d.accountRowOf(a)
		if err != nil {
			return err
		}
		_, known, err := organizationIn(b.tx, e.Key.OrganizationID)
		if err != nil {
			return err
		}
		if begins && known { // the account would see the keys of another account
			return fmt.Errorf("enroll: organization %s is there already", e.Key.OrganizationID)
		}
		if begins || e.Account.OrganizationID == "" && e.Key.OrganizationID != "" && !known {
			if err := d.createKey(b, key); err != nil {
				return err
			}
			if err := d.audit(ctx, b, pay.KeyCreated(key.Key)); err != nil {
				return err
			}
		}
		if first {
			if b.get(accountsBucket, []byte(a.ID)) != nil {
				return fmt.Errorf("enroll: id %s is taken", a.ID)
			}
			if err := b.put(identitiesBucket, identity, []byte(a.ID)); err != nil {
				return err
			}
		}
		return b.putAccount(row)
	}})
	if err != nil {
		return pay.Account{}, false, err
	}
	return a, first, nil
}

// Account finds an account by id.
func (d *DB) Account(ctx context.Context, id string) (pay.Account, error) {
	var row accountRow
	err := d.view(ctx, func(tx *bbolt.Tx) (err error) {
		row, err = accountIn(tx, id)
		return err
	})
	if err != nil {
		return pay.Account{}, err
	}
	return d.account(row)
}

// EndSessions begins an account's next generation.
func (d *DB) EndSessions(ctx context.Context, accountID string) (pay.Account, error) {
	var row accountRow
	err := d.do(ctx, &op{run: func(b *batch) (err error) {
		if row, err = accountIn(b.tx, accountID); err != nil {
			return err
		}
		row.Generation++
		return b.putAccount(row)
	}})
	if err != nil {
		return pay.Account{}, err
	}
	return d.account(row)
}
