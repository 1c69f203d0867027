package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

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
	if err := e.checkAlive(); err != nil {
		return outcome{}, err
	}
	everybody := e.customers()
	stories, errs := make([][]string, len(everybody)), make([]error, len(everybody))
	payments, transfers := make([]int, len(everybody)), make([]int, len(everybody))
	var all sync.WaitGroup
	for i, one := range everybody {
		all.Go(func() {
			stories[i], errs[i] = e.await(ctx, one, func(_ *hostile.World, b hostile.Books, l hostile.Ledger) []hostile.Finding {
				payments[i], transfers[i] = len(b.Payments), len(l.Transfers)
				return hostile.Audit(b, l, nil)
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return outcome{}, err
	}
	sum := func(of []int) (n int) {
		for _, one := range of {
			n += one
		}
		return n
	}
	says := fmt.Sprintf("the books of %d customers, %d payments and %d transfers", len(everybody), sum(payments), sum(transfers))
	if story := slices.Concat(stories...); len(story) > 0 {
		return failed(story, "%s: they differ from the ledger", says), nil
	}
	return held("%s: as the ledger has them, and nothing is open", says), nil
}

// checkDatabases runs purser check on every database that was attacked.
func checkDatabases(ctx context.Context, e *examination) (outcome, error) {
	if err := e.checkAlive(); err != nil {
		return outcome{}, err
	}
	var story []string
	n := 0
	for _, p := range e.running() {
		if err := p.check(ctx); err != nil {
			story = append(story, filepath.Base(p.dir)+": "+err.Error())
		}
		n++
	}
	if len(story) > 0 {
		return failed(story, "purser check"), nil
	}
	return held("purser check: no faults in %d databases", n), nil
}
