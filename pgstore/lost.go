package pgstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// lostRows bounds the age of payments that are written again: later, no block could have their money.
const lostRows = 24 * time.Hour

// makeUp begins to reconcile after the database has lost commits, and writes again what this node knows of them. Until
// the chain has told the rest, no node on this database makes new payments.
func (d *DB) makeUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	lost, err := d.lostBatches(ctx)
	if err != nil || len(lost) == 0 {
		return err
	}
	first := slices.MinFunc(lost, func(a, b toldBatch) int { return a.at.Compare(b.at) }).at
	taken, err := d.knownUntil(ctx, first)
	if err != nil {
		return err
	}
	begins := false
	err = d.changeOnce(ctx, []string{configuration}, true, func(t *tx) (err error) {
		begins, err = t.lose(taken, first)
		return err
	})
	if err != nil {
		return err
	}
	d.log.ErrorContext(ctx, "store: the database has lost commits: no node pays until the chain has told what is missing",
		"known_until", taken, "lost", first, "begins", begins)
	d.known.Purge()
	d.knowTransactions()
	if err := d.insertAgain(ctx, d.outage.held.Values(), true); err != nil {
		return err
	}
	return d.answered.forget(lost)
}

// lostBatches lists the answered batches that the database does not know.
func (d *DB) lostBatches(ctx context.Context) ([]toldBatch, error) {
	list := d.answered.list(d.Now())
	rows, err := d.pool.Query(ctx, `SELECT id FROM operations WHERE id = ANY($1::uuid[]) AND NOT void`, idsOf(list))
	if err != nil {
		return nil, err
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return slices.DeleteFunc(list, func(b toldBatch) bool { return slices.Contains(there, b.id) }), err
}

// knownUntil returns the time of the newest batch before a lost one: the database has all that was written before. Other
// nodes may have written since it lost the others.
func (d *DB) knownUntil(ctx context.Context, lost time.Time) (time.Time, error) {
	var batch *time.Time
	var payment *string
	err := d.pool.QueryRow(ctx, `SELECT (SELECT max(at) FROM operations WHERE at < $1 AND NOT void), (SELECT max(id) FROM payments WHERE id < $2)`,
		lost, idAt(lost)).Scan(&batch, &payment)
	if batch != nil || err != nil {
		return *cmp.Or(batch, &lost), err
	}
	if payment != nil { // the database has forgotten its batches
		if id, err := uuid.Parse(*payment); err == nil && id.Version() == 7 {
			return time.Unix(id.Time().UnixTime()), nil
		}
	}
	return lost.Add(-lostRows), nil
}

// lose begins to reconcile what the database lacks since taken, unless a reconciliation covers a batch that was lost. It
// reports whether it does.
func (t *tx) lose(taken, lost time.Time) (begins bool, err error) {
	for _, name := range []string{settingRestored, settingReconciled} {
		r, err := settingOf[pay.Restore](t.ctx, t, name)
		if err != nil {
			return false, err
		}
		if r != nil && !lost.Before(r.Taken) && !lost.After(r.At) {
			return false, nil
		}
	}
	return true, errors.Join(t.restore(taken, true), t.tell([]pay.Notice{pay.CommitsLostNotice(taken, t.d.clock())}))
}

// rowsOf returns the payments of kept outcomes, as this node knew them before.
func rowsOf(list []*kept) (rows []*pay.Payment) {
	for _, k := range list {
		if p, err := codec.Decode(codec.Stored{Row: k.Row, Payload: k.Payload}); len(k.Row) > 0 && err == nil {
			rows = append(rows, p)
		}
	}
	return rows
}

// insertAgain writes those payments that the database has lost, with what they reserve and with their spend events. lossy:
// see batch.lossy.
func (d *DB) insertAgain(ctx context.Context, rows []*pay.Payment, lossy bool) error {
	recent := d.Now().Add(-lostRows)
	rows = slices.DeleteFunc(rows, func(p *pay.Payment) bool { return p.ValidBefore().Before(recent) })
	for part := range slices.Chunk(rows, maxBatch) {
		ids := make([]string, len(part))
		for i, p := range part {
			ids[i] = p.ID
		}
		found, err := d.pool.Query(ctx, `SELECT id FROM payments WHERE id = ANY($1)`, ids)
		if err != nil {
			return err
		}
		there, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return err
		}
		part = slices.DeleteFunc(part, func(p *pay.Payment) bool { return slices.Contains(there, p.ID) })
		if len(part) == 0 {
			continue
		}
		b, ops := &batch{DB: d, slot: keptSlot, lossy: lossy}, make([]*op, len(part))
		for i, p := range part {
			ops[i] = &op{locks: scopeOf(p).locks, run: func(s *state) error { return d.writeAgain(s, p) }}
		}
		if err := b.write(ctx, ops); err != nil {
			return err
		}
		for i, p := range part {
			if err := b.results[i]; err != nil {
				d.log.ErrorContext(ctx, "store: a payment that the database has lost is not written again", "payment", p.ID, "error", err)
				continue
			}
			d.log.WarnContext(ctx, "store: a payment that the database had lost is in the books again", "payment", p.ID, "key", p.KeyID, "state", string(p.State))
		}
	}
	return nil
}

// errBooked: a payment with the same authorization is in the books.
var errBooked = errors.New("its authorization is in the books under another payment")

func (d *DB) writeAgain(s *state, p *pay.Payment) error {
	return d.decide(s, func(w *work) error {
		known, err := storekit.WriteAgain(w, p)
		if err == nil && known {
			err = errBooked
		}
		return err
	})
}
