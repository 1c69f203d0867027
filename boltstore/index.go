package boltstore

import (
	"bytes"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// indexEntry is one entry that a payment has in an index.
type indexEntry struct {
	bucket []byte
	key    []byte
}

// indexed are the labels with an index of their own. The others are dense: most
// payments have them, so they are found by walking the key's payments.
var indexed = []string{string(pay.Open), string(pay.Void), "refused", "unresolved", "disputed", "reconciled"}

// entries are all index entries of a payment; none for nil. What is here is all that
// the indexes say: writing a row puts and deletes the difference.
func entries(p *pay.Payment) []indexEntry {
	if p == nil {
		return nil
	}
	list := make([]indexEntry, 0, 10)
	add := func(bucket []byte, parts ...string) {
		list = append(list, indexEntry{bucket, joinKey(parts...)})
	}
	add(keyPaymentsBucket, p.KeyID, p.ID)
	list = append(list, indexEntry{labelledBucket, labelledKey(p)})
	for _, label := range p.Labels() {
		if slices.Contains(indexed, label) {
			add(labelsBucket, p.KeyID, label, p.ID)
		}
	}
	if p.Awaited() && !p.Retired {
		add(awaitedBucket, p.KeyID, string(p.Identity[:]), encodeNumber(awaitedUntil(p)), p.ID)
	}
	if p.IdempotencyKey != "" && p.Lives() && !p.Retired {
		add(livingBucket, p.KeyID, hashed(p.IdempotencyKey), p.ID)
	}
	if p.Attempt > 0 {
		add(attemptsBucket, p.KeyID, hashed(p.IdempotencyKey), encodeNumber(int64(p.Attempt)), p.ID)
	}
	if p.Reconciled {
		add(noncesBucket, string(p.Authorization.Nonce[:]), p.ID)
	}
	if p.HoldsHost() {
		add(hostsBucket, p.KeyID, hashed(p.Host), encodeNumber(validBefore(p)), p.ID)
	}
	if p.Lease.Owner != "" {
		add(leasesBucket, encodeTime(p.Lease.Until), p.ID)
	}
	if p.Transaction != "" {
		add(transactionsBucket, transactionKey(p.Transaction), p.ID)
	}
	if !p.Check.IsZero() {
		add(dueBucket, encodeTime(p.Check), p.ID)
	}
	return list
}

// hashed keeps text of any length within the bounds of a key.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// validBefore and awaitedUntil are in seconds and do not overflow.
func validBefore(p *pay.Payment) int64 {
	return int64(min(p.Authorization.ValidBefore, math.MaxInt64/2))
}

func awaitedUntil(p *pay.Payment) int64 {
	return validBefore(p) + int64(pay.RepeatGrace/time.Second)
}

// after is the first whole second after now: where a seek for later ones begins.
func secondAfter(now time.Time) string { return encodeNumber(now.Unix() + 1) }

// reindex brings the indexes from one state of a payment to the next.
func (b *batch) reindex(was, is *pay.Payment) error {
	had, has := entries(was), entries(is)
	for _, e := range had {
		if !slices.ContainsFunc(has, e.equal) {
			if err := b.delete(e.bucket, e.key); err != nil {
				return err
			}
		}
	}
	for _, e := range has {
		if !slices.ContainsFunc(had, e.equal) {
			if err := b.put(e.bucket, e.key, nil); err != nil {
				return err
			}
		}
	}
	return b.recount(was, is)
}

func (e indexEntry) equal(f indexEntry) bool {
	return &e.bucket[0] == &f.bucket[0] && bytes.Equal(e.key, f.key)
}

// recount keeps the numbers of payments by label.
func (b *batch) recount(was, is *pay.Payment) error {
	var had []string
	if was != nil {
		had = was.Labels()
	}
	has := is.Labels()
	for _, label := range had {
		if !slices.Contains(has, label) {
			if err := b.countLabel(label, -1); err != nil {
				return err
			}
		}
	}
	for _, label := range has {
		if !slices.Contains(had, label) {
			if err := b.countLabel(label, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostEventKey is the key of an event in the index by host. A host on REST is only claimed and
// may be of any length, so the index has its hash.
func hostEventKey(e *pay.SpendEvent) []byte { return joinKey(e.KeyID, hashed(e.Host), e.ID) }

func transactionKey(hash string) string { return strings.ToLower(hash) }

// hasKey reports whether a bucket has a key. Get does not tell a missing one from an
// empty value.
func hasKey(bucket *bbolt.Bucket, key []byte) bool {
	k, _ := bucket.Cursor().Seek(key)
	return bytes.Equal(k, key)
}

// descend walks the entries within prefix from the last one before `before` (from the
// very last if empty) down, while visit returns true. rest is the key behind prefix.
func descend(bucket *bbolt.Bucket, prefix []byte, before string, visit func(rest, value []byte) bool) {
	from := append(slices.Clone(prefix[:len(prefix)-1]), 1) // the end of prefix, whose last byte is 0
	if before != "" {
		from = append(slices.Clone(prefix), before...)
	}
	c := bucket.Cursor()
	step := c.Prev
	if k, _ := c.Seek(from); k == nil {
		step = c.Last
	}
	k, v := step()
	for ; k != nil && bytes.HasPrefix(k, prefix); k, v = c.Prev() {
		if !visit(k[len(prefix):], v) {
			return
		}
	}
}
