package storekit

import (
	"context"
	"errors"
	"fmt"

	"github.com/purserpay/purser/pay"
)

// Accounts keeps the people who sign in.
type Accounts interface {
	// AccountByID finds an account: ErrAccountNotFound.
	AccountByID(id string) (pay.Account, error)
	// AccountOf finds the account of an issuer and subject: ErrAccountNotFound.
	AccountOf(issuer, subject string) (pay.Account, error)
	// PutAccount replaces an account.
	PutAccount(a pay.Account) error
}

// Enroll signs a person in.
func (b Book) Enroll(ctx context.Context, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if e.Account.ID == "" || e.Account.OrganizationID != "" && e.Key.OrganizationID != e.Account.OrganizationID {
		return a, false, errors.New("enroll: no id, or a key of another organization")
	}
	a, err = update(ctx, b, nil, func(tx BookTx) (a pay.Account, err error) {
		a, first, err = enroll(ctx, tx, e)
		return a, err
	})
	return a, first && err == nil, err
}

func enroll(ctx context.Context, tx BookTx, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if err := tx.Room(); err != nil {
		return a, false, err
	}
	a, first = e.Account, true
	begins := a.OrganizationID != "" // with an organization
	switch was, err := tx.AccountOf(a.Issuer, a.Subject); {
	case err == nil:
		first = false
		a.ID, a.Created, a.Generation = was.ID, was.Created, was.Generation
		if was.OrganizationID != "" {
			a.OrganizationID, begins = was.OrganizationID, false
		}
	case !errors.Is(err, pay.ErrAccountNotFound):
		return a, false, err
	}
	if first {
		switch _, err := tx.AccountByID(a.ID); {
		case err == nil:
			return a, false, fmt.Errorf("enroll: id %s is taken", a.ID)
		case !errors.Is(err, pay.ErrAccountNotFound):
			return a, false, err
		}
	}
	_, known, err := tx.OrganizationOf(e.Key.OrganizationID)
	if err != nil {
		return a, false, err
	}
	if begins && known { // the account would see the keys of another account
		return a, false, fmt.Errorf("enroll: organization %s is there already", e.Key.OrganizationID)
	}
	if begins || e.Account.OrganizationID == "" && e.Key.OrganizationID != "" && !known {
		if err := createKey(ctx, tx, e.Key); err != nil {
			return a, false, err
		}
	}
	return a, first, tx.PutAccount(a)
}

// EndSessions begins an account's next generation.
func (b Book) EndSessions(ctx context.Context, accountID string) (pay.Account, error) {
	return update(ctx, b, nil, func(tx BookTx) (pay.Account, error) {
		a, err := tx.AccountByID(accountID)
		if err != nil {
			return a, err
		}
		a.Generation++
		return a, tx.PutAccount(a)
	})
}
