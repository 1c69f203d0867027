package boltstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// upgradeNews is how often an upgrade says how far it is. A start that is silent for minutes
// looks hung, and would be killed and begun anew for ever.
const upgradeNews = 3 * time.Second

// upgrade brings a store to the newest schema. Every transaction of it takes a bounded number of
// rows, and its end leaves the store as one whose upgrade begins anew.
type upgrade struct {
	*bbolt.DB
	ctx  context.Context //nolint:containedctx // of the one call that it serves
	now  pay.Clock
	log  *slog.Logger
	told time.Time // when it last said something

	// rows is the bucket that is being gone through, of how many there are in it, once asked.
	rows []byte
	of   int
}

// migrate applies the steps that the store has not seen, each with its number in one
// transaction.
func (u *upgrade) migrate(have int, steps []migration) error {
	if have == len(steps) {
		return nil
	}
	began := u.now()
	u.told = began
	if have > 0 { // a new store has nothing to upgrade
		u.log.Info("store: upgrading, which takes a while when its history is long; it may be interrupted, and then begins anew",
			"file", u.Path(), "schema", have, "to", len(steps))
	}
	for step := have; step < len(steps); step++ {
		if err := u.step(steps[step], step+1); err != nil {
			return fmt.Errorf("upgrade schema to %d: %w", step+1, err)
		}
	}
	if have > 0 {
		u.log.Info("store: upgraded", "file", u.Path(), "schema", len(steps), "took", u.now().Sub(began).Round(time.Millisecond))
	}
	return nil
}

func (u *upgrade) step(m migration, number int) error {
	if m.prepare != nil {
		if err := m.prepare(u); err != nil {
			return err
		}
	}
	return u.Update(func(tx *bbolt.Tx) error {
		if err := m.apply(tx); err != nil {
			return err
		}
		return tx.Bucket(metaBucket).Put(schemaKey, []byte(strconv.Itoa(number)))
	})
}

// went is called between two transactions that go through a bucket: done of its rows are over.
// It says so now and then, and fails once nobody wants the store any more.
func (u *upgrade) went(rows []byte, done int) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	now := u.now()
	if done == 0 || now.Sub(u.told) < upgradeNews {
		return nil
	}
	u.told = now
	if string(u.rows) != string(rows) {
		// Counting reads every page, which short upgrades are spared.
		if err := u.View(func(tx *bbolt.Tx) error {
			u.rows, u.of = rows, tx.Bucket(rows).Stats().KeyN
			return nil
		}); err != nil {
			return err
		}
	}
	u.log.Info("store: still upgrading", "going_through", string(rows), "done", done, "of", u.of)
	return nil
}
