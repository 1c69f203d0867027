package boltstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Secrets are sealed inside the operations that write them. So after the operation that follows a
// change of the vault, nothing is sealed with an older data key any more.

// Resealed says how far the rotation of the data keys is.
type Resealed struct {
	// DataKey is the version of the newest data key, from 1. Older counts the others.
	DataKey uint32 `json:"data_key"`
	Older   int    `json:"older"`
	// Done counts the secrets that were sealed again since the start or the last rotation.
	Done int `json:"done"`
	// Stopped says why sealing again has stopped although there are older keys; "": it has not.
	Stopped string `json:"stopped,omitempty"`
	// MasterKeyFollows: another master key opens the database as well.
	MasterKeyFollows bool `json:"master_key_follows"`

	running bool
}

// Rotation tells how far the rotation of the data keys is.
func (d *DB) Rotation() Resealed {
	d.resealing.Lock()
	defer d.resealing.Unlock()
	r, v := d.resealed, d.vault.Load()
	n, newest := v.DataKeys()
	r.DataKey, r.Older, r.MasterKeyFollows = newest, n-1, v.MasterKeyFollows()
	return r
}

// RotateDataKey makes a data key, with which everything is sealed from now on, and begins to seal
// again what has an older one. While an earlier rotation is under way, it makes none, and that one
// goes on: vault.ErrMasterKeyFollows.
func (d *DB) RotateDataKey(ctx context.Context) error {
	err := d.changeVault(ctx, func(v *vault.Vault) (*vault.Vault, pay.Change, error) {
		n, was := v.DataKeys()
		if n > 1 {
			return v, pay.Change{}, nil
		}
		next, err := v.AddDataKey()
		return next, pay.DataKeyRotated(was, was+1), err
	})
	if err == nil {
		d.resealInBackground()
	}
	return err
}

// AddMasterKey lets a second master key open the database. The next start with it takes it for the
// only one: vault.ErrSameMasterKey.
func (d *DB) AddMasterKey(ctx context.Context, next vault.MasterKey) error {
	return d.changeVault(ctx, func(v *vault.Vault) (*vault.Vault, pay.Change, error) {
		following, err := v.AddMasterKey(next)
		return following, pay.MasterKeyRotated("added"), err
	})
}

// UseMasterKey ends the use of the former master key.
func (d *DB) UseMasterKey(ctx context.Context, next vault.MasterKey) error {
	return d.changeVault(ctx, func(v *vault.Vault) (*vault.Vault, pay.Change, error) {
		following, err := v.UseMasterKey(next)
		return following, pay.MasterKeyRotated("replaced"), err
	})
}

// changeVault replaces the vault. Its new state is in the database itself before it is used: a start
// opens the vault before it reads the journal.
func (d *DB) changeVault(ctx context.Context, change func(*vault.Vault) (*vault.Vault, pay.Change, error)) error {
	d.resealing.Lock()
	defer d.resealing.Unlock()
	was := d.vault.Load()
	next, audited, err := change(was)
	if err != nil || next == was {
		return err
	}
	state, err := next.State()
	if err != nil {
		return err
	}
	// It outlives its caller: afterwards the state is in the database, and the vault has to follow.
	ctx = context.WithoutCancel(ctx)
	err = d.do(ctx, &op{outlivesCaller: true, run: func(b *batch) error {
		if err := d.disk.checkSpace(); err != nil {
			return err
		}
		if err := b.put(metaBucket, vaultKey, state); err != nil {
			return err
		}
		return storekit.Enter(ctx, b, audited)
	}})
	if err != nil {
		return err
	}
	tx, err := d.snapshot(ctx)
	if err != nil {
		return err
	}
	d.vault.Store(next)
	return tx.Rollback()
}

// unlockReplayed opens the vault again with what the journal had. A start with the master key that
// was to follow ends the use of the former one.
func (d *DB) unlockReplayed(tx *bbolt.Tx, master vault.MasterKey) error {
	if err := d.unlock(tx, master); err != nil {
		return err
	}
	v := d.vault.Load()
	if !v.ByNext() {
		return nil
	}
	state, err := v.State()
	if err != nil {
		return err
	}
	d.log.Info("store: the new master key is in force, the former one opens this store no more", "file", d.path)
	return tx.Bucket(metaBucket).Put(vaultKey, state)
}

// sealedRows describes a bucket whose rows have a sealed part.
type sealedRows struct {
	bucket   []byte
	identity func(id string) string
	// part finds the sealed part of a row, and tells how the row is with another one.
	part func(row []byte) (sealed []byte, with func(sealed []byte) ([]byte, error), err error)
}

