package pgstore

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// closedSlack bounds the difference between the time in the id of a payment and its Created.
const closedSlack = 24 * time.Hour

// over reads payments without some labels, oldest first, until visit returns false. It returns where
// the next reading goes on; "": at the end.
func (d *DB) over(ctx context.Context, after string, before time.Time, without uint16, visit func(p *pay.Payment) bool) (next string, err error) {
	end := last
	if !before.IsZero() {
		end = idAt(before.Add(closedSlack))
	}
	list, err := d.paymentsBy(ctx, `id > $1 AND id < $2 AND labels & $3 = 0 ORDER BY id LIMIT $4`, after, end, int16(without), maxPage)
	if err != nil {
		return "", err
	}
	for i, p := range list {
		if !visit(p) {
			if i == len(list)-1 && len(list) < maxPage {
				return "", nil
			}
			return p.ID, nil
		}
	}
	if len(list) == maxPage {
		next = list[len(list)-1].ID
	}
	return next, nil
}

// ClosedPayments lists payments with their spend events, oldest first.
func (d *DB) ClosedPayments(ctx context.Context, q pay.ClosedQuery) (page pay.ClosedPage, err error) {
	limit := min(q.Limit, maxPage)
	page.Next, err = d.over(ctx, q.After, q.Before, 0, func(p *pay.Payment) bool {
		if q.Wants(p) {
			page.Payments = append(page.Payments, pay.ClosedPayment{Payment: p})
		}
		return len(page.Payments) < limit
	})
	if err != nil {
		return pay.ClosedPage{}, err
	}
	at, ids := map[string]int{}, []string{}
	for i, p := range page.Payments {
		at[p.ID] = i
		ids = append(ids, p.ID)
	}
	err = d.each(ctx, func(r pgx.Rows) error {
		e, err := scanEvent(r)
		if err == nil {
			p := &page.Payments[at[e.PaymentID]]
			p.Events = append(p.Events, e)
		}
		return err
	}, `SELECT key_id, id, row FROM spend WHERE payment_id = ANY($1) ORDER BY corrects <> '', id`, ids)
	if err != nil {
		return pay.ClosedPage{}, err
	}
	return page, nil
}

// RemovePayments removes payments whose time is over.
func (d *DB) RemovePayments(ctx context.Context, r pay.Removal) (done pay.Removed, err error) {
	if restore, err := d.Restored(ctx); err != nil || restore != nil {
		if err == nil {
			err = restore.Refusal()
		}
		return done, err
	}
	var old []string
	locks := []string{configuration}
	done.Next, err = d.over(ctx, r.After, r.Before, codec.LabelBits("reconciled"), func(p *pay.Payment) bool {
		if r.Removes(p) {
			old, locks = append(old, p.ID), append(locks, keyLock(p.KeyID))
		}
		return len(old) < r.Limit
	})
	if err == nil && done.Next == "" {
		defer d.dropMonthsAfter(ctx, r.Before)
	}
	if err != nil || len(old) == 0 {
		return done, err
	}
	err = d.change(ctx, locks, func(t *tx) error {
		done.Count = 0
		var ids, keys []string
		var hashes array[[]byte]
		var attempts []int64
		err := each(t.ctx, t, func(rows pgx.Rows) error {
			p, err := scanPayment(rows)
			if err != nil || !r.Removes(p) {
				return err
			}
			if ids = append(ids, p.ID); p.Attempt > 0 {
				keys, hashes = append(keys, p.KeyID), append(hashes, []byte(hashed(p.IdempotencyKey)))
				attempts = append(attempts, int64(min(p.Attempt, math.MaxInt64))) //nolint:gosec // bounded
			}
			return nil
		}, `SELECT row, payload FROM payments WHERE id = ANY($1)`, old)
		if err != nil {
			return err
		}
		done.Count = len(ids)
		if err := t.exec(`INSERT INTO removed_attempts SELECT k, h, max(n) FROM unnest($1::text[], $2::bytea[], $3::bigint[]) u (k, h, n) GROUP BY k, h
			ON CONFLICT (key_id, attempt_of) DO UPDATE SET attempt = greatest(removed_attempts.attempt, excluded.attempt)`, keys, hashes, attempts); err != nil {
			return err
		}
		latest := r.Before
		err = each(t.ctx, t, func(rows pgx.Rows) error {
			var created int64
			err := rows.Scan(&created)
			if at := time.Unix(0, created+1); at.After(latest) { // a correction, which is younger than what it corrects
				latest = at
			}
			return err
		}, `DELETE FROM spend WHERE payment_id = ANY($1) RETURNING created`, ids)
		if err != nil {
			return err
		}
		if err := t.noteRemoval(latest); err != nil {
			return err
		}
		return t.exec(`DELETE FROM payments WHERE id = ANY($1)`, ids)
	})
	if err != nil {
		return pay.Removed{}, err
	}
	return done, nil
}

