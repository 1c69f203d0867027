package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// checker compares the rows of one moment.
type checker struct {
	ctx    context.Context
	tx     pgx.Tx
	faults []error
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// Check compares columns, counters and sums with the payments and events that make them up, as of one
// moment. Payments go on meanwhile. It needs memory for the counters, and reads everything.
func (d *DB) Check(ctx context.Context) error {
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return unavailable(ctx, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has read only
	c := &checker{ctx: ctx, tx: tx}
	if err := errors.Join(c.payments(), c.events(), c.days()); err != nil {
		return err
	}
	return errors.Join(c.faults...)
}

// payments checks each payment, its columns and the counters.
func (c *checker) payments() error {
	removed, err := settingOf[time.Time](c.ctx, c.tx, settingRemoved)
	if err != nil {
		return err
	}
	sums := pay.CounterCheck{}
	if removed != nil {
		sums.Removed = *removed
	}
	err = each(c.ctx, c.tx, func(r pgx.Rows) error {
		var id, key string
		var labels int16
		var leased, due bool
		var row, payload []byte
		if err := r.Scan(&id, &key, &labels, &leased, &due, &row, &payload); err != nil {
			return err
		}
		p, err := codec.Decode(codec.Stored{Row: row, Payload: payload})
		if err != nil {
			c.fault("payment %s: %w", id, err)
			return nil
		}
		if p.ID != id || p.KeyID != key || labels != int16(codec.LabelBits(p.Labels()...)) || leased != (p.Lease.Owner != "") || due != !p.Check.IsZero() {
			c.fault("payment %s has other columns than its row", id)
		}
		for _, what := range p.Contradictions() {
			c.fault("payment %s %s", id, what)
		}
		if err := sums.Add(p); err != nil {
			c.fault("%w", err)
		}
		return nil
	}, `SELECT id, key_id, labels, leased IS NOT NULL, due IS NOT NULL, row, payload FROM payments ORDER BY id`)
	if err != nil {
		return err
	}
	var last pay.Counter
	err = visitCounters(c.ctx, c.tx, "", "", func(v codec.CounterValue) error {
		if v.Counter == last {
			c.fault("counter %s stands in two places", v.Counter)
		}
		if last = v.Counter; v.Amount.IsZero() {
			return nil
		}
		if err := sums.Compare(v.Counter, v.Amount); err != nil {
			c.fault("%w", err)
		}
		return nil
	})
	c.faults = append(c.faults, sums.Missing()...)
	return err
}

// events checks that each settled payment has its spend event, and each event its payment.
func (c *checker) events() error {
	err := each(c.ctx, c.tx, func(r pgx.Rows) error {
		var row []byte
		var key, id *string
		var event []byte
		if err := r.Scan(&row, &key, &id, &event); err != nil {
			return err
		}
		p, err := codec.Decode(codec.Stored{Row: row})
		if err != nil {
			return nil //nolint:nilerr // payments has said it
		}
		if id == nil {
			c.fault("payment %s is settled, and its spend event is missing", p.ID)
			return nil
		}
		e, err := codec.DecodeEvent(*key, *id, event)
		if err != nil || e.ID != p.EventID || e.Amount != p.Moved() {
			c.fault("payment %s is settled, but its spend event is %+v, %v", p.ID, e, err)
		}
		return nil
	}, `SELECT p.row, s.key_id, s.id, s.row FROM payments p LEFT JOIN spend s ON s.payment_id = p.id AND s.corrects = '' WHERE p.labels & $1 <> 0`, int16(codec.LabelBits(string(pay.Settled))))
	if err != nil {
		return err
	}
	return each(c.ctx, c.tx, func(r pgx.Rows) error {
		var id string
		err := r.Scan(&id)
		c.fault("spend event %s belongs to no settled payment", id)
		return err
	}, `SELECT s.id FROM spend s LEFT JOIN payments p ON p.id = s.payment_id AND p.labels & $1 <> 0 WHERE p.id IS NULL`, int16(codec.LabelBits(string(pay.Settled))))
}

// days checks that the sums of days are those of their events, unless events were removed.
func (c *checker) days() error {
	return each(c.ctx, c.tx, func(r pgx.Rows) error {
		var key string
		var day int32
		var row []byte
		var count int
		var amount, corrected string
		if err := r.Scan(&key, &day, &row, &count, &amount, &corrected); err != nil {
			return err
		}
		var is pay.Sum
		if err := codec.VisitDay(row, func(s pay.Sum) { is = s }, nil); err != nil {
			c.fault("spend of key %s on %s: %w", key, dayTime(day).Format(time.DateOnly), err)
			return nil
		}
		if is.Count != count || is.Amount.String() != amount || is.Corrected.String() != corrected {
			c.fault("spend of key %s on %s is summed up as %+v, its events make %d payments, %s, %s taken back", key, dayTime(day).Format(time.DateOnly), is, count, amount, corrected)
		}
		return nil
	}, `SELECT d.key_id, d.day, d.row, count(s.id) FILTER (WHERE s.corrects = ''), least($1::numeric, coalesce(sum(s.amount) FILTER (WHERE s.corrects = ''), 0))::text, least($1::numeric, coalesce(sum(s.amount) FILTER (WHERE s.corrects <> ''), 0))::text
		FROM days d LEFT JOIN spend s ON s.key_id = d.key_id AND s.created / 86400000000000 = d.day
		WHERE d.day > coalesce((SELECT extract(epoch FROM trim(both '"' FROM convert_from(value, 'UTF8'))::timestamptz) / 86400 FROM settings WHERE name = 'removed'), -1)
		GROUP BY d.key_id, d.day, d.row`, largest)
}
