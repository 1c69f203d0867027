// Package operatorkeys makes and finds the keys that are the operator's own: those that the
// configuration names, and the one that `purser exec` pays with.
package operatorkeys

import (
	"context"
	"errors"
	"log/slog"

	"golang.org/x/sync/semaphore"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// Configured is the actor of changes that a start makes because the operator has configured them.
var Configured = pay.Actor{Kind: pay.ActorConfiguration}

// Changes orders what makes the exec key and what reads a policy to change it. It is the
// process's, because configurations that overlap in a reload share a data directory.
var Changes = semaphore.NewWeighted(1)

// Keys makes and finds the operator's keys in the books.
type Keys struct {
	Books   *books.Books
	Network string // of the keys' wallets
	Log     *slog.Logger
}

// Ensure makes the key with a configured secret known as the operator's, with a wallet to draw from.
// The setting is named in the log, the label is for a key that has to be created. For a secret that
// was replaced it returns the zero key.
func (k Keys) Ensure(ctx context.Context, setting, secret, label string) (pay.Key, error) {
	ctx = pay.WithActorIfNone(ctx, Configured)
	key, err := k.own(ctx, books.KeyRequest{Label: label, Secret: secret})
	// purser starts with a key that cannot pay: all other keys pay, and recovery must go on.
	if errors.Is(err, pay.ErrSecretReplaced) {
		k.Log.Error(setting + " is a secret that 'purser keys reissue' has replaced: nothing is paid with it, set the new one")
		return pay.Key{}, nil
	}
	if err != nil {
		return pay.Key{}, err
	}
	if key.Revoked() {
		k.Log.Error(setting+" is a key that was revoked: nothing is paid with it, set another one", "key", key.ID)
		return key, nil
	}
	_, err = k.Wallet(ctx, key, k.Network)
	return key, err
}

// Deploy records a key as the deployment's. It logs how to revoke earlier such keys that still pay.
func (k Keys) Deploy(ctx context.Context, key pay.Key) error {
	if key.ID == "" {
		return nil // see Ensure
	}
	if err := k.Books.Deploy(ctx, key); err != nil {
		return err
	}
	replaced, err := k.Books.Replaced(ctx)
	for _, old := range replaced {
		k.Log.Warn("an earlier PURSER_KEY still pays; if no program needs it any more, revoke it", "key", old.ID, "command", RevokeCommand(old.ID))
	}
	return err
}

// RevokeCommand returns the command that revokes a key.
func RevokeCommand(id string) string { return "purser keys revoke " + id }

// own finds the key with a secret, or makes it. A key that an API client has made with that
// secret becomes the operator's: the configuration says whose it is now.
func (k Keys) own(ctx context.Context, want books.KeyRequest) (pay.Key, error) {
	want.Operator = true
	key, err := k.Books.KeyBySecret(ctx, want.Secret)
	if errors.Is(err, pay.ErrKeyNotFound) && !errors.Is(err, pay.ErrSecretReplaced) {
		key, _, err = k.Books.CreateKey(ctx, want)
		if errors.Is(err, pay.ErrKeyExists) { // another node was first
			key, err = k.Books.KeyBySecret(ctx, want.Secret)
		}
	}
	if err != nil {
		return pay.Key{}, err
	}
	return k.Books.AdoptKey(ctx, key)
}
