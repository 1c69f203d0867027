package pgstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// checker compares the rows of one moment.
type checker struct {
	ctx    context.Context
	tx     pgx.Tx
	vault  *vault.Vault // nil: secrets are not tried
	report Report
}

func (c *checker) fault(format string, args ...any) {
	if c.report.More = len(c.report.Faults) >= maxFaults; !c.report.More {
		c.report.Faults = append(c.report.Faults, fmt.Sprintf(format, args...))
	}
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
		c.report.Removed = *removed
	}
	err = each(c.ctx, c.tx, func(r pgx.Rows) error {
		var id, key string
		var labels int16
		var leased, due bool
		var row, payload []byte
		if err := r.Scan(&id, &key, &labels, &leased, &due, &row, &payload); err != nil {
			return err
		}
		c.report.Payments++
		p, err := codec.Decode(codec.Stored{Row: row, Payload: payload})
		if err != nil {
			c.fault("payment %s: %v", id, err)
			return nil
		}
		for _, label := range p.Labels() {
			c.report.Labels[label]++
		}
		if p.ID != id || p.KeyID != key || labels != int16(codec.LabelBits(p.Labels()...)) || leased != (p.Lease.Owner != "") || due != !p.Check.IsZero() {
			c.fault("payment %s has other columns than its row", id)
		}
		for _, what := range p.Contradictions() {
			c.fault("payment %s %s", id, what)
		}
		if err := sums.Add(p); err != nil {
			c.fault("%v", err)
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
			c.fault("%v", err)
		}
		return nil
	})
	for _, missing := range sums.Missing() {
		c.fault("%v", missing)
	}
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
	err := each(c.ctx, c.tx, func(r pgx.Rows) error {
		var key string
		var day int32
		err := r.Scan(&key, &day)
		c.fault("spend of key %s on %s stands in two places", key, dayTime(day).Format(time.DateOnly))
		return err
	}, `SELECT key_id, day FROM days GROUP BY key_id, day HAVING count(*) > 1`)
	if err != nil {
		return err
	}
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
			c.fault("spend of key %s on %s: %v", key, dayTime(day).Format(time.DateOnly), err)
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

// wallets checks that on each day as much left the wallets as the keys spent.
func (c *checker) wallets() error {
	left, spent := map[int32]pay.Sum{}, map[int32]pay.Sum{}
	add := func(to map[int32]pay.Sum, day int32, sums ...pay.Sum) {
		sum := to[day]
		for _, s := range sums {
			sum.Add(s)
		}
		to[day] = sum
	}
	err := visitWalletDays(c.ctx, c.tx, func(_ string, d pay.WalletDay) error {
		add(left, dayNumber(d.Day), d.Spent, d.Withdrawn)
		return nil
	}, `true`)
	if err != nil {
		return err
	}
	err = each(c.ctx, c.tx, func(r pgx.Rows) error {
		var day int32
		var row []byte
		if err := r.Scan(&day, &row); err != nil {
			return err
		}
		_ = codec.VisitDay(row, func(s pay.Sum) { add(spent, day, s) }, nil) // days has said it
		return nil
	}, `SELECT day, row FROM days`)
	if err != nil {
		return err
	}
	for day := range left {
		add(spent, day) // so that all days are there
	}
	for _, day := range slices.Sorted(maps.Keys(spent)) {
		if left[day] != spent[day] {
			c.fault("on %s keys spent %+v, and %+v left the wallets", dayTime(day).Format(time.DateOnly), spent[day], left[day])
		}
	}
	return nil
}
