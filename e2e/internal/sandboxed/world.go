// Package sandboxed starts pursers that pay on the chain of a sandbox in the test's process.
package sandboxed

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// World is a purser with a chain, a facilitator and a seller.
type World struct {
	*testing.T
	*process.Purser
	Money *sandbox.World
}

// New starts a World. program is one of this repository's, and settings are variables of its environment.
func New(t *testing.T, program string, settings ...string) *World {
	t.Helper()
	money, err := sandbox.Start(context.Background(), sandbox.Options{})
	process.CloseAtEnd(t, money, err)
	return On(t, money, program, settings...)
}

// On starts another purser on the chain of a sandbox.
func On(t *testing.T, money *sandbox.World, program string, settings ...string) *World {
	t.Helper()
	w := &World{t, process.NewPurser(t, process.Program(t, program), filepath.Join(t.TempDir(), "data"), append(settings, "PURSER_RPC_URL="+money.RPCURL())...), money}
	w.Start(t)
	return w
}

// Ran runs a command with --json, which must succeed.
func Ran[T any](w *World, arguments ...string) (v T) {
	w.Helper()
	out := w.Must(w.T, append(arguments, "--json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return v
}

// Fund gives an address millionths of a dollar.
func (w *World) Fund(address string, micros uint64) {
	w.Helper()
	if err := w.Money.Fund(w.Context(), w.parsed(address), money.New(micros)); err != nil {
		w.Fatal(err)
	}
}

// Holds returns the balance of an address.
func (w *World) Holds(address string) money.Amount {
	w.Helper()
	have, err := w.Money.Balance(w.Context(), w.parsed(address))
	if err != nil {
		w.Fatal(err)
	}
	return have
}

func (w *World) parsed(address string) x402.Address {
	w.Helper()
	a, err := x402.ParseAddress(address)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// Client returns the client of an agent with a key.
func (w *World) Client(key string) *http.Client {
	return process.Client(&url.URL{Scheme: "http", Host: w.Host(), User: url.UserPassword(key, "agent")}, nil)
}
