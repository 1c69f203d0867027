package process

import (
	"context"
	"testing"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
	"github.com/purserpay/purser/sandbox/token"
)

// StartLedger starts a chain without an EVM that goes by a clock. The test ends it.
func StartLedger(t testing.TB, c *Clock) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Start(context.Background(), ledger.Options{Now: c.Now})
	CloseAtEnd(t, l, err)
	return l
}

// StartHostile starts a world that can fail, on a chain that goes by a clock. validity is the time that its sellers
// give payers; 0 is a minute. The test ends it.
func StartHostile(t testing.TB, chain token.Chain, c *Clock, validity time.Duration) *hostile.World {
	t.Helper()
	w, err := hostile.Start(context.Background(), hostile.Options{Chain: chain, Now: c.Now, Validity: validity})
	CloseAtEnd(t, w, err)
	return w
}

// ReadAccount reads what purser and the chain say of a customer.
func ReadAccount(ctx context.Context, c *hostile.Customer, chain token.Chain) (hostile.Books, hostile.Ledger, error) {
	books, err := hostile.ReadBooks(ctx, c)
	if err != nil {
		return books, hostile.Ledger{}, err
	}
	ledger, err := hostile.ReadLedger(ctx, chain, c.Wallet)
	return books, ledger, err
}

// CloseAtEnd has a test close what it started. It fails the test at once if the start has failed.
func CloseAtEnd(t testing.TB, started interface{ Close() error }, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	})
}
