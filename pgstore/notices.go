package pgstore

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Mark finds a mark.
func (t *tx) Mark(name string) (pay.NoticeMark, error) {
	var count, until int64
	found := false
	err := get(t.ctx, t, nil, `SELECT count, until FROM notice_marks WHERE name = $1`, []any{[]byte(name)}, func(r pgx.Rows) error {
		found = true
		return r.Scan(&count, &until)
	})
	if err != nil || !found {
		return pay.NoticeMark{}, err
	}
	return markOf(count, until), nil
}

// SetMark replaces a mark, and removes those that have expired.
func (t *tx) SetMark(name string, m pay.NoticeMark, now time.Time) error {
	if err := t.exec(`DELETE FROM notice_marks WHERE name IN (SELECT name FROM notice_marks WHERE until <= $1 ORDER BY until LIMIT 8 FOR UPDATE SKIP LOCKED)`, nanoseconds(now)); err != nil {
		return err
	}
	return t.exec(`INSERT INTO notice_marks (name, count, until) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET count = excluded.count, until = excluded.until`,
		[]byte(name), int64(m.Count), nanoseconds(m.Until)) //nolint:gosec // small
}

// Append keeps a notice for the end of the transaction, where it is numbered.
func (t *tx) Append(n pay.Notice) error {
	t.notes = append(t.notes, n)
	return nil
}

func (t *tx) tell(list []pay.Notice) error { return storekit.WriteNotices(t, list) }

// AddNotices writes notices.
func (d *DB) AddNotices(ctx context.Context, list []pay.Notice) error {
	locks := []string{configuration}
	for _, n := range list {
		locks = append(locks, keyLock(n.KeyID))
	}
	return d.change(ctx, locks, func(t *tx) error { return t.tell(list) })
}

// Mark finds a mark.
func (d *DB) Mark(ctx context.Context, name string) (m pay.NoticeMark, err error) {
	err = d.each(ctx, func(r pgx.Rows) error {
		var count, until int64
		if err := r.Scan(&count, &until); err != nil {
			return err
		}
		m = markOf(count, until)
		return nil
	}, `SELECT count, until FROM notice_marks WHERE name = $1`, []byte(name))
	return m, err
}

// SetMarks replaces marks.
func (d *DB) SetMarks(ctx context.Context, keyID string, marks map[string]pay.NoticeMark, now time.Time) error {
	return d.change(ctx, []string{keyLock(keyID)}, func(t *tx) (err error) {
		for name, m := range marks {
			if m.Until.IsZero() {
				err = t.exec(`DELETE FROM notice_marks WHERE name = $1`, []byte(name))
			} else {
				err = t.SetMark(name, m, now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetNotice forgets a Once.
func (d *DB) ForgetNotice(ctx context.Context, once string) error {
	return d.change(ctx, nil, func(t *tx) error {
		return t.exec(`DELETE FROM notice_marks WHERE name = $1`, []byte(pay.MarkName(once)))
	})
}

func (d *DB) notices(ctx context.Context, sql string, args ...any) (list []pay.Notice, err error) {
	err = d.each(ctx, func(r pgx.Rows) error {
		var number int64
		var row []byte
		if err := r.Scan(&number, &row); err != nil {
			return err
		}
		n, err := decode[pay.Notice](row)
		n.Number = uint64(number) //nolint:gosec // a count
		list = append(list, n)
		return err
	}, sql, args...)
	return list, err
}

// Notices lists notices, newest first.
func (d *DB) Notices(ctx context.Context, q pay.NoticeQuery) ([]pay.Notice, error) {
	return d.notices(ctx, `SELECT number, row FROM notices WHERE number < $1 ORDER BY number DESC LIMIT $2`, below(q.Before), min(q.Limit, maxPage))
}

// below makes a bound of a number; 0: there is none.
func below(number uint64) int64 {
	if number == 0 || number > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(number)
}

// NoticesAfter lists notices with higher numbers, oldest first.
func (d *DB) NoticesAfter(ctx context.Context, number uint64, limit int) ([]pay.Notice, error) {
	return d.notices(ctx, `SELECT number, row FROM notices WHERE number > $1 ORDER BY number LIMIT $2`, int64(min(number, math.MaxInt64)), min(limit, maxPage)) //nolint:gosec // bounded
}

// Deliveries lists the destinations that are known, by name.
func (d *DB) Deliveries(ctx context.Context) ([]pay.Delivery, error) {
	return many[pay.Delivery](ctx, d.pool, `SELECT row FROM deliveries ORDER BY destination`)
}

// atVersion holds for a row of deliveries whose version is $2.
const atVersion = `coalesce((deliveries.row->>'Version')::bigint, 0) = $2`

// ClaimDelivery claims a destination that has no claim.
func (d *DB) ClaimDelivery(ctx context.Context, is pay.Delivery) (mine bool, err error) {
	now := d.clock()
	err = d.change(ctx, nil, func(t *tx) (err error) {
		mine, err = t.writes(`UPDATE deliveries SET claimed = $4 WHERE destination = $1 AND claimed <= $3 AND `+atVersion,
			is.Destination, int64(is.Version), nanoseconds(now), nanoseconds(now.Add(pay.NoticeClaimTime))) //nolint:gosec // a count
		return err
	})
	return mine && err == nil, err
}

// writes runs a statement and reports whether it has written a row.
func (t *tx) writes(sql string, args ...any) (bool, error) {
	tag, err := t.Exec(t.ctx, sql, args...)
	if err != nil {
		return false, &databaseError{err}
	}
	return tag.RowsAffected() > 0, nil
}

// SetDelivery replaces what is known of a destination, if it has not changed, and ends its claim.
func (d *DB) SetDelivery(ctx context.Context, is pay.Delivery) error {
	next := is
	next.Version++
	row, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return d.change(ctx, nil, func(t *tx) error {
		written, err := t.writes(`INSERT INTO deliveries (destination, row) SELECT $1, $3
			WHERE $2::bigint = 0 OR EXISTS (SELECT FROM deliveries WHERE destination = $1)
			ON CONFLICT (destination) DO UPDATE SET row = excluded.row, claimed = 0 WHERE `+atVersion, is.Destination, int64(is.Version), row) //nolint:gosec // a count
		if err == nil && !written {
			err = pay.ErrDeliveryChanged
		}
		return err
	})
}

// ForgetDelivery removes what is known of a destination.
func (d *DB) ForgetDelivery(ctx context.Context, destination string) error {
	return d.change(ctx, nil, func(t *tx) error { return t.exec(`DELETE FROM deliveries WHERE destination = $1`, destination) })
}

// AuditEntries lists entries, newest first.
func (d *DB) AuditEntries(ctx context.Context, q pay.AuditQuery) (list []pay.AuditEntry, err error) {
	err = d.each(ctx, func(r pgx.Rows) error {
		var number int64
		var row []byte
		if err := r.Scan(&number, &row); err != nil {
			return err
		}
		e, err := decode[pay.AuditEntry](row)
		e.Number = uint64(number) //nolint:gosec // a count
		list = append(list, e)
		return err
	}, `SELECT number, row FROM audit WHERE number < $1 AND ($2 = '' OR key_id = $2) AND ($3 = '' OR organization_id = $3) ORDER BY number DESC LIMIT $4`,
		below(q.Before), q.KeyID, q.OrganizationID, min(q.Limit, maxPage))
	return list, err
}
