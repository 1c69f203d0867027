package operatorkeys

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
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

const (
	// ExecLabel is the exec key's label, and its name for commands.
	ExecLabel = "exec"
	// ExecFile holds the exec key's secret, in the data directory.
	ExecFile = "exec.key"
	execMode = 0o600 // its secret spends
)

// ExecPolicy restricts the exec key to the proxy. On REST it cannot pay, so that host rules, which
// hold where purser dials, bind whatever a program does with the key.
func ExecPolicy() *pay.Policy { return &pay.Policy{Doors: []pay.Door{pay.DoorProxy}} }

// Exec finds the exec key with its secret, or makes it with a wallet. Calls at the same time make
// one key.
func (k Keys) Exec(ctx context.Context) (pay.Key, string, error) {
	if err := Changes.Acquire(ctx, 1); err != nil {
		return pay.Key{}, "", err
	}
	defer Changes.Release(1)
	return k.MakeExec(ctx)
}

// MakeExec is Exec for callers that hold [Changes].
func (k Keys) MakeExec(ctx context.Context) (pay.Key, string, error) {
	key, secret, err := k.makeExec(pay.WithActorIfNone(ctx, Configured))
	if err != nil {
		return pay.Key{}, "", fmt.Errorf("exec key: %w", err)
	}
	return key, secret, nil
}

func (k Keys) makeExec(ctx context.Context) (key pay.Key, secret string, err error) {
	secret, err = k.execSecret()
	if errors.Is(err, fs.ErrNotExist) {
		// Kept before it is used: the money of a key whose secret is lost is out of reach.
		secret = pay.KeyPrefix + rand.Text()
		err = atomicfile.Write(k.ExecPath(), []byte(secret+"\n"), execMode)
	}
	if err != nil {
		return key, "", err
	}
	key, err = k.own(ctx, books.KeyRequest{Label: ExecLabel, Secret: secret, Policy: ExecPolicy()})
	if err == nil && !key.Revoked() { // payments of one that is revoked may still be looked at
		_, err = k.Wallet(ctx, key)
	}
	return key, secret, err
}

// FindExec returns the exec key if it has been made: pay.ErrKeyNotFound.
func (k Keys) FindExec(ctx context.Context) (pay.Key, error) {
	secret, err := k.execSecret()
	if errors.Is(err, fs.ErrNotExist) {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	if err != nil {
		return pay.Key{}, fmt.Errorf("exec key: %w", err)
	}
	return k.Books.KeyBySecret(ctx, secret)
}

// ExecPath returns the file with the exec key's secret.
func (k Keys) ExecPath() string { return filepath.Join(k.Dir, ExecFile) }

// execSecret reads the exec key's file: fs.ErrNotExist.
func (k Keys) execSecret() (string, error) {
	text, err := os.ReadFile(k.ExecPath())
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if !pay.ValidSecret(secret) {
		return "", fmt.Errorf("%s holds no API key: put it back, or remove it to have a new one", k.ExecPath())
	}
	return secret, nil
}
