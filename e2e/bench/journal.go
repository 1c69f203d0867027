package main

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/pay"
)

const (
	// openPayments is the number of open payments that a start meets.
	openPayments = 100_000
	// freshPayments is the number of payments whose file is measured before they are retired.
	freshPayments = 20_000
	// fillers is the number of concurrent writers. The store makes one transaction of all waiting
	// writes.
	fillers = 256
)

// runStart measures how long purser takes to answer: on an empty store, and on one with open
// payments, after a clean end and after a crash under load.
func runStart(ctx context.Context, b *bench) error {
	began := time.Now()
	empty, err := b.startPurser(ctx, filepath.Join(b.dir, "start-empty"))
	if err != nil {
		return err
	}
	b.report.Start.EmptyMS = milliseconds(time.Since(began))
	empty.stop()
	made, err := b.newStore(ctx, "start", func(ctx context.Context, db *boltstore.DB, key pay.Key) error {
		return fill(ctx, db, key, openPayments, false)
	})
	if err != nil {
		return err
	}
	p, took, err := b.startOn(ctx, made)
	if err != nil {
		return err
	}
	b.report.Start.Open, b.report.Start.OpenMS = openPayments, took
	if _, err := b.drivePaid(ctx, b.through(p, []string{historyKey}), "/paid", load{clients: historyClients}); err != nil {
		p.stop()
		return err
	}
	p.kill()
	if p, b.report.Start.CrashMS, err = b.startOn(ctx, made); err != nil {
		return err
	}
	p.stop()
	return nil
}

// runSize measures the files of settled payments that still have their payloads.
func runSize(ctx context.Context, b *bench) error {
	sizes := make([]float64, 2)
	for i, payments := range []int{freshPayments, 2 * freshPayments} {
		made, err := b.newStore(ctx, "size-"+strconv.Itoa(payments), func(ctx context.Context, db *boltstore.DB, key pay.Key) error {
			return fill(ctx, db, key, payments, true)
		})
		if err != nil {
			return err
		}
		sizes[i] = made.size
	}
	b.report.File.FreshKB = (sizes[1] - sizes[0]) / 1000 / freshPayments // without what every file has
	return nil
}

// fill writes payments of a key as paying does, one Begin and, for settled ones, one Record each.
func fill(ctx context.Context, db *boltstore.DB, key pay.Key, payments int, settled bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1))
				if n > payments {
					return
				}
				if err := newPurchase(key, n).write(ctx, db, settled); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
