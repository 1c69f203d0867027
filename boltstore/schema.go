package boltstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/purserpay/purser/pay"
)

// migrations bring a store to the newest schema, whose number is their count. A
// released one is never changed; a change of layout is a new one at the end.
var migrations = []migration{
	{apply: createBuckets},
	{prepare: indexMore, apply: replaceTransactions},
	{prepare: indexLabelled, apply: createBuckets},
	{apply: createBuckets}, // for the attempts under idempotency keys, and what reconciling finds
	{prepare: sumUpSpend, apply: createBuckets},
	{prepare: indexLiving, apply: replaceIdempotency},
	{apply: createBuckets}, // for the audit
}

// migration is one step of the schema.
type migration struct {
	// prepare does what is too much for one transaction; nil: nothing is. It may be
	// interrupted and begins anew then, and a purser of before may write in between.
	prepare func(*upgrade) error
	// apply runs in the transaction that writes the schema's number.
	apply func(*bbolt.Tx) error
}

func createBuckets(tx *bbolt.Tx) error {
	for _, name := range allBuckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	return nil
}

// indexMore makes the indexes of schema 2.
func indexMore(u *upgrade) error {
	if err := indexTasks(u); err != nil {
		return err
	}
	return indexTransactions(u)
}

// indexTasks lists the spend events of before by their tasks.
func indexTasks(u *upgrade) error {
	return u.buildIndex(taskEventsBucket, eventsBucket, func(row []byte) (key []byte, err error) {
		var e pay.SpendEvent
		if err := decodeRow(row, &e); err != nil || e.Task == "" {
			return nil, err
		}
		return join(e.KeyID, e.Task, e.ID), nil
	})
}

// indexTransactions lists the payments of before by their transactions. The index of
// schema 1 knew one payment for each, and forgot a transaction when that one was found to
// have another, although others had it too.
func indexTransactions(u *upgrade) error {
	return u.buildIndex(transactionsBucket, paymentsBucket, func(row []byte) (key []byte, err error) {
		p, err := decodePayment(row)
		if err != nil || p.Transaction == "" {
			return nil, err
		}
		return join(transactionKey(p.Transaction), p.ID), nil
	})
}

// replaceTransactions creates what schema 2 adds and ends the index that it replaces.
func replaceTransactions(tx *bbolt.Tx) error {
	if err := createBuckets(tx); err != nil {
		return err
	}
	err := tx.DeleteBucket([]byte("transactions"))
	if errors.Is(err, berrors.ErrBucketNotFound) { // a new store
		return nil
	}
	return err
}

// indexLiving lists the payments that live by their idempotency keys. The index of schema 5
// listed those that do not as well.
func indexLiving(u *upgrade) error {
	return u.buildIndex(livingBucket, paymentsBucket, func(row []byte) (key []byte, err error) {
		p, err := decodePayment(row)
		if err != nil {
			return nil, err
		}
		for _, e := range entries(p) {
			if bytes.Equal(e.bucket, livingBucket) {
				key = e.key
			}
		}
		return key, nil
	})
}

// replaceIdempotency ends the index that [indexLiving] replaces.
func replaceIdempotency(tx *bbolt.Tx) error {
	if err := createBuckets(tx); err != nil {
		return err
	}
	err := tx.DeleteBucket([]byte("idempotency"))
	if errors.Is(err, berrors.ErrBucketNotFound) { // a new store
		return nil
	}
	return err
}

// buildIndex makes an index anew, with the key that each row has in it, nil for none. One
// transaction takes a bounded number of rows.
func (u *upgrade) buildIndex(index, rows []byte, keyOf func(row []byte) ([]byte, error)) error {
	var last []byte
	done := 0
	for more := true; more; {
		err := u.Update(func(tx *bbolt.Tx) error {
			if last == nil && tx.Bucket(index) != nil { // an upgrade that was cut off
				if err := tx.DeleteBucket(index); err != nil {
					return err
				}
			}
			to, err := tx.CreateBucketIfNotExists(index)
			if err != nil {
				return err
			}
			c := tx.Bucket(rows).Cursor()
			k, row := c.Seek(last)
			if last != nil && bytes.Equal(k, last) {
				k, row = c.Next()
			}
			n := 0
			for ; k != nil && n < scanRows; k, row = c.Next() {
				n++
				last = bytes.Clone(k)
				key, err := keyOf(row)
				if err != nil {
					return fmt.Errorf("%s %q: %w", rows, k, err)
				}
				if key == nil {
					continue
				}
				if err := to.Put(key, nil); err != nil {
					return err
				}
			}
			more = n == scanRows
			done += n
			return nil
		})
		if err != nil {
			return err
		}
		if err := u.went(rows, done); err != nil {
			return err
		}
	}
	return nil
}

