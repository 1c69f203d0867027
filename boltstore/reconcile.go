package boltstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
	"github.com/purserpay/purser/x402"
)

// reconcilingKey names the pay.Restore in the meta bucket, as JSON, while reconciling goes on.
// Begin looks only whether it is there.
var reconcilingKey = []byte("reconciling")

// usableBefore bounds the authorizations that Reconcile compares with the chain. Those that
// expired more than usableBefore before the backup are skipped: no block that recovery scans can
// contain their use.
const usableBefore = 24 * time.Hour

// beginReconciling puts a store that comes from a backup into reconcile mode when it is opened
// for the first time, and records the time.
func (d *DB) beginReconciling(tx *bbolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	marks, err := marksIn(meta)
	d.marks = len(marks)
	if err != nil || !slices.ContainsFunc(marks, Mark.unopened) {
		return err
	}
	r, err := metaIn[pay.Restore](tx, reconcilingKey)
	if err != nil {
		return err
	}
	if r == nil {
		oldest := marks[slices.IndexFunc(marks, Mark.pending)]
		r = &pay.Restore{Taken: oldest.At, Block: oldest.Block, Copied: oldest.Copied, From: oldest.From}
	}
	now := d.clock()
	r.Again(now)
	for i := range marks {
		if marks[i].unopened() {
			marks[i].RestoredAt = now.UTC()
		}
	}
	if err := clearSessions(tx); err != nil {
		return err
	}
	if err := closeApprovals(tx); err != nil {
		return err
	}
	return putJSON(meta.Put, map[string]any{string(backupsKey): marks, string(reconcilingKey): r})
}

// pending reports that the chain has not told yet what the backup lacks.
func (m Mark) pending() bool { return m.ReconciledAt.IsZero() }

// unopened reports that no store that was restored from the backup has been opened.
func (m Mark) unopened() bool { return m.pending() && m.RestoredAt.IsZero() }

func putJSON(put func(key, value []byte) error, values map[string]any) error {
	for key, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if err := put([]byte(key), text); err != nil {
			return err
		}
	}
	return nil
}

// Restored reads the pending reconciliation; nil: there is none.
func (d *DB) Restored(ctx context.Context) (r *pay.Restore, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		r, err = metaIn[pay.Restore](tx, reconcilingKey)
		return err
	})
	return r, err
}

func (b *batch) putMeta(values map[string]any) error {
	return putJSON(func(key, value []byte) error { return b.put(metaBucket, key, value) }, values)
}

// Reconcile books payments that the chain has and the books lack.
func (d *DB) Reconcile(ctx context.Context, s pay.ReconcileStep) ([]*pay.Payment, error) {
	known, err := d.knownAuthorizations(ctx)
	if err != nil {
		return nil, err
	}
	var booked []*pay.Payment
	err = d.do(ctx, &op{run: func(b *batch) (err error) {
		booked, err = storekit.Reconcile(reconciling{b, known}, s)
		return err
	}})
	if err != nil {
		return nil, err
	}
	for i, p := range booked {
		booked[i] = p.Clone() // the batch keeps its own
	}
	return booked, nil
}

// reconciling is a batch with the authorizations that no index finds.
type reconciling struct {
	*batch
	known map[usedAuthorization]bool
}

// PutRestored writes the pending reconciliation.
func (b reconciling) PutRestored(r *pay.Restore) error {
	return b.putMeta(map[string]any{string(reconcilingKey): r})
}

// usedAuthorization identifies an authorization as the token does.
type usedAuthorization struct {
	from  x402.Address
	nonce x402.Nonce
}

func authorizationOf(p *pay.Payment) usedAuthorization {
	return usedAuthorization{p.Authorization.From, p.Authorization.Nonce}
}

// KnowsAuthorization looks for a payment with the same authorization, also among those that no index finds.
func (b reconciling) KnowsAuthorization(p *pay.Payment) (bool, error) {
	if b.known[authorizationOf(p)] {
		return true, nil
	}
	return b.batch.KnowsAuthorization(p)
}

// KnowsAuthorization looks for a payment with the same authorization. The indexes find those with the same
// transaction, those that reconciling found, and those whose challenge chose the nonce.
func (b *batch) KnowsAuthorization(p *pay.Payment) (bool, error) {
	if b.get(paymentsBucket, []byte(p.ID)) != nil {
		return true, nil
	}
	type lookup struct{ bucket, prefix []byte }
	in := []lookup{{noncesBucket, keyPrefix(string(p.Authorization.Nonce[:]))}}
	if p.Transaction != "" {
		in = append(in, lookup{transactionsBucket, keyPrefix(transactionKey(p.Transaction))})
	}
	for _, in := range in {
		c := b.tx.Bucket(in.bucket).Cursor()
		for k, _ := c.Seek(in.prefix); bytes.HasPrefix(k, in.prefix); k, _ = c.Next() {
			q, err := b.Payment(string(k[len(in.prefix):]))
			if err != nil {
				return false, err
			}
			if authorizationOf(q) == authorizationOf(p) {
				return true, nil
			}
		}
	}
	return false, nil
}

