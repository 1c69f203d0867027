package boltstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"
)

// migrations bring a store to the newest schema, whose number is their count. A
// released one is never changed; a change of layout is a new one at the end.
var migrations = []func(*bbolt.Tx) error{
	createBuckets,
}

func createBuckets(tx *bbolt.Tx) error {
	for _, name := range allBuckets {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
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

// migrate applies the steps that the store has not seen, each with its number in one
// transaction.
func migrate(bolt *bbolt.DB, have int, steps []func(*bbolt.Tx) error) error {
	for step := have; step < len(steps); step++ {
		err := bolt.Update(func(tx *bbolt.Tx) error {
			if err := steps[step](tx); err != nil {
				return err
			}
			return tx.Bucket(metaBucket).Put(schemaKey, []byte(strconv.Itoa(step+1)))
		})
		if err != nil {
			return fmt.Errorf("upgrade schema to %d: %w", step+1, err)
		}
	}
	return nil
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