// schemaOf reads the schema's number and refuses what this program does not know.
func schemaOf(meta *bbolt.Bucket) (int, error) {
	n, err := strconv.Atoi(string(meta.Get(schemaKey)))
	if err != nil || n < 1 {
		return 0, errors.New("this is not a purser store, or it is damaged: it has no schema number")
	}
	if n > len(migrations) {
		return 0, fmt.Errorf("%w: its schema is %d and this purser knows up to %d; use the newer purser that wrote it",
			ErrNewer, n, len(migrations))
	}
	return n, nil
}

// lapseAll ends the leases that an earlier process left.
func lapseAll(ctx context.Context, bolt *bbolt.DB) error {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := bolt.Update(func(tx *bbolt.Tx) error {
			b := newBatch(tx, nil)
			ids := b.leasedIDs(nil, scanRows, nil)
			more = len(ids) == scanRows
			for _, id := range ids {
				if err := b.lapse(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("end the leases of an earlier process: %w", err)
		}
	}
	return nil
}

// World reads the recorded world.
func (d *DB) World(ctx context.Context) (world string, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		world = string(tx.Bucket(metaBucket).Get(worldKey))
		return nil
	})
	return world, err
}

// safeBlocksKey names the last safe blocks in the meta bucket: JSON, by the networks' names.
var safeBlocksKey = []byte("safe_blocks")

func safeBlocksIn(meta *bbolt.Bucket) (map[string]pay.ChainBlock, error) {
	kept := map[string]pay.ChainBlock{}
	if text := meta.Get(safeBlocksKey); text != nil {
		if err := json.Unmarshal(text, &kept); err != nil {
			return nil, fmt.Errorf("safe blocks: %w", err)
		}
	}
	return kept, nil
}

// SafeBlock reads the block that is kept for a network.
func (d *DB) SafeBlock(ctx context.Context, network string) (block *pay.ChainBlock, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		kept, err := safeBlocksIn(tx.Bucket(metaBucket))
		if b, ok := kept[network]; ok {
			block = &b
		}
		return err
	})
	return block, err
}

// KeepSafeBlock keeps a later block in the place of the one that was found.
func (d *DB) KeepSafeBlock(ctx context.Context, network string, found *pay.ChainBlock, later pay.ChainBlock) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		kept, err := safeBlocksIn(b.tx.Bucket(metaBucket))
		now, known := kept[network]
		if err != nil || known != (found != nil) || known && (now.Hash != found.Hash || later.Number <= now.Number) {
			return err
		}
		kept[network] = later
		return b.putMeta(map[string]any{string(safeBlocksKey): kept})
	}})
}

// ForgetSafeBlock keeps none any more.
func (d *DB) ForgetSafeBlock(ctx context.Context, network string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		kept, err := safeBlocksIn(b.tx.Bucket(metaBucket))
		was, there := kept[network]
		if err != nil || !there {
			return err
		}
		delete(kept, network)
		if err := b.putMeta(map[string]any{string(safeBlocksKey): kept}); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.RPCTrusted(network, was))
	}})
}

// SetWorld records the world if none is recorded. Only creation makes a sandbox.
func (d *DB) SetWorld(ctx context.Context, world string) (string, error) {
	if world == "" || (world == Sandbox && !d.sandbox) {
		return "", fmt.Errorf("set world: %q is not the genesis hash of a network", world)
	}
	var inForce string
	err := d.do(ctx, &op{run: func(b *batch) error {
		if inForce = string(b.get(metaBucket, worldKey)); inForce != "" {
			return nil
		}
		inForce = world
		return b.put(metaBucket, worldKey, []byte(world))
	}})
	if err != nil {
		return "", err
	}
	return inForce, nil
}
