package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// tidyEvery is the interval at which a node looks after partitions and old rows.
	tidyEvery = time.Hour
	// operationsFor is the time for which the database remembers what was committed. A node that lost the
	// answer of a commit asks within it, or writes its outcomes again: settled ones apply once all the same.
	operationsFor = "6 hours"
	// sweepRows bounds the rows that one statement deletes.
	sweepRows = 10_000
	// moveTime bounds the making of a partition with the rows of its month.
	moveTime = 10 * time.Minute
	// months names the lock of the partitions.
	months = "months"
)

// monthName names the partition of a month's spend.
func monthName(month time.Time) string { return month.Format("spend_2006_01") }

// monthOfTime returns the first moment of a time's month.
func monthOfTime(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}

// tidy adds partitions and drops old rows until the store is closed.
func (d *DB) tidy(ctx context.Context) {
	defer d.background.Done()
	next := time.NewTicker(tidyEvery)
	defer next.Stop()
	for {
		if err := d.sweepOperations(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "store: old operations were not removed", "error", err)
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		d.addMonths(ctx)
	}
}

// addMonths makes the partitions of this month and the next one. Without them, spend goes to the partition
// for everything else.
func (d *DB) addMonths(ctx context.Context) {
	this := monthOfTime(d.clock())
	for _, month := range []time.Time{this, this.AddDate(0, 1, 0)} {
		if err := d.addMonth(ctx, month); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "store: a month's partition was not made", "partition", monthName(month), "error", err)
		}
	}
}

// smallSamples makes the change by which ANALYZE reads a quarter of the usual number of rows: a table that is made
// like another one does not get that from it.
const smallSamples = `SELECT string_agg(format('ALTER COLUMN %I SET STATISTICS 25', attname), ', ')
	FROM pg_attribute WHERE attrelid = 'spend'::regclass AND attnum > 0 AND NOT attisdropped`

// moveRows moves the rows of a month out of the partition for everything else. While they are there, the month cannot
// have a partition of its own.
const moveRows = `WITH moved AS (DELETE FROM spend_other WHERE id >= '%[2]s' AND id < '%[3]s' RETURNING *) INSERT INTO %[1]s SELECT * FROM moved`

// addMonth makes the partition of a month, unless there is one. Spend that was booked before it goes there, too.
func (d *DB) addMonth(ctx context.Context, month time.Time) error {
	name := monthName(month)
	const is = `SELECT FROM pg_class WHERE oid = to_regclass($1)`
	if has, err := exists(ctx, d.pool, is, name); err != nil || has {
		return err
	}
	return d.changeWithin(ctx, moveTime, []string{months}, func(t *tx) error {
		if has, err := exists(t.ctx, t, is, name); err != nil || has {
			return err
		}
		// Attaching locks the partition for everything else against readers. It must not wait for a long one,
		// because others would wait behind it.
		if err := t.exec(`SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		from, to := idAt(month), idAt(month.AddDate(0, 1, 0))
		table := pgx.Identifier{name}.Sanitize()
		if err := t.exec(`CREATE TABLE ` + table + ` (LIKE spend INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`); err != nil {
			return err
		}
		samples := ""
		if err := get(t.ctx, t, nil, smallSamples, nil, func(r pgx.Rows) error { return r.Scan(&samples) }); err != nil {
			return err
		}
		if err := t.exec(`ALTER TABLE ` + table + ` ` + samples); err != nil {
			return err
		}
		move := fmt.Sprintf(moveRows, table, from, to)
		if err := t.exec(move); err != nil {
			return err
		}
		if err := t.exec(`LOCK TABLE spend_other IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if err := t.exec(move); err != nil { // rows that came meanwhile
			return err
		}
		return t.exec(fmt.Sprintf(`ALTER TABLE spend ATTACH PARTITION %s FOR VALUES FROM ('%s') TO ('%s')`, table, from, to))
	})
}

// dropMonths drops the partitions of months that were over before a time and have no rows any more.
func (d *DB) dropMonths(ctx context.Context, before time.Time) error {
	var names []string
	err := d.each(ctx, func(r pgx.Rows) error {
		var name string
		err := r.Scan(&name)
		if month, no := time.Parse("spend_2006_01", name); no == nil && !month.AddDate(0, 1, 0).After(before) {
			names = append(names, name)
		}
		return err
	}, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'spend'::regclass ORDER BY c.relname`)
	if err != nil {
		return err
	}
	for _, name := range names {
		table := pgx.Identifier{name}.Sanitize()
		if used, err := exists(ctx, d.pool, `SELECT FROM `+table); err != nil || used {
			if err != nil {
				return err
			}
			continue
		}
		err := d.change(ctx, []string{months}, func(t *tx) error {
			if err := t.exec(`SET LOCAL lock_timeout = '1s'`); err != nil {
				return err
			}
			if err := t.exec(`LOCK TABLE spend, ` + table + ` IN ACCESS EXCLUSIVE MODE`); err != nil {
				return err
			}
			if used, err := exists(ctx, t, `SELECT FROM `+table); err != nil || used {
				return err
			}
			return t.exec(`DROP TABLE ` + table)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepOperations forgets the batches that no node asks for any more.
func (d *DB) sweepOperations(ctx context.Context) error {
	for {
		tag, err := d.pool.Exec(ctx, `DELETE FROM operations WHERE id IN (SELECT id FROM operations WHERE at < now() - $1::text::interval LIMIT $2)`, operationsFor, sweepRows)
		if err != nil || tag.RowsAffected() < sweepRows {
			return err
		}
	}
}
