package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
)

// accountIdentity names an account in the vault.
func accountIdentity(id string) string { return "account/" + id }

// accountRow holds an account as it is stored. The name and address of the person are sealed.
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

// accountRowOf seals an account into its row.
func (d *DB) accountRowOf(a pay.Account) (row []byte, err error) {
	text, err := json.Marshal(person{a.Name, a.Email})
	if err != nil {
		return nil, err
	}
	sealed, err := d.vault.Seal(text, accountIdentity(a.ID))
	if err != nil {
		return nil, fmt.Errorf("seal account: %w", err)
	}
	return json.Marshal(accountRow{
		ID: a.ID, Issuer: a.Issuer, Subject: a.Subject, OrganizationID: a.OrganizationID,
		Created: a.Created, SignedIn: a.SignedIn, Generation: a.Generation, Person: sealed,
	})
}

// account opens a row.
func (d *DB) account(row accountRow) (pay.Account, error) {
	a := pay.Account{
		ID: row.ID, Identity: pay.Identity{Issuer: row.Issuer, Subject: row.Subject}, OrganizationID: row.OrganizationID,
		Created: row.Created, SignedIn: row.SignedIn, Generation: row.Generation,
	}
	text, err := d.vault.Unseal(row.Person, accountIdentity(row.ID))
	if err != nil {
		return pay.Account{}, fmt.Errorf("account %s: %w", row.ID, err)
	}
	p, err := decode[person](text)
	a.Name, a.Email = p.Name, p.Email
	return a, err
}

func identityOf(a pay.Account) []byte {
	hash := pay.HashOf("identity", a.Issuer, a.Subject)
	return hash[:]
}

const accountByID = `SELECT row FROM accounts WHERE id = $1`

// Enroll signs a person in.
func (d *DB) Enroll(ctx context.Context, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if e.Account.ID == "" || e.Account.OrganizationID != "" && e.Key.OrganizationID != e.Account.OrganizationID {
		return a, false, errors.New("enroll: no id, or a key of another organization")
	}
	err = d.change(ctx, []string{configuration}, func(t *tx) error {
		a, first = e.Account, true
		begins := a.OrganizationID != "" // with an organization
		was, err := one[accountRow](t.ctx, t, pay.ErrAccountNotFound, `SELECT row FROM accounts WHERE identity = $1`, identityOf(a))
		switch {
		case err == nil:
			first = false
			a.ID, a.Created, a.Generation = was.ID, was.Created, was.Generation
			if was.OrganizationID != "" {
				a.OrganizationID, begins = was.OrganizationID, false
			}
		case !errors.Is(err, pay.ErrAccountNotFound):
			return err
		}
		_, known, err := organizationIn(t.ctx, t, e.Key.OrganizationID)
		if err != nil {
			return err
		}
		if begins && known { // the account would see the keys of another account
			return fmt.Errorf("enroll: organization %s is there already", e.Key.OrganizationID)
		}
		if begins || e.Account.OrganizationID == "" && e.Key.OrganizationID != "" && !known {
			if err := t.createKey(e.Key); err != nil {
				return err
			}
			if err := t.audit(pay.KeyCreated(e.Key.Key)); err != nil {
				return err
			}
		}
		if first {
			switch _, err := one[accountRow](t.ctx, t, pay.ErrAccountNotFound, accountByID, a.ID); {
			case err == nil:
				return fmt.Errorf("enroll: id %s is taken", a.ID)
			case !errors.Is(err, pay.ErrAccountNotFound):
				return err
			}
		}
		return t.putAccount(a)
	})
	if err != nil {
		return pay.Account{}, false, err
	}
	return a, first, nil
}

func (t *tx) putAccount(a pay.Account) error {
	row, err := t.d.accountRowOf(a)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO accounts (id, identity, row) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET row = excluded.row`, a.ID, identityOf(a), row)
}

// Account finds an account by id.
func (d *DB) Account(ctx context.Context, id string) (pay.Account, error) {
	row, err := one[accountRow](ctx, d.pool, pay.ErrAccountNotFound, accountByID, id)
	if err != nil {
		return pay.Account{}, err
	}
	return d.account(row)
}

// EndSessions begins an account's next generation.
func (d *DB) EndSessions(ctx context.Context, accountID string) (a pay.Account, err error) {
	err = d.change(ctx, []string{configuration}, func(t *tx) error {
		row, err := one[accountRow](t.ctx, t, pay.ErrAccountNotFound, accountByID, accountID)
		if err != nil {
			return err
		}
		row.Generation++
		if a, err = d.account(row); err != nil {
			return err
		}
		return t.putAccount(a)
	})
	if err != nil {
		return pay.Account{}, err
	}
	return a, nil
}
