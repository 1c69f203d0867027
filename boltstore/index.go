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
	"github.com/purserpay/purser/x402"
)

// indexEntry holds one entry of a payment in an index.
type indexEntry struct {
	bucket []byte
	key    []byte
}

// indexed lists the labels with an index of their own. Most payments have one of the other
// labels, so a listing by those walks the payments of the key.
var indexed = []string{string(pay.Open), string(pay.Void), "refused", "unresolved", "disputed", "reconciled", "undelivered"}

// entries makes all index entries of a payment; none for nil. Indexes hold nothing else: writing
// a row puts and deletes the difference.
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
	if keyID, name, ok := p.LivesUnder(); ok {
		add(livingBucket, keyID, hashed(name), p.ID)
	}
	if p.Attempt > 0 {
		add(attemptsBucket, p.KeyID, hashed(p.IdempotencyKey), encodeNumber(int64(p.Attempt)), p.ID)
	}
	if p.Reconciled || p.Bound {
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

// hashed bounds the length of text in a key.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// validBefore and awaitedUntil return seconds that do not overflow.
func validBefore(p *pay.Payment) int64 {
	return int64(min(p.Authorization.ValidBefore, math.MaxInt64/2))
}

func awaitedUntil(p *pay.Payment) int64 {
	return validBefore(p) + int64(p.AwaitedUntil().Sub(p.ValidBefore())/time.Second)
}

// secondAfter encodes the first whole second after now, where a seek for later seconds begins.
func secondAfter(now time.Time) string { return encodeNumber(now.Unix() + 1) }

// reindex moves the indexes from one state of a payment to the next. nil: there is no payment. It
// does not look what the indexes have, because the rows say so.
func (b *batch) reindex(was, is *pay.Payment) error {
	had, has := entries(was), entries(is)
	for _, e := range had {
		if !slices.ContainsFunc(has, e.equal) {
			if err := b.replace(e.bucket, e.key, []byte{}, nil); err != nil {
				return err
			}
		}
	}
	for _, e := range has {
		if !slices.ContainsFunc(had, e.equal) {
			if err := b.replace(e.bucket, e.key, nil, []byte{}); err != nil {
				return err
			}
		}
	}
	return b.recount(was, is)
}

func (e indexEntry) equal(f indexEntry) bool {
	return &e.bucket[0] == &f.bucket[0] && bytes.Equal(e.key, f.key)
}

// recount updates the numbers of payments by label.
func (b *batch) recount(was, is *pay.Payment) error {
	var had []string
	if was != nil {
		had = was.Labels()
	}
	var has []string
	if is != nil {
		has = is.Labels()
	}
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

// hostEventKey makes the key of an event in the index by host. The index has a hash, because a
// host on REST is only claimed and may be of any length.
func hostEventKey(e *pay.SpendEvent) []byte { return joinKey(e.KeyID, hashed(e.Host), e.ID) }

// transactionKey makes the part of a key for the hash of a transaction: 32 bytes, or text that is
// no hash in lower case.
func transactionKey(hash string) string {
	if n, err := x402.ParseNonce(hash); err == nil {
		return string(n[:])
	}
	return strings.ToLower(hash)
}

// hasKey reports whether a bucket has a key. Get returns the same for a missing key and an empty
// value.
func hasKey(bucket *bbolt.Bucket, key []byte) bool {
	k, _ := bucket.Cursor().Seek(key)
	return bytes.Equal(k, key)
}

// descend walks the entries with a prefix down while visit returns true, from the last one below
// before ("": from the very last). rest is the part of the key behind the prefix.
func descend(bucket *bbolt.Bucket, prefix []byte, before string, visit func(rest, value []byte) bool) {
	from := append(slices.Clone(prefix[:len(prefix)-1]), 1) // the end of prefix, whose last byte is 0
	if before != "" {
		from = append(slices.Clone(prefix), before...)
	}
	c := bucket.Cursor()
	k, v := below(bucket, c, from)
	for ; k != nil && bytes.HasPrefix(k, prefix); k, v = previous(bucket, c, k) {
		if !visit(k[len(prefix):], v) {
			return
		}
	}
}

// below moves a cursor to the last entry below a key.
func below(bucket *bbolt.Bucket, c *bbolt.Cursor, end []byte) (k, v []byte) {
	if at, _ := c.Seek(end); at != nil {
		return previous(bucket, c, at)
	}
	return last(bucket, c)
}

// last moves a cursor to the last entry. bbolt's Last does not return if the transaction has
// emptied all pages.
func last(bucket *bbolt.Bucket, c *bbolt.Cursor) (k, v []byte) {
	if first, _ := bucket.Cursor().First(); first == nil {
		return nil, nil
	}
	return c.Last()
}

// previous moves a cursor from an entry to the one before. bbolt's Prev returns nil also at a page
// that the transaction has emptied, so nil counts only at the first entry.
func previous(bucket *bbolt.Bucket, c *bbolt.Cursor, from []byte) (k, v []byte) {
	for {
		if k, v = c.Prev(); k != nil {
			return k, v
		}
		if first, _ := bucket.Cursor().First(); first == nil || bytes.Compare(first, from) >= 0 {
			return nil, nil
		}
	}
}
