package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// batch holds the operations that become durable together. It is the transaction in which the rules of storekit
// run. The committer uses one again and again,
// because what it takes is much of what the garbage collector would have to do.
type batch struct {
	db *DB
	tx *bbolt.Tx
	// changes holds what the operations have written, in order. Undoing them leads back.
	changes []change
	// rows holds the payments that the batch wrote, leased those of the committer. Rows are
	// shared: a change goes to a clone.
	rows   map[string]*pay.Payment
	leased map[string]*pay.Payment
	// days holds the daily sums that the batch wrote, by their keys.
	days map[string]*codec.Day
	// plain and packed are the room of encode.
	plain, packed []byte
}

// change holds one put or delete, and what was there before.
type change struct {
	bucket []byte
	key    []byte
	value  []byte // nil: deleted
	was    []byte // nil: nothing; valid until the transaction is committed
}

func newBatch(d *DB, tx *bbolt.Tx) *batch {
	return &batch{db: d, tx: tx, rows: map[string]*pay.Payment{}, days: map[string]*codec.Day{}}
}

// keptRoom bounds the changes whose room a batch keeps for the next one.
const keptRoom = 16384

// begin empties the batch for operations in a working set.
func (b *batch) begin(tx *bbolt.Tx, leased map[string]*pay.Payment) {
	if len(b.changes) > keptRoom {
		b.changes, b.plain, b.packed = nil, nil, nil
	}
	clear(b.changes)
	clear(b.rows)
	clear(b.days)
	b.tx, b.leased, b.changes = tx, leased, b.changes[:0]
}

// publish updates the leased rows of the committer once the batch is durable.
func (b *batch) publish(leased map[string]*pay.Payment) {
	for id, p := range b.rows {
		if p.Lease.Owner != "" {
			leased[id] = p
		} else {
			delete(leased, id)
		}
	}
}

// get reads a value, which is valid until the next write.
func (b *batch) get(bucket, key []byte) []byte { return b.tx.Bucket(bucket).Get(key) }

// put writes a value. Key and value belong to the batch from now on.
func (b *batch) put(bucket, key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	return b.write(bucket, key, value)
}

func (b *batch) delete(bucket, key []byte) error { return b.write(bucket, key, nil) }

// write puts a value, or deletes the key if the value is nil. It notes what was there.
func (b *batch) write(bucket, key, value []byte) error {
	at, was := b.tx.Bucket(bucket).Cursor().Seek(key)
	switch {
	case !bytes.Equal(at, key):
		was = nil
	case was == nil:
		was = []byte{}
	}
	return b.replace(bucket, key, was, value)
}

// replace writes like write, for a caller that knows what was there; nil: nothing. Not to look
// again saves a tenth of a batch.
func (b *batch) replace(bucket, key, was, value []byte) error {
	if was == nil && value == nil {
		return nil
	}
	if err := write(b.tx.Bucket(bucket), key, value); err != nil {
		return fmt.Errorf("write into %s: %w", bucket, err)
	}
	b.changes = append(b.changes, change{bucket, key, value, was})
	return nil
}

func write(in *bbolt.Bucket, key, value []byte) error {
	if value == nil {
		return in.Delete(key)
	}
	return in.Put(key, value)
}

// undo takes back the changes from one on.
func (b *batch) undo(from int) error {
	clear(b.days)        // a sum may have grown without being written
	var touched []string // payments
	for i := len(b.changes) - 1; i >= from; i-- {
		c := b.changes[i]
		if err := write(b.tx.Bucket(c.bucket), c.key, c.was); err != nil {
			return fmt.Errorf("undo a write into %s: %w", c.bucket, err)
		}
		if &c.bucket[0] == &paymentsBucket[0] {
			touched = append(touched, string(c.key))
		}
	}
	for _, id := range touched {
		p, err := paymentIn(b.tx, id)
		if err != nil && !errors.Is(err, pay.ErrPaymentNotFound) {
			return fmt.Errorf("undo: %w", err)
		}
		if b.rows[id] = p; p == nil {
			delete(b.rows, id)
		}
	}
	b.changes = b.changes[:from]
	return nil
}

// early reports whether readers may see the batch before it is durable. They may see payments and
// sums, which decide nothing before the next batch. They must not see keys, wallets and the rest:
// a client could send money to a wallet that a power cut takes away.
func (b *batch) early() bool {
	for _, c := range b.changes {
		if !slices.ContainsFunc(paymentBuckets, func(name []byte) bool { return &name[0] == &c.bucket[0] }) {
			return false
		}
	}
	return true
}

// Payment reads a payment, which the caller must not change: pay.ErrPaymentNotFound.
func (b *batch) Payment(id string) (*pay.Payment, error) {
	if p := b.rows[id]; p != nil {
		return p, nil
	}
	if p := b.leased[id]; p != nil {
		return p, nil
	}
	return paymentIn(b.tx, id)
}

// leasedIDs lists payments whose lease ends at or before until (nil: all), soonest first. It
// lists at most limit (0: all), and none that except reports.
func (b *batch) leasedIDs(until *time.Time, limit int, except func(id string) bool) []string {
	var ids []string
	c := b.tx.Bucket(leasesBucket).Cursor()
	for k, _ := c.First(); k != nil && (limit == 0 || len(ids) < limit); k, _ = c.Next() {
		if until != nil && bytes.Compare(k[:8], []byte(encodeTime(*until))) > 0 {
			break
		}
		if id := string(k[9:]); except == nil || !except(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// counterIn reads a counter; one that was never written is zero.
func counterIn(tx *bbolt.Tx, c pay.Counter) (money.Amount, error) {
	return amountOf(c, tx.Bucket(countersBucket).Get([]byte(c)))
}

// amountOf decodes the stored amount of a counter.
func amountOf(c pay.Counter, text []byte) (money.Amount, error) {
	if text == nil {
		return money.Amount{}, nil
	}
	amount, err := money.Parse(string(text))
	if err != nil {
		return money.Amount{}, fmt.Errorf("counter %s: %w", c, err)
	}
	return amount, nil
}

// PutCounter replaces the amount of a counter. A counter at zero has no row.
func (b *batch) PutCounter(c pay.Counter, was, is money.Amount) error {
	return b.replace(countersBucket, []byte(c), counterText(was), counterText(is))
}

func counterText(amount money.Amount) []byte {
	if amount.IsZero() {
		return nil
	}
	return []byte(amount.String())
}

// Now tells the time of audit entries.
func (b *batch) Now() time.Time { return b.db.clock() }

// Room returns an error while free disk is short.
func (b *batch) Room() error { return b.db.disk.checkSpace() }

// labelCount reads the number of payments with a label.
func labelCount(tx *bbolt.Tx, label string) (int, error) {
	return countOf(label, tx.Bucket(labelCountsBucket).Get([]byte(label)))
}

// countOf decodes the number of payments with a label.
func countOf(label string, text []byte) (int, error) {
	if text == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, fmt.Errorf("count of %s: %w", label, err)
	}
	return n, nil
}

func (b *batch) countLabel(label string, by int) error {
	key := []byte(label)
	was := b.get(labelCountsBucket, key)
	n, err := countOf(label, was)
	if err != nil {
		return err
	}
	return b.replace(labelCountsBucket, key, was, strconv.AppendInt(nil, int64(n+by), 10))
}
