package pgstore

import (
	"context"
	"encoding/json"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

const accountByID = `SELECT row FROM accounts WHERE id = $1`

// AccountByID finds an account.
func (t *tx) AccountByID(id string) (pay.Account, error) {
	return t.d.account(t.ctx, t, accountByID, id)
}

// AccountOf finds the account of an issuer and subject.
func (t *tx) AccountOf(issuer, subject string) (pay.Account, error) {
	return t.d.account(t.ctx, t, `SELECT row FROM accounts WHERE identity = $1`, codec.AccountKey(issuer, subject))
}

func (d *DB) account(ctx context.Context, q querier, sql string, args ...any) (pay.Account, error) {
	row, err := one[codec.Account](ctx, q, pay.ErrAccountNotFound, sql, args...)
	if err != nil {
		return pay.Account{}, err
	}
	return row.Unseal(d.vault)
}

// PutAccount writes an account.
func (t *tx) PutAccount(a pay.Account) error {
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
	return d.account(ctx, d.pool, accountByID, id)
}
