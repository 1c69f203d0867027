// Command fill writes a long history of payments and declined requests into the database of a purser that is not running. The tests run it as a
// program of its own, because the race detector would make it ten times slower.
//
//	fill [-paid-only] DATA-DIRECTORY PAYMENTS KEY-ID...
//
// With -paid-only nothing was declined.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/boltstore/boltfill"
	"github.com/purserpay/purser/internal/vault"
)

func main() {
	if err := fill(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func fill(ctx context.Context, args []string) error {
	paidOnly := len(args) > 0 && args[0] == "-paid-only"
	if paidOnly {
		args = args[1:]
	}
	if len(args) < 3 {
		return errors.New("usage: fill DATA-DIRECTORY PAYMENTS KEY-IDS")
	}
	payments, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	db, err := boltstore.Open(ctx, boltstore.Options{
		Path: filepath.Join(args[0], "purser.db"), MasterKey: vault.From("", "", filepath.Join(args[0], "master.key")),
	})
	if err != nil {
		return err
	}
	err = boltfill.Fill(ctx, db, boltfill.Options{Keys: args[2:], Payments: payments})
	if !paidOnly {
		err = errors.Join(err, boltfill.Declines(ctx, db, args[2:], time.Now()))
	}
	return errors.Join(err, db.Close())
}
