package attacks

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/purserpay/purser/sandbox/hostile"
)

func bookAttacks() []attack {
	return []attack{
		{group: books, name: "honest-orders", tries: "orders of honest sellers, at every door, in both versions of the protocol", holds: "delivered, and paid once", plays: everywhere(
			bare, "nothing fails", "nothing fails, version 1",
		)},
		{group: books, name: "books-and-ledger", tries: "the books of all customers are compared with the ledger", run: compareBooks, last: true},
		{group: books, name: "check", tries: "purser check looks at the database", run: checkDatabases, last: true},
	}
}

// compareBooks waits until the books of all customers match the ledger and no payment is open.
func compareBooks(ctx context.Context, e *examination) (outcome, error) {
	everybody := e.customers()
	var payments, transfers atomic.Int64
	story, err := gather(ctx, -1, everybody, func(ctx context.Context, _ int, one *player) ([]string, error) {
		var b hostile.Books
		var l hostile.Ledger
		defer func() {
			payments.Add(int64(len(b.Payments)))
			transfers.Add(int64(len(l.Transfers)))
		}()
		return e.await(ctx, one, func(_ *hostile.World, books hostile.Books, ledger hostile.Ledger) []hostile.Finding {
			b, l = books, ledger
			return hostile.Audit(b, l, nil)
		})
	})
	says := fmt.Sprintf("the books of %d customers, %d payments and %d transfers", len(everybody), payments.Load(), transfers.Load())
	if len(story) > 0 {
		return failed(story, "%s: they differ from the ledger", says), err
	}
	return held("%s: as the ledger has them, and nothing is open", says), err
}

// checkDatabases runs purser check on every database that was attacked.
func checkDatabases(ctx context.Context, e *examination) (outcome, error) {
	var story []string
	running := e.running()
	for _, p := range running {
		if err := p.check(ctx); err != nil {
			story = append(story, filepath.Base(p.dir)+": "+err.Error())
		}
	}
	return verdict(story, "purser check", "no faults in %d databases", len(running)), nil
}