func sealedBuckets() []sealedRows {
	whole := func(row []byte) ([]byte, func([]byte) ([]byte, error), error) {
		return row, func(sealed []byte) ([]byte, error) { return sealed, nil }, nil
	}
	return []sealedRows{
		{walletSecretsBucket, codec.WalletSecret, whole},
		{keySecretsBucket, codec.KeySecret, whole},
		{accountsBucket, codec.AccountSecret, func(encoded []byte) ([]byte, func([]byte) ([]byte, error), error) {
			var row codec.Account
			err := decodeRow(encoded, &row)
			return row.Person, func(sealed []byte) ([]byte, error) { row.Person = sealed; return encodeRow(row) }, err
		}},
		{sessionsBucket, codec.SessionSecret, func(encoded []byte) ([]byte, func([]byte) ([]byte, error), error) {
			var row sessionRow
			err := decodeRow(encoded, &row)
			return row.Data, func(sealed []byte) ([]byte, error) { row.Data = sealed; return encodeRow(row) }, err
		}},
	}
}

// resealRows bounds the rows that are sealed again in one operation, so that payments do not wait.
const resealRows = 50

// resealInBackground seals again what has an older data key, if there is one. It is called at the
// start and for a rotation.
func (d *DB) resealInBackground() {
	if n, _ := d.vault.Load().DataKeys(); n < 2 {
		return
	}
	d.resealing.Lock()
	defer d.resealing.Unlock()
	if d.resealed.running {
		return
	}
	d.resealed = Resealed{running: true}
	d.background.Go(func() {
		err := d.guard(d.resealAll)
		d.resealing.Lock()
		defer d.resealing.Unlock()
		d.resealed.running = false
		if err != nil && !errors.Is(err, errClosed) {
			d.resealed.Stopped = err.Error()
			d.log.Error("store: sealing secrets with the new data key has stopped; the next start or rotation goes on", "error", err)
		}
	})
}

// resealAll seals all secrets with the newest data key, and then drops the older ones. Rows that
// cannot be read keep theirs.
func (d *DB) resealAll() error {
	unreadable := 0
	for _, rows := range sealedBuckets() {
		for after, more := "", true; more; {
			var step resealStep
			err := d.persist(func(ctx context.Context) (err error) {
				step, err = d.reseal(ctx, rows, after)
				return err
			})
			if err != nil {
				return err
			}
			after, more = step.next, step.next != ""
			unreadable += step.unreadable
			d.resealing.Lock()
			d.resealed.Done += step.done
			d.resealing.Unlock()
		}
	}
	if unreadable > 0 {
		return fmt.Errorf("%d secrets cannot be unsealed, so the older data keys are kept; purser check names them", unreadable)
	}
	err := d.persist(func(ctx context.Context) error {
		return d.changeVault(ctx, func(v *vault.Vault) (*vault.Vault, pay.Change, error) {
			next, err := v.DropDataKeys()
			return next, pay.Change{}, err
		})
	})
	if err == nil {
		d.log.Info("store: everything is sealed with the newest data key, older ones are dropped", "secrets", d.Rotation().Done)
	}
	return err
}

// persist repeats a step until the store can write.
func (d *DB) persist(step func(ctx context.Context) error) error {
	for {
		err := step(context.Background())
		if !errors.Is(err, pay.ErrUnavailable) || errors.Is(err, errClosed) {
			return err
		}
		select {
		case <-time.After(retryEvery):
		case <-d.finished:
			return errClosed
		}
	}
}

// resealStep holds what one step did.
type resealStep struct {
	next             string // the last row that was looked at; "": there are no more
	done, unreadable int
}

// reseal seals the secrets of some rows again. It looks for them in a read transaction first.
func (d *DB) reseal(ctx context.Context, rows sealedRows, after string) (step resealStep, err error) {
	v := d.vault.Load()
	var old []string
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(rows.bucket).Cursor()
		id, row := c.Seek([]byte(after))
		if after != "" && string(id) == after {
			id, row = c.Next()
		}
		for seen := 0; id != nil; id, row = c.Next() {
			step.next = string(id)
			sealed, _, err := rows.part(row)
			if err != nil || !v.Newest(sealed) {
				old = append(old, step.next)
			}
			if seen++; seen == scanRows || len(old) == resealRows {
				return nil
			}
		}
		step.next = ""
		return nil
	})
	if err != nil || len(old) == 0 {
		return step, err
	}
	err = d.do(ctx, &op{run: func(b *batch) error {
		step.done, step.unreadable = 0, 0
		for _, id := range old {
			row := b.get(rows.bucket, []byte(id))
			if row == nil {
				continue // removed meanwhile
			}
			again, err := resealed(v, rows, id, row)
			if err != nil {
				d.log.Error("store: a secret cannot be sealed again", "of", rows.identity(id), "error", err)
				step.unreadable++
				continue
			}
			if err := b.put(rows.bucket, []byte(id), again); err != nil {
				return err
			}
			step.done++
		}
		return nil
	}})
	return step, err
}

// resealed returns a row with its secret sealed by the newest data key.
func resealed(v *vault.Vault, rows sealedRows, id string, row []byte) ([]byte, error) {
	sealed, with, err := rows.part(row)
	if err != nil {
		return nil, err
	}
	secret, err := v.Unseal(sealed, rows.identity(id))
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	if sealed, err = v.Seal(secret, rows.identity(id)); err != nil {
		return nil, err
	}
	return with(sealed)
}
