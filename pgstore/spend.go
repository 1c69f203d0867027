package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// SpendEvents lists a key's events without those of withdrawals, newest first.
func (d *DB) SpendEvents(ctx context.Context, keyID string, q pay.SpendQuery) (list []pay.SpendEvent, err error) {
	if q.Before != "" {
		if err := d.knowsEvent(ctx, []string{keyID}, q.Before, q.Task); err != nil {
			return nil, err
		}
	}
	for before, more := orLast(q.Before), true; more && len(list) < q.Limit; {
		n, limit := 0, q.Limit-len(list)
		err = d.each(ctx, func(r pgx.Rows) error {
			n++
			e, err := scanEvent(r)
			if before = e.ID; err == nil && !e.Withdraws() {
				list = append(list, e)
			}
			return err
		}, `SELECT key_id, id, row FROM spend WHERE key_id = $1 AND ($2 = '' OR task = $2) AND id < $3 ORDER BY id DESC LIMIT $4`, keyID, text(q.Task), before, limit)
		if err != nil {
			return nil, err
		}
		more = n == limit
	}
	return list, nil
}

func scanEvent(r pgx.Rows, more ...any) (e pay.SpendEvent, err error) {
	var keyID, id string
	var row []byte
	if err := r.Scan(append([]any{&keyID, &id, &row}, more...)...); err != nil {
		return e, err
	}
	return codec.DecodeEvent(keyID, id, row)
}

// knowsEvent fails unless one of the keys has the event: pay.ErrEventNotFound.
func (d *DB) knowsEvent(ctx context.Context, keyIDs []string, id, task string) error {
	known, err := exists(ctx, d.pool, `SELECT FROM spend WHERE id = $1 AND key_id = ANY($2) AND ($3 = '' OR task = $3)`, text(id), keyIDs, text(task))
	if err == nil && !known {
		err = pay.ErrEventNotFound
	}
	return err
}

// SpendSummary adds up what the keys spent from one UTC day to another.
func (d *DB) SpendSummary(ctx context.Context, keyIDs []string, from, to time.Time) (pay.Summary, error) {
	t := pay.NewTally(from, to)
	err := d.VisitSpendDays(ctx, keyIDs, from, to, pay.SpendDays{
		Day:  func(_ string, day time.Time, s pay.Sum) { t.Day(day, s) },
		Host: func(_ string, _ time.Time, name []byte, s pay.Sum) { t.Host(name, s) },
		Task: func(_ string, _ time.Time, name []byte, s pay.Sum) { t.Task(name, s) },
	})
	if err != nil {
		return pay.Summary{}, err
	}
	return t.Summary(), nil
}

// spent makes the condition of a query, and its arguments.
func spent(keyIDs []string, q pay.OrganizationSpendQuery) (where string, args []any) {
	before, lowest := orLast(q.Before), ""
	if !q.To.IsZero() {
		before = min(before, idAt(pay.DayOf(q.To).AddDate(0, 0, 1).Add(idSlack)))
	}
	if !q.From.IsZero() {
		lowest = idAt(pay.DayOf(q.From).Add(-idSlack))
	}
	var hosts [][]byte
	var payee []byte
	if q.Host != "" {
		hosts = make([][]byte, len(keyIDs))
		for i, id := range keyIDs {
			hosts[i] = []byte(withKey(id, hashed(q.Host)))
		}
	}
	if q.Payee != nil {
		payee = q.Payee.Bytes()
	}
	return `s.key_id = ANY($1) AND s.id < $2 AND s.id >= $3 AND ($4::bytea[] IS NULL OR s.host_hash = ANY($4)) AND ($5 = '' OR s.task = $5) AND ($6::bytea IS NULL OR p.pay_to = $6)`,
		[]any{keyIDs, before, lowest, hosts, text(q.Task), payee}
}

// ListSpend lists the keys' events, newest first.
func (d *DB) ListSpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (page pay.SpendPage, err error) {
	if q.Before != "" {
		if err := d.knowsEvent(ctx, keyIDs, q.Before, ""); err != nil {
			return page, err
		}
	}
	if q.Limit < 1 {
		return page, nil
	}
	where, args := spent(keyIDs, q)
	for len(page.Entries) <= q.Limit {
		n := 0
		err := d.each(ctx, func(r pgx.Rows) error {
			n++
			var row []byte
			e, err := scanEvent(r, &row)
			if err != nil {
				return err
			}
			if args[1] = e.ID; !q.Wants(&e) {
				return nil
			}
			p, err := codec.Decode(codec.Stored{Row: row})
			if err == nil {
				page.Entries = append(page.Entries, p.Entry(e))
			}
			return err
		}, `SELECT s.key_id, s.id, s.row, p.row FROM spend s JOIN payments p ON p.id = s.payment_id WHERE `+where+` ORDER BY s.id DESC LIMIT $7`, append(args, q.Limit+1)...)
		if err != nil {
			return pay.SpendPage{}, err
		}
		if n <= q.Limit {
			break
		}
	}
	if len(page.Entries) > q.Limit {
		page.Entries = page.Entries[:q.Limit]
		page.Next = page.Entries[q.Limit-1].ID
	}
	return page, nil
}

// SumSpend adds up the events that ListSpend lists, the newest ones.
func (d *DB) SumSpend(ctx context.Context, keyIDs []string, q pay.OrganizationSpendQuery) (t pay.Totals, err error) {
	q.Before = ""
	where, args := spent(keyIDs, q)
	n := 0
	err = d.each(ctx, func(r pgx.Rows) error {
		var labels int16
		e, err := scanEvent(r, &labels)
		if n++; err != nil || n > sumRows || !q.Wants(&e) {
			t.Partial = t.Partial || n > sumRows
			return err
		}
		t.Event(&e, func() bool { return uint16(labels)&codec.LabelBits("undelivered") != 0 }) //nolint:gosec // a set of bits
		return nil
	}, `SELECT s.key_id, s.id, s.row, p.labels FROM spend s JOIN payments p ON p.id = s.payment_id WHERE `+where+` ORDER BY s.id DESC LIMIT $7`, append(args, sumRows+1)...)
	return t, err
}