// knownAuthorizations reads the authorizations that no index finds: those of payments without a
// confirmed transaction. It reads them once, because no such payment begins in reconcile mode.
func (d *DB) knownAuthorizations(ctx context.Context) (map[usedAuthorization]bool, error) {
	d.reconciling.Lock()
	defer d.reconciling.Unlock()
	if d.known != nil {
		return d.known, nil
	}
	r, err := d.Restored(ctx)
	if err == nil && r == nil {
		err = pay.ErrNotReconciling
	}
	if err != nil {
		return nil, err
	}
	since := r.Taken
	if r.Block != nil && r.Block.Time.Before(since) {
		since = r.Block.Time
	}
	ended := uint64(max(0, since.Add(-usableBefore).Unix()))
	known := map[usedAuthorization]bool{}
	q := pay.LabelQuery{Without: []string{"confirmed"}, Limit: scanRows}
	for more := true; more; {
		list, err := d.AllPayments(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			q.Before = p.ID
			if p.Authorization.ValidBefore >= ended {
				known[authorizationOf(p)] = true
			}
		}
		more = len(list) == q.Limit
	}
	d.known = known
	return known, nil
}

// EndReconciling lets payments begin again, and records the result with the marks.
func (d *DB) EndReconciling(ctx context.Context, at time.Time) error {
	err := d.do(ctx, &op{run: func(b *batch) error {
		r, err := storekit.Restored(b)
		if err != nil {
			return err
		}
		marks, err := marksIn(b.tx.Bucket(metaBucket))
		if err != nil {
			return err
		}
		for i := range marks {
			if marks[i].pending() {
				marks[i].ReconciledAt, marks[i].Booked, marks[i].Accepted = at.UTC(), r.Booked, r.Accepted
				marks[i].Strange = r.Strange
			}
		}
		if err := b.putMeta(map[string]any{string(backupsKey): marks}); err != nil {
			return err
		}
		return b.delete(metaBucket, reconcilingKey)
	}})
	if err == nil {
		d.reconciling.Lock()
		defer d.reconciling.Unlock()
		d.known = nil
	}
	return err
}

// NonceTag marks the nonces of a key or of a withdrawal.
func (d *DB) NonceTag(of string, seed pay.NonceSeed) pay.NonceSeed {
	return codec.NonceTag(d.vault.Load().Derive, of, seed)
}

// noncesOf derives the nonces of an idempotency key.
func (d *DB) noncesOf(keyID, idempotencyKey string) codec.Nonces {
	return codec.NoncesOf(d.vault.Load().Derive, keyID, idempotencyKey)
}

func (b *batch) Restored() (*pay.Restore, error) { return metaIn[pay.Restore](b.tx, reconcilingKey) }

func (b *batch) Attempts(keyID, idempotencyKey string) (n uint64, err error) {
	descend(b.tx.Bucket(attemptsBucket), keyPrefix(keyID, hashed(idempotencyKey)), "", func(rest, _ []byte) bool {
		if len(rest) < 9 {
			err = errors.New("an attempt without a number")
			return false
		}
		n = decodeNumber(rest)
		return false
	})
	return n, err
}

func (b *batch) Reconciled(keyID, idempotencyKey string) (p *pay.Payment, attempt uint64, err error) {
	s := b.db.noncesOf(keyID, idempotencyKey)
	c := b.tx.Bucket(noncesBucket).Cursor()
	for k, _ := c.Seek(s.Prefix()); bytes.HasPrefix(k, s.Prefix()); k, _ = c.Next() {
		if len(k) <= len(x402.Nonce{}) {
			return nil, 0, errors.New("a reconciled payment without its nonce")
		}
		n, ok := s.Attempt(x402.Nonce(k))
		if !ok || n <= attempt {
			continue
		}
		if p, err = b.Payment(string(k[len(x402.Nonce{})+1:])); err != nil {
			return nil, 0, err
		}
		attempt = n
	}
	return p, attempt, nil
}

func (b *batch) Nonce(keyID, idempotencyKey string, attempt uint64) x402.Nonce {
	return b.db.noncesOf(keyID, idempotencyKey).Nonce(attempt)
}
