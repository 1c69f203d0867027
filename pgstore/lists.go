package pgstore

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

const (
	// idSlack bounds the difference between the time in the id of an event and its Created, and
	// paymentSlack that of a payment, about which a person may have been asked.
	idSlack, paymentSlack = time.Minute, 2 * time.Hour
)

// Bounds of one listing or sum. Tests lower them.
var (
	sumRows = 200_000
)

// idAt returns an id below every UUIDv7 of a time and above those of earlier times.
func idAt(t time.Time) string {
	ms := max(0, t.UnixMilli())
	return fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
}

func scanPayment(r pgx.Rows) (*pay.Payment, error) {
	var row, payload []byte
	if err := r.Scan(&row, &payload); err != nil {
		return nil, err
	}
	return codec.Decode(codec.Stored{Row: row, Payload: payload})
}

func (d *DB) paymentsBy(ctx context.Context, sql string, args ...any) (list []*pay.Payment, err error) {
	err = d.each(ctx, func(r pgx.Rows) error {
		p, err := scanPayment(r)
		list = append(list, p)
		return err
	}, `SELECT row, payload FROM payments WHERE `+sql, args...)
	return list, err
}

// Payment finds a payment.
func (d *DB) Payment(ctx context.Context, id string) (*pay.Payment, error) {
	list, err := d.paymentsBy(ctx, `id = $1`, id)
	if err == nil && len(list) == 0 {
		err = pay.ErrPaymentNotFound
	}
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// PaymentsByTransaction lists payments with the hash of a transaction.
func (d *DB) PaymentsByTransaction(ctx context.Context, hash string, limit int) ([]*pay.Payment, error) {
	if hash == "" {
		return nil, nil
	}
	return d.paymentsBy(ctx, `transaction = $1 ORDER BY id LIMIT $2`, []byte(transactionKey(hash)), min(limit, maxPage))
}

// last is above all ids.
const last = "\U0010FFFF"

func orLast(before string) string {
	if before == "" {
		return last
	}
	return text(before)
}

// Payments lists a key's payments, newest first.
func (d *DB) Payments(ctx context.Context, q pay.PaymentQuery) ([]*pay.Payment, error) {
	return d.PaymentsBefore(ctx, []string{q.KeyID}, q.Label, q.Before, q.Limit)
}

// PaymentsBefore lists payments of keys with a label, newest first.
func (d *DB) PaymentsBefore(ctx context.Context, keyIDs []string, label, before string, limit int) ([]*pay.Payment, error) {
	with := codec.LabelBits(label)
	if label != "" && with == 0 || limit < 1 {
		return nil, nil
	}
	return d.paymentsBy(ctx, `key_id = ANY($1) AND labels & $2 = $2 AND id < $3 ORDER BY id DESC LIMIT $4`, keyIDs, int16(with), orLast(before), limit)
}

// PaymentsOf lists the payments of the keys, newest first.
func (d *DB) PaymentsOf(ctx context.Context, keyIDs []string, label string, limit int) ([]*pay.Payment, error) {
	return d.PaymentsBefore(ctx, keyIDs, label, "", limit)
}

// AllPayments lists payments of all keys, newest first.
func (d *DB) AllPayments(ctx context.Context, q pay.LabelQuery) ([]*pay.Payment, error) {
	with := codec.LabelBits(q.Label)
	if q.Label != "" && with == 0 || q.Limit < 1 {
		return nil, nil
	}
	return d.paymentsBy(ctx, `labels = ANY($1) AND id < $2 ORDER BY id DESC LIMIT $3`, labelSets(with, codec.LabelBits(q.Without...)), orLast(q.Before), q.Limit)
}

// labelSets lists the sets of labels that have all of one mask and none of another.
func labelSets(with, without uint16) (sets []int16) {
	states := codec.LabelBits(string(pay.Open), string(pay.Settled), string(pay.Void))
	for set := range uint16(1) << len(codec.AllLabels()) {
		if set&with == with && set&without == 0 && bits.OnesCount16(set&states) == 1 {
			sets = append(sets, int16(set)) //nolint:gosec // there are fewer than 15 labels
		}
	}
	return sets
}

// Due lists payments whose Check has come, the longest due first.
func (d *DB) Due(ctx context.Context, now time.Time, limit int) ([]*pay.Payment, error) {
	return d.paymentsBy(ctx, `due <= $1 ORDER BY due, id LIMIT $2`, nanoseconds(now), min(limit, maxPage))
}

// CountOpen counts all payments with a label.
func (d *DB) CountOpen(ctx context.Context, label string) (int, error) {
	with := codec.LabelBits(label)
	if with == 0 {
		return 0, nil
	}
	return number(ctx, d.pool, `SELECT count(*) FROM payments WHERE labels = ANY($1)`, labelSets(with, 0))
}

// filtered makes the condition of a filter, and its arguments. Payments with one of some labels are left out.
func filtered(keyIDs []string, f pay.PaymentFilter, without ...string) (where string, args []any) {
	before, lowest := orLast(f.Before), ""
	if !f.To.IsZero() {
		before = min(before, idAt(pay.DayOf(f.To).AddDate(0, 0, 1).Add(paymentSlack)))
	}
	if !f.From.IsZero() {
		lowest = idAt(pay.DayOf(f.From).Add(-paymentSlack))
	}
	var payee []byte
	if f.Payee != nil {
		payee = f.Payee.Bytes()
	}
	sets := labelSets(codec.LabelBits(f.Label), codec.LabelBits(without...))
	return `($1 OR key_id = ANY($2)) AND labels = ANY($3) AND id < $4 AND id >= $5 AND ($6 = '' OR host = $6) AND ($7 = '' OR task = $7) AND ($8::bytea IS NULL OR pay_to = $8)`,
		[]any{f.All, keyIDs, sets, before, lowest, text(f.Host), text(f.Task), payee}
}

// ListPayments lists the keys' payments, newest first.
func (d *DB) ListPayments(ctx context.Context, keyIDs []string, f pay.PaymentFilter) (page pay.PaymentPage, err error) {
	if f.Limit < 1 || f.Label != "" && codec.LabelBits(f.Label) == 0 {
		return page, nil
	}
	where, args := filtered(keyIDs, f)
	for len(page.Payments) <= f.Limit {
		list, err := d.paymentsBy(ctx, where+` ORDER BY id DESC LIMIT $9`, append(args, f.Limit+1)...)
		if err != nil {
			return pay.PaymentPage{}, err
		}
		for _, p := range list {
			if args[3] = p.ID; f.Wants(p) {
				page.Payments = append(page.Payments, p)
			}
		}
		if len(list) <= f.Limit {
			break
		}
	}
	if len(page.Payments) > f.Limit {
		page.Payments = page.Payments[:f.Limit]
		page.Next = page.Payments[f.Limit-1].ID
	}
	return page, nil
}

// SumPayments adds up the keys' payments, the newest ones.
func (d *DB) SumPayments(ctx context.Context, keyIDs []string, f pay.PaymentFilter) (t pay.Totals, err error) {
	if f.Label != "" && codec.LabelBits(f.Label) == 0 {
		return t, nil
	}
	f.Before = ""
	with, without := f.Summed()
	f.Label = with
	where, args := filtered(keyIDs, f, without)
	n := 0
	err = d.each(ctx, func(r pgx.Rows) error {
		var currency, moved string
		var created int64
		var row []byte // of what may be a withdrawal, or a payment for a tool
		if err := r.Scan(&currency, &moved, &created, &row); err != nil {
			return err
		}
		at := time.Unix(0, created).UTC()
		if n++; n > sumRows {
			t.Partial = true
			return nil
		}
		if !f.From.IsZero() && pay.DayOf(at).Before(pay.DayOf(f.From)) || !f.To.IsZero() && pay.DayOf(at).After(pay.DayOf(f.To)) {
			return nil
		}
		amount, err := money.Parse(moved)
		var brief codec.Brief
		if row != nil && err == nil {
			brief, err = codec.DecodeBrief(row)
		}
		if f.Tool != "" && policy.ToolOf(brief.RequestURL) != f.Tool {
			return err
		}
		t.Row(currency, pay.IsWithdrawal(brief.Host, brief.RequestURL), pay.Sum{Count: 1, Amount: amount}, at)
		return err
	}, `SELECT currency, moved::text, created, CASE WHEN $11 OR host = $10 THEN row END FROM payments WHERE `+where+` ORDER BY id DESC LIMIT $9`, append(args, sumRows+1, pay.WithdrawalHost, f.Tool != "")...)
	return t, err
}