// dropMonthsAfter gives back the room of months whose spend is removed. What fails is tried again with the
// next removal.
func (d *DB) dropMonthsAfter(ctx context.Context, before time.Time) {
	if err := d.dropMonths(ctx, before); err != nil {
		d.log.WarnContext(ctx, "store: an empty partition was not dropped", "error", err)
	}
}

func (t *tx) noteRemoval(before time.Time) error {
	was, err := settingOf[time.Time](t.ctx, t, settingRemoved)
	if err != nil || was != nil && !was.Before(before) {
		return err
	}
	return t.put(settingRemoved, before.UTC())
}

// Restored reads the pending reconciliation; nil: there is none.
func (d *DB) Restored(ctx context.Context) (*pay.Restore, error) {
	return settingOf[pay.Restore](ctx, d.pool, settingRestored)
}

func (t *tx) restored() (*pay.Restore, error) {
	r, err := settingOf[pay.Restore](t.ctx, t, settingRestored)
	if err == nil && r == nil {
		err = pay.ErrNotReconciling
	}
	return r, err
}

// Restore begins to reconcile: an operator has put a backup in the place of the database. taken is the
// time of the backup. Sessions and approvals end, because the backup does not know what became of them.
func (d *DB) Restore(ctx context.Context, taken time.Time) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error { return t.restore(taken, false) })
}

// restore begins to reconcile what is missing since taken. lost: see [pay.Restore.Lost].
func (t *tx) restore(taken time.Time, lost bool) error {
	r, err := settingOf[pay.Restore](t.ctx, t, settingRestored)
	if err != nil {
		return err
	}
	switch {
	case r == nil:
		r = &pay.Restore{Taken: taken, Lost: lost}
	case taken.Before(r.Taken): // the blocks are read from an earlier one on
		r.Taken, r.Scans = taken, nil
	}
	r.Again(t.d.clock())
	if err := t.exec(`DELETE FROM sessions`); err != nil {
		return err
	}
	open, err := many[pay.Approval](t.ctx, t, `SELECT row FROM approvals WHERE purchase IS NOT NULL`)
	if err != nil {
		return err
	}
	for _, a := range open {
		a = a.Restored()
		row, err := json.Marshal(a)
		if err != nil {
			return err
		}
		if err := t.exec(`UPDATE approvals SET expires = $2, row = $3 WHERE id = $1`, a.ID, nanoseconds(a.Expires), row); err != nil {
			return err
		}
	}
	return t.put(settingRestored, r)
}

// EndReconciling lets payments begin again. It keeps which time was reconciled. Another node may have begun a new
// reconciliation a moment ago, which does not end with this one.
func (d *DB) EndReconciling(ctx context.Context, at time.Time) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		r, err := t.restored()
		if err != nil {
			return err
		}
		if at.Sub(r.At).Abs() < pay.RestoreNoted {
			return r.Refusal()
		}
		if err := t.put(settingReconciled, pay.Restore{Taken: r.Taken, At: r.At, Lost: r.Lost}); err != nil {
			return err
		}
		return t.exec(`DELETE FROM settings WHERE name = $1`, settingRestored)
	})
}

// Reconcile books payments that the chain has and the books lack.
func (d *DB) Reconcile(ctx context.Context, step pay.ReconcileStep) ([]*pay.Payment, error) {
	var booked []*pay.Payment
	locks := []string{configuration}
	for _, p := range step.Found {
		locks = append(locks, scopeOf(p).locks...)
	}
	o := &op{locks: locks}
	o.run = func(s *state) error {
		return d.decide(s, func(w *work) (err error) {
			booked, err = storekit.Reconcile(w, step)
			return err
		})
	}
	if err := d.do(ctx, o); err != nil {
		return nil, err
	}
	for i, p := range booked {
		booked[i] = p.Clone()
	}
	return booked, nil
}
