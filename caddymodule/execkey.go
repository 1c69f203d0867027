package caddymodule

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/purserpay/purser/internal/atomicfile"
	"github.com/purserpay/purser/pay"
)

const (
	// execKeyFile holds the secret of the exec key: the one that programs started by
	// `purser exec` pay with when they are given no other.
	execKeyFile = "exec.key"
	// execKeyMode: whoever reads the file can spend.
	execKeyMode = 0o600
	// execLabel is the exec key's label.
	execLabel = "exec"
)

// execPolicy restricts the exec key to the proxy. On REST it cannot pay, so that host rules, which
// hold where purser dials, bind whatever a program does with the key.
func execPolicy() *pay.Policy { return &pay.Policy{Doors: []pay.Door{pay.DoorProxy}} }

// turn is passed through by one at a time.
type turn chan struct{}

// take waits for the turn for as long as ctx lasts.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// keyChanges orders what makes the exec key and what reads a policy to change it. It is the
// process's, because configurations that overlap in a reload share a data directory.
var keyChanges = make(turn, 1)

// ensureExecKey is the exec key, its secret and its wallet, made if need be. Calls at the
// same time make one.
func (a *App) ensureExecKey(ctx context.Context, p *pay.Payer) (pay.Key, string, error) {
	if err := keyChanges.take(ctx); err != nil {
		return pay.Key{}, "", err
	}
	defer keyChanges.give()
	return a.makeExecKey(ctx, p)
}

// makeExecKey is ensureExecKey for whoever has the turn.
func (a *App) makeExecKey(ctx context.Context, p *pay.Payer) (pay.Key, string, error) {
	secret, err := a.execSecret()
	if errors.Is(err, fs.ErrNotExist) {
		// Kept before it is used: the money of a key whose secret is lost is out of reach.
		secret = pay.KeyPrefix + rand.Text()
		err = atomicfile.Write(a.execPath(), []byte(secret+"\n"), execKeyMode)
	}
	if err != nil {
		return pay.Key{}, "", fmt.Errorf("exec key: %w", err)
	}
	ctx = pay.WithActorIfNone(ctx, configured)
	key, err := operatorsKey(ctx, p, pay.KeyRequest{Label: execLabel, Secret: secret, Policy: execPolicy()})
	if err == nil && key.Revoked() {
		return key, secret, nil // its payments may still be looked at
	}
	if err != nil {
		return pay.Key{}, "", fmt.Errorf("exec key: %w", err)
	}
	if _, err := a.ensureWallet(ctx, p, key); err != nil {
		return pay.Key{}, "", fmt.Errorf("exec key: %w", err)
	}
	return key, secret, nil
}

// execKey is the exec key if it has been made: pay.ErrKeyNotFound.
func (a *App) execKey(ctx context.Context, p *pay.Payer) (pay.Key, error) {
	secret, err := a.execSecret()
	if errors.Is(err, fs.ErrNotExist) {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	if err != nil {
		return pay.Key{}, fmt.Errorf("exec key: %w", err)
	}
	return p.KeyBySecret(ctx, secret)
}

func (a *App) execPath() string { return filepath.Join(a.settings.dataDir, execKeyFile) }

// execSecret reads the exec key's file: fs.ErrNotExist.
func (a *App) execSecret() (string, error) {
	text, err := os.ReadFile(a.execPath())
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if !pay.ValidSecret(secret) {
		return "", fmt.Errorf("%s holds no API key: put it back, or remove it to have a new one", a.execPath())
	}
	return secret, nil
}
