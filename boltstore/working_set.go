package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// The working set is a write transaction of bbolt that stays open. It holds what the database has
// and what the journal has since the last checkpoint. The committer runs its batches in it, and
// readers read it between them.

// begin opens a working set on what the database has.
func (d *DB) begin(bolt *bbolt.DB) (*bbolt.Tx, error) {
	tx, err := bolt.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	// bbolt remembers the buckets that it has opened. Readers share the transaction, so that
	// must not happen while they read.
	for _, name := range allBuckets {
		if b := tx.Bucket(name); b != nil && growsAtTheEnd(name) {
			b.FillPercent = fillPercent
		}
	}
	return tx, nil
}

// fillPercent fills the pages of buckets that grow at the end, where no key comes between two
// others later. Of the others bbolt leaves half free.
const fillPercent = 1.0

func growsAtTheEnd(bucket []byte) bool {
	return !slices.ContainsFunc(hashedBuckets, func(name []byte) bool { return &name[0] == &bucket[0] })
}

// epoch is the state of the journal as the database records it. The database has all records of
// earlier epochs.
type epoch struct {
	number uint64
	open   bool // the journal may have records of this epoch; false after a clean stop
}

func epochIn(meta *bbolt.Bucket) (e epoch, err error) {
	switch v := meta.Get(epochKey); {
	case v == nil:
		return e, nil
	case len(v) != 9:
		return e, errors.New("the epoch of the journal is damaged")
	default:
		return epoch{binary.BigEndian.Uint64(v), v[8] != 0}, nil
	}
}

func (e epoch) put(meta *bbolt.Bucket) error {
	v := binary.BigEndian.AppendUint64(nil, e.number)
	if e.open {
		return meta.Put(epochKey, append(v, 1))
	}
	return meta.Put(epochKey, append(v, 0))
}

// encode encodes the changes of a batch for the journal, in order, compressed by S2. Compression
// halves what a payment writes, and takes some microseconds of it. The record is valid until the
// next batch.
//
//	bucket's place in allBuckets 1 | length of the key | key | length of the value + 1, or 0 if it was deleted | value
func (b *batch) encode() []byte {
	type place struct {
		bucket byte
		key    string
	}
	last := map[place]int{} // of what many operations of a batch write
	for i, c := range b.changes {
		if rewritten(c.bucket) {
			last[place{bucketNumber(c.bucket), string(c.key)}] = i
		}
	}
	to := b.plain[:0]
	for i, c := range b.changes {
		number := bucketNumber(c.bucket)
		if rewritten(c.bucket) && last[place{number, string(c.key)}] != i {
			continue
		}
		to = append(to, number)
		to = append(binary.AppendUvarint(to, uint64(len(c.key))), c.key...)
		if c.value == nil {
			to = append(to, 0)
			continue
		}
		to = append(binary.AppendUvarint(to, uint64(len(c.value))+1), c.value...)
	}
	b.plain = to
	b.packed = slices.Grow(b.packed[:0], recordHead+s2.MaxEncodedLen(len(to)))
	r := b.packed[:cap(b.packed)]
	return r[:recordHead+len(s2.Encode(r[recordHead:], to))]
}

// rewritten reports whether a bucket holds sums, which change with each payment.
func rewritten(bucket []byte) bool {
	return &bucket[0] == &countersBucket[0] || &bucket[0] == &spendDaysBucket[0] || &bucket[0] == &walletDaysBucket[0] || &bucket[0] == &labelCountsBucket[0]
}

func bucketNumber(bucket []byte) byte {
	for i, name := range allBuckets {
		if &name[0] == &bucket[0] {
			return byte(i)
		}
	}
	panic("bucket " + string(bucket) + " is not in allBuckets")
}

// replay repeats the changes of a record in the working set.
func replay(tx *bbolt.Tx, compressed []byte) error {
	changes, err := s2.Decode(nil, compressed)
	if err != nil {
		return fmt.Errorf("%w: a record cannot be decompressed: %w", ErrJournal, err)
	}
	r := codec.Parts{Rest: changes}
	for len(r.Rest) > 0 && !r.Bad {
		number := r.Bytes(1)
		key := r.Bytes(r.Uvarint())
		length := r.Uvarint()
		var value []byte
		if length > 0 {
			value = append([]byte{}, r.Bytes(length-1)...)
		}
		if r.Bad || int(number[0]) >= len(allBuckets) {
			break
		}
		bucket := tx.Bucket(allBuckets[number[0]])
		if bucket == nil {
			return fmt.Errorf("%w: the bucket %s is missing", errUnreadable, allBuckets[number[0]])
		}
		if err := write(bucket, key, value); err != nil {
			return err
		}
	}
	if r.Bad || len(r.Rest) > 0 {
		return fmt.Errorf("%w: a record has changes that cannot be read", ErrJournal)
	}
	return nil
}

// commit makes a batch or a checkpoint durable, unless another file has taken the place of the
// database.
func (d *DB) commit(durable func() error) error {
	if err := d.checkInPlace(); err != nil {
		return err
	}
	if hook := d.hooks.commit.Load(); hook != nil {
		return (*hook)(durable)
	}
	return durable()
}

