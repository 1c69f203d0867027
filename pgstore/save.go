package pgstore

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// paymentColumns holds the columns of payments, as arrays.
type paymentColumns struct {
	id, key, host, task, currency, moved                                                  []string
	labels                                                                                []int16
	payTo, awaited, living, attemptOf, holdsHost, transaction, payer, nonce, row, payload array[[]byte]
	created, validBefore                                                                  []int64
	attempt, leased, due                                                                  array[*int64]
}

// array is encoded without reflection.
type array[T any] = pgtype.FlatArray[T]

// newColumns has room for n payments.
func newColumns(n int) *paymentColumns {
	c := new(paymentColumns)
	for _, list := range []*[]string{&c.id, &c.key, &c.host, &c.task, &c.currency, &c.moved} {
		*list = make([]string, 0, n)
	}
	for _, list := range []*array[[]byte]{&c.payTo, &c.awaited, &c.living, &c.attemptOf, &c.holdsHost, &c.transaction, &c.payer, &c.nonce, &c.row, &c.payload} {
		*list = make(array[[]byte], 0, n)
	}
	for _, list := range []*array[*int64]{&c.attempt, &c.leased, &c.due} {
		*list = make(array[*int64], 0, n)
	}
	c.labels, c.created, c.validBefore = make([]int16, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	return c
}

func (c *paymentColumns) add(p *pay.Payment) {
	c.id, c.key = append(c.id, p.ID), append(c.key, p.KeyID)
	c.labels = append(c.labels, int16(codec.LabelBits(p.Labels()...)))
	c.host, c.task, c.currency = append(c.host, text(p.Host)), append(c.task, text(p.Task)), append(c.currency, text(p.Currency))
	c.payTo = append(c.payTo, p.Terms.PayTo.Bytes())
	c.moved = append(c.moved, p.Moved().String())
	c.created = append(c.created, nanoseconds(p.Created))
	c.validBefore = append(c.validBefore, int64(min(p.Authorization.ValidBefore, math.MaxInt64))) //nolint:gosec // bounded
	var awaited, living, transaction, holds, attemptOf []byte
	for _, q := range searches(p) {
		switch q.kind { //nolint:exhaustive // the others are no columns
		case askAwaited:
			awaited = []byte(q.a)
		case askLiving:
			living = []byte(q.a)
		case askTransaction:
			transaction = []byte(q.a)
		}
	}
	if p.HoldsHost() {
		holds = []byte(withKey(p.KeyID, hashed(p.Host)))
	}
	var attempt, leased, due *int64
	if p.Attempt > 0 {
		n := int64(min(p.Attempt, math.MaxInt64)) //nolint:gosec // bounded
		attempt, attemptOf = &n, []byte(withKey(p.KeyID, hashed(p.IdempotencyKey)))
	}
	if p.Lease.Owner != "" {
		leased = pointer(nanoseconds(p.Lease.Until))
	}
	if !p.Check.IsZero() {
		due = pointer(nanoseconds(p.Check))
	}
	c.awaited, c.living, c.transaction = append(c.awaited, awaited), append(c.living, living), append(c.transaction, transaction)
	c.holdsHost, c.attemptOf, c.attempt = append(c.holdsHost, holds), append(c.attemptOf, attemptOf), append(c.attempt, attempt)
	c.payer, c.nonce = append(c.payer, p.Authorization.From.Bytes()), append(c.nonce, p.Authorization.Nonce[:])
	c.leased, c.due = append(c.leased, leased), append(c.due, due)
	c.row, c.payload = append(c.row, codec.EncodeRow(p)), append(c.payload, codec.EncodePayload(p))
}

func pointer(n int64) *int64 { return &n }

func (c *paymentColumns) args() []any {
	return []any{
		c.id, c.key, c.labels, c.host, c.task, c.payTo, c.currency, c.moved, c.created, c.validBefore, c.awaited, c.living,
		c.attemptOf, c.attempt, c.holdsHost, c.transaction, c.payer, c.nonce, c.leased, c.due, c.row, c.payload,
	}
}

const paymentNames = `(id, key_id, labels, host, task, pay_to, currency, moved, created, valid_before, awaited, living, attempt_of, attempt, holds_host, transaction, payer, nonce, leased, due, row, payload)`

// Amounts are sent as texts, which PostgreSQL reads faster than pgx makes them binary. Lists are unnested beside each other:
// as one function in FROM, PostgreSQL would copy each column to a store of its own.
const insertPayments = `INSERT INTO payments ` + paymentNames + `
	SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::smallint[]), unnest($4::text[]), unnest($5::text[]), unnest($6::bytea[]), unnest($7::text[]),
	unnest($8::text[])::numeric, unnest($9::bigint[]), unnest($10::bigint[]), unnest($11::bytea[]), unnest($12::bytea[]), unnest($13::bytea[]), unnest($14::bigint[]),
	unnest($15::bytea[]), unnest($16::bytea[]), unnest($17::bytea[]), unnest($18::bytea[]), unnest($19::bigint[]), unnest($20::bigint[]), unnest($21::bytea[]), unnest($22::bytea[])`

// changes holds the columns that may change.
func (c *paymentColumns) changes() []any {
	return []any{c.id, c.labels, c.task, c.moved, c.awaited, c.living, c.holdsHost, c.transaction, c.leased, c.due, c.row, c.payload}
}

const updatePayments = `UPDATE payments p SET labels = u.labels, task = u.task, moved = u.moved::numeric, awaited = u.awaited, living = u.living, holds_host = u.holds_host,
	transaction = u.transaction, leased = u.leased, due = u.due, row = u.row, payload = u.payload
	FROM (SELECT unnest($1::text[]) id, unnest($2::smallint[]) labels, unnest($3::text[]) task, unnest($4::text[]) moved, unnest($5::bytea[]) awaited,
	unnest($6::bytea[]) living, unnest($7::bytea[]) holds_host, unnest($8::bytea[]) AS transaction, unnest($9::bigint[]) leased, unnest($10::bigint[]) due,
	unnest($11::bytea[]) AS row, unnest($12::bytea[]) payload) u WHERE p.id = u.id`

// text makes a string that a text column takes: PostgreSQL refuses zero bytes and other encodings.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// flush queues the writes of a state.
func (s *state) flush(b *pgx.Batch) error {
	created := 0
	for _, id := range s.order {
		if s.wrote[id] {
			created++
		}
	}
	fresh, changed := newColumns(created), newColumns(len(s.order)-created)
	for _, id := range s.order {
		if s.wrote[id] {
			fresh.add(s.payments[id])
		} else {
			changed.add(s.payments[id])
		}
	}
	if len(fresh.id) > 0 {
		b.Queue(insertPayments, fresh.args()...)
	}
	if len(changed.id) > 0 {
		b.Queue(updatePayments, changed.changes()...)
	}
	s.flushEvents(b)
	s.flushSheets(b) // may set days apart
	s.flushDays(b)
	s.flushDrawn(b)
	if s.wroteSettings {
		b.Queue(`INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, settingRestored, s.settings[settingRestored])
	}
	s.flushMarks(b)
	if err := s.flushApprovals(b); err != nil {
		return err
	}
	if err := queueAudit(b, s.audit); err != nil {
		return err
	}
	return queueNotices(b, s.notices)
}

func (s *state) flushEvents(b *pgx.Batch) {
	if len(s.events) == 0 {
		return
	}
	n := len(s.events)
	var id, key, payment, host, task, currency, amount, corrects []string
	row, hash, created := make(array[[]byte], n), make(array[[]byte], n), make([]int64, n)
	for i, e := range s.events {
		id, key, payment, corrects = append(id, e.ID), append(key, e.KeyID), append(payment, e.PaymentID), append(corrects, e.Corrects)
		host, task, currency = append(host, text(e.Host)), append(task, text(e.Task)), append(currency, text(e.Currency))
		amount, created[i], row[i] = append(amount, e.Amount.String()), nanoseconds(e.Created), codec.EncodeEvent(e)
		if e.Host != "" {
			hash[i] = []byte(withKey(e.KeyID, hashed(e.Host)))
		}
	}
	b.Queue(`INSERT INTO spend (id, key_id, payment_id, host_hash, host, task, currency, amount, created, corrects, row)
		SELECT unnest($1::text[]), unnest($2::text[]), unnest($3::text[]), unnest($4::bytea[]), unnest($5::text[]), unnest($6::text[]), unnest($7::text[]),
		unnest($8::text[])::numeric, unnest($9::bigint[]), unnest($10::text[]), unnest($11::bytea[])`,
		id, key, payment, hash, host, task, currency, amount, created, corrects, row)
}

func (s *state) flushMarks(b *pgx.Batch) {
	if len(s.setMarks) == 0 {
		return
	}
	var names [][]byte
	var counts, untils []int64
	for name := range s.setMarks {
		m := s.marks[name]
		names, counts, untils = append(names, []byte(name)), append(counts, int64(m.Count)), append(untils, nanoseconds(m.Until)) //nolint:gosec // small
	}
	queueMarks(b, names, counts, untils)
}

func queueMarks(b *pgx.Batch, names [][]byte, counts, untils []int64) {
	b.Queue(`INSERT INTO notice_marks (name, count, until) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[])
		ON CONFLICT (name) DO UPDATE SET count = excluded.count, until = excluded.until`, names, counts, untils)
}

func (s *state) flushApprovals(b *pgx.Batch) error {
	if len(s.dropped) > 0 {
		b.Queue(`DELETE FROM approvals WHERE id = ANY($1)`, s.dropped)
	}
	for id, fresh := range s.asked {
		r, err := approvalRowOf(s.approvals[id])
		if err != nil {
			return err
		}
		if fresh {
			b.Queue(`INSERT INTO approvals (id, key_id, expires, answered, purchase, row) VALUES ($1, $2, $3, $4, $5, $6)`, r.id, r.keyID, r.expires, r.answered, r.purchase, r.row)
		} else {
			b.Queue(updateApproval, r.id, r.answered, r.purchase, r.row)
		}
	}
	return nil
}

// queueAudit numbers and writes audit entries.
func queueAudit(b *pgx.Batch, list []*pay.AuditEntry) error {
	var keys, orgs []string
	var rows [][]byte
	for _, e := range list {
		row, err := json.Marshal(e)
		if err != nil {
			return err
		}
		keys, orgs, rows = append(keys, e.KeyID), append(orgs, e.OrganizationID), append(rows, row)
	}
	if len(rows) > 0 {
		b.Queue(`WITH n AS (UPDATE numbers SET last = last + $1 WHERE name = 'audit' RETURNING last - $1 AS before)
			INSERT INTO audit (number, key_id, organization_id, row) SELECT n.before + u.i, u.k, u.o, u.r::json
			FROM n, unnest($2::text[], $3::text[], $4::text[]) WITH ORDINALITY u (k, o, r, i)`, len(rows), keys, orgs, texts(rows))
	}
	return nil
}

// queueNotices numbers and writes notices, and drops those that are too old.
func queueNotices(b *pgx.Batch, list []pay.Notice) error {
	var rows [][]byte
	for _, n := range list {
		row, err := json.Marshal(n)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		b.Queue(`WITH n AS (UPDATE numbers SET last = last + $1 WHERE name = 'notices' RETURNING last - $1 AS before)
			INSERT INTO notices (number, row) SELECT n.before + u.i, u.r::json FROM n, unnest($2::text[]) WITH ORDINALITY u (r, i)`, len(rows), texts(rows))
		b.Queue(`DELETE FROM notices WHERE number <= (SELECT last FROM numbers WHERE name = 'notices') - $1`, pay.NoticesKept)
	}
	return nil
}

func texts(rows [][]byte) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = string(r)
	}
	return list
}

func markOf(count, until int64) pay.NoticeMark {
	return pay.NoticeMark{Count: uint64(count), Until: time.Unix(0, until).UTC()} //nolint:gosec // written from an uint64
}
