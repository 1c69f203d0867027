package books

import (
	"context"
	"errors"
	"fmt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// ExecLabel is the exec key's label, and its name for commands.
const ExecLabel = "exec"

// ExecPolicy restricts the exec key to the proxy. On REST it cannot pay, so that host rules, which
// hold where purser dials, bind whatever a program does with the key.
func ExecPolicy() *policy.Policy { return &policy.Policy{Doors: []policy.Door{policy.DoorProxy}} }

// Access holds what a program pays with: a key, its secret, and the wallet that it draws from. A revoked
// key has no wallet here.
type Access struct {
	Key    pay.Key
	Secret string
	Wallet pay.Wallet
}

// Exec finds the exec key, or makes it. Calls at the same time make one key.
func (k OperatorKeys) Exec(ctx context.Context) (Access, error) {
	if err := Changes.Acquire(ctx, 1); err != nil {
		return Access{}, err
	}
	defer Changes.Release(1)
	return k.MakeExec(ctx)
}

// MakeExec is Exec for callers that hold [Changes].
func (k OperatorKeys) MakeExec(ctx context.Context) (Access, error) {
	a, err := k.makeExec(pay.WithActorIfNone(ctx, configured))
	if err != nil {
		return Access{}, fmt.Errorf("exec key: %w", err)
	}
	return a, nil
}

func (k OperatorKeys) makeExec(ctx context.Context) (a Access, err error) {
	a.Key, a.Secret, err = k.Books.ExecSecret(ctx)
	if errors.Is(err, pay.ErrKeyNotFound) {
		return k.createExec(ctx)
	}
	if err == nil && !a.Key.Revoked() { // payments of one that is revoked may still be looked at
		a.Wallet, err = k.wallet(ctx, a.Key, k.Network)
	}
	return a, err
}

// createExec makes an exec key in the place of none, or of a revoked one.
func (k OperatorKeys) createExec(ctx context.Context) (a Access, err error) {
	a.Key, a.Secret, err = k.Books.CreateKey(ctx, KeyRequest{Label: ExecLabel, Policy: ExecPolicy(), Operator: true, Exec: true})
	if errors.Is(err, pay.ErrKeyExists) { // another node was first
		a.Key, a.Secret, err = k.Books.ExecSecret(ctx)
	}
	if err == nil {
		a.Wallet, err = k.wallet(ctx, a.Key, k.Network)
	}
	return a, err
}

// ReplaceExec makes another exec key, after the one before was revoked: pay.ErrKeyExists.
func (k OperatorKeys) ReplaceExec(ctx context.Context) (Access, error) {
	if err := Changes.Acquire(ctx, 1); err != nil {
		return Access{}, err
	}
	defer Changes.Release(1)
	last, err := k.Books.ExecKey(ctx)
	switch {
	case err == nil && !last.Revoked():
		return Access{}, pay.ErrKeyExists
	case err != nil && !errors.Is(err, pay.ErrKeyNotFound):
		return Access{}, err
	}
	return k.createExec(ctx)
}

// FindExec returns the exec key if it has been made: pay.ErrKeyNotFound.
func (k OperatorKeys) FindExec(ctx context.Context) (pay.Key, error) { return k.Books.ExecKey(ctx) }
