package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

const accountByID = `SELECT row FROM accounts WHERE id = $1`

// Enroll signs a person in.
func (d *DB) Enroll(ctx context.Context, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if e.Account.ID == "" || e.Account.OrganizationID != "" && e.Key.OrganizationID != e.Account.OrganizationID {
		return a, false, errors.New("enroll: no id, or a key of another organization")
	}
	err = d.change(ctx, []string{configuration}, func(t *tx) error {
		a, first = e.Account, true
		begins := a.OrganizationID != "" // with an organization
		was, err := one[codec.Account](t.ctx, t, pay.ErrAccountNotFound, `SELECT row FROM accounts WHERE identity = $1`, codec.AccountKey(a.Issuer, a.Subject))
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
			switch _, err := one[codec.Account](t.ctx, t, pay.ErrAccountNotFound, accountByID, a.ID); {
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
	sealed, err := codec.SealAccount(t.d.vault, a)
	if err != nil {
		return err
	}
	row, err := json.Marshal(sealed)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO accounts (id, identity, row) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE SET row = excluded.row`, a.ID, codec.AccountKey(a.Issuer, a.Subject), row)
}

// Account finds an account by id.
func (d *DB) Account(ctx context.Context, id string) (pay.Account, error) {
	row, err := one[codec.Account](ctx, d.pool, pay.ErrAccountNotFound, accountByID, id)
	if err != nil {
		return pay.Account{}, err
	}
	return row.Unseal(d.vault)
}

// EndSessions begins an account's next generation.
func (d *DB) EndSessions(ctx context.Context, accountID string) (a pay.Account, err error) {
	err = d.change(ctx, []string{configuration}, func(t *tx) error {
		row, err := one[codec.Account](t.ctx, t, pay.ErrAccountNotFound, accountByID, accountID)
		if err != nil {
			return err
		}
		row.Generation++
		if a, err = row.Unseal(d.vault); err != nil {
			return err
		}
		return t.putAccount(a)
	})
	if err != nil {
		return pay.Account{}, err
	}
	return a, nil
}