// checkpoint commits the working set to the database and begins the next epoch of the journal.
// After an error there is no working set. Its caller must hold the lock of the handle. With stop
// the database is whole without its journal, and there is no working set either.
func (d *DB) checkpoint(stop bool) error {
	began, tx := time.Now(), d.tx
	d.tx = nil
	next := epoch{d.journal.epoch + 1, !stop}
	failpoint.Here(failpoint.StoreCheckpointing)
	var err error
	if d.journal.inPlace() { // otherwise replace marks the new file
		err = d.journal.mark(next.number)
	}
	if err == nil {
		err = d.guard(func() error {
			if err := next.put(tx.Bucket(metaBucket)); err != nil {
				return err
			}
			return tx.Commit()
		})
	}
	if err != nil {
		d.rollBack(tx)
		return fmt.Errorf("checkpoint: %w", err)
	}
	failpoint.Here(failpoint.StoreCheckpointed)
	if stop {
		return nil
	}
	if err := d.journal.replace(next.number); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	d.journal.restart(next.number)
	d.aged.Stop()
	d.meters.journaled.Store(0)
	d.meters.checkpoints.done(began)
	d.tx, err = d.begin(d.bolt)
	return err
}

// checkpointEvery returns the greatest age of what only the journal has. Payments wait while a
// checkpoint writes the database, so checkpoints are rare: fewer than one payment in a hundred
// waits for one.
func checkpointEvery() time.Duration {
	if failpoint.Enabled {
		return 50 * time.Millisecond // so that kills meet checkpoints
	}
	return 5 * time.Second
}

// checkpointWhenFull writes a checkpoint while there is still room for outcomes.
func (d *DB) checkpointWhenFull() {
	if d.full() {
		d.renew()
	}
}

// full reports whether the journal needs a checkpoint.
func (d *DB) full() bool { return d.outage == nil && d.journal.used() > journalRoom/2 }

// renew writes a checkpoint between two batches.
func (d *DB) renew() {
	if d.outage != nil {
		return
	}
	d.handle.Lock()
	err := d.commit(func() error { return d.checkpoint(false) })
	d.handle.Unlock()
	if err != nil {
		d.beginOutage(err)
	}
}

// snapshot is a transaction that reads the database, or why there is none.
type snapshot struct {
	tx  *bbolt.Tx
	err error
}

// takeSnapshot writes a checkpoint, so that the database has everything, and begins to read it.
func (d *DB) takeSnapshot() (s snapshot) {
	if d.renew(); d.outage != nil {
		return snapshot{err: unavailable(d.outage.cause)}
	}
	s.tx, s.err = d.bolt.Begin(false)
	return s
}

// snapshot returns a transaction that reads the database as it is now. The caller must end it with
// Rollback, and soon: meanwhile its pages are not used again.
func (d *DB) snapshot(ctx context.Context) (*bbolt.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer := make(chan snapshot, 1)
	select {
	case d.snapshots <- answer:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.finished:
		return nil, errClosed
	}
	s := <-answer
	return s.tx, s.err
}

// drop gives up the working set. Its caller must hold the lock of the handle.
func (d *DB) drop() {
	d.rollBack(d.tx)
	d.tx = nil
}

// rollBack ends a transaction that is not committed. A panic in a commit leaves it open, and then
// closing the database would wait for ever.
func (d *DB) rollBack(tx *bbolt.Tx) {
	if err := d.guard(tx.Rollback); err != nil && !errors.Is(err, berrors.ErrTxClosed) {
		d.log.Error("store: giving up a transaction", "error", err)
	}
}

// stop writes the last checkpoint and closes the files. If the checkpoint fails, the journal has
// what the database lacks, and the next start takes it in.
func (d *DB) stop() error {
	d.handle.Lock()
	var err error
	if d.tx != nil && d.outage == nil {
		err = d.commit(func() error { return d.checkpoint(true) })
	}
	d.handle.Unlock()
	return errors.Join(err, d.closeFiles())
}

// closeFiles closes database and journal. It waits for snapshots, because bbolt does.
func (d *DB) closeFiles() error {
	d.handle.Lock()
	defer d.handle.Unlock()
	if d.tx != nil {
		d.drop()
	}
	bolt, journal := d.bolt, d.journal
	d.bolt, d.journal = nil, nil
	var err error
	if bolt != nil {
		err = bolt.Close()
	}
	if journal != nil {
		err = errors.Join(err, journal.close())
	}
	if err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// lapseRows bounds the leases that end in one checkpoint. A page splits only then, and an insert
// into a long one is slow.
const lapseRows = 2000

// lapseAll ends the leases of earlier processes, before the committer starts.
func (d *DB) lapseAll(ctx context.Context) error {
	for {
		b := newBatch(d, d.tx)
		ids := b.leasedIDs(nil, lapseRows, nil)
		for _, id := range ids {
			if _, err := storekit.Lapse(b, id, nil); err != nil {
				return err
			}
		}
		if len(ids) == 0 {
			return nil
		}
		if err := errors.Join(ctx.Err(), d.checkpoint(false)); err != nil {
			return err
		}
	}
}

// view reads the working set. read must be short and must not wait for anything, because the
// committer waits for it. Values from it are invalid afterwards.
func (d *DB) view(ctx context.Context, read func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.handle.RLock()
	defer d.handle.RUnlock()
	if d.tx == nil {
		return fmt.Errorf("%w: the file is not open", pay.ErrUnavailable)
	}
	return read(d.tx)
}
