package pgstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/pay"
)

// movedRows is a table whose rows are the records of a kind. sql selects the fields A, B, N, Row and More of the rows
// behind $1, $2 and $3, in order; it uses the first few of them.
type movedRows struct {
	table string
	sql   string
	args  int  // of $1 (A), $2 (B) and $3 (N), how many sql has; or
	day   bool // $1 and $2 are A and N
	last  bool // $1 is N
	bytes bool // names are bytea
}

func movedTables() map[move.Kind]movedRows {
	return map[move.Kind]movedRows{
		move.Setting:        {table: "settings", sql: `SELECT name::bytea, ''::bytea, 0::bigint, value, NULL::bytea FROM settings WHERE name COLLATE "C" > $1 ORDER BY name COLLATE "C"`, args: 1},
		move.Organization:   {table: "organizations", sql: `SELECT id, ''::bytea, 0::bigint, row, NULL::bytea FROM organizations WHERE id > $1 ORDER BY id`, args: 1},
		move.Key:            {table: "keys", sql: `SELECT id, secret_hash, revision, row, secret FROM keys WHERE id > $1 ORDER BY id`, args: 1},
		move.ReplacedSecret: {table: "replaced_secrets", sql: `SELECT secret_hash, key_id, 0::bigint, ''::bytea, NULL::bytea FROM replaced_secrets WHERE secret_hash > $1 ORDER BY secret_hash`, args: 1, bytes: true},
		move.Account:        {table: "accounts", sql: `SELECT id, ''::bytea, 0::bigint, row, NULL::bytea FROM accounts WHERE id > $1 ORDER BY id`, args: 1},
		move.Wallet:         {table: "wallets", sql: `SELECT id, ''::bytea, 0::bigint, row, secret FROM wallets WHERE id > $1 ORDER BY id`, args: 1},
		move.Loan:           {table: "loans", sql: `SELECT key_id, wallet_id, at, ''::bytea, NULL::bytea FROM loans WHERE (key_id, wallet_id) > ($1, $2) ORDER BY key_id, wallet_id`, args: 2},
		move.Payment:        {table: "payments", sql: `SELECT id, ''::bytea, 0::bigint, row, payload FROM payments WHERE id > $1 ORDER BY id`, args: 1},
		move.RemovedAttempt: {table: "removed_attempts", sql: `SELECT key_id, attempt_of, attempt, ''::bytea, NULL::bytea FROM removed_attempts WHERE (key_id, attempt_of) > ($1, $2::bytea) ORDER BY key_id, attempt_of`, args: 2},
		move.Spend:          {table: "spend", sql: `SELECT key_id, id, 0::bigint, row, NULL::bytea FROM spend WHERE (key_id, id) > ($1, $2) ORDER BY key_id, id`, args: 2},
		move.SpendDay:       {table: "spend_days", sql: `SELECT key_id, ''::bytea, day::bigint, row, NULL::bytea FROM days WHERE (key_id, day) > ($1, $2) ORDER BY key_id, day`, day: true},
		move.WalletDay:      {table: "wallet_days"},    // exportWalletDays reads them
		move.Counter:        {table: "other_counters"}, // exportCounters reads them
		move.Declined:       {table: "declined", sql: `SELECT key_id, ''::bytea, day::bigint, row, NULL::bytea FROM declined WHERE (key_id, day) > ($1, $2) ORDER BY key_id, day`, day: true},
		move.Audit:          {table: "audit", sql: `SELECT ''::bytea, ''::bytea, number, row, NULL::bytea FROM audit WHERE number > $1 ORDER BY number`, last: true},
		move.Notice:         {table: "notices", sql: `SELECT ''::bytea, ''::bytea, number, row, NULL::bytea FROM notices WHERE number > $1 ORDER BY number`, last: true},
		move.NoticeMark:     {table: "notice_marks", sql: `SELECT name, int8send(until), count, ''::bytea, NULL::bytea FROM notice_marks WHERE name > $1 ORDER BY name`, args: 1, bytes: true},
		move.Delivery:       {table: "deliveries", sql: `SELECT destination, ''::bytea, 0::bigint, row, NULL::bytea FROM deliveries WHERE destination > $1 ORDER BY destination`, args: 1},
		move.Session:        {table: "sessions", sql: `SELECT id, ''::bytea, expires, data, NULL::bytea FROM sessions WHERE id > $1 ORDER BY id`, args: 1},
		move.Approval:       {table: "approvals", sql: `SELECT id, ''::bytea, 0::bigint, row, NULL::bytea FROM approvals WHERE id > $1 ORDER BY id`, args: 1},
	}
}

// ownTables lists the tables that do not move: what nodes tell each other, and what other records have: numbers, and
// what stands in sheets.
func ownTables() []string {
	return []string{"goose_db_version", "locks", "numbers", "operations", "sheets"}
}

// position returns the arguments of a query.
func (t movedRows) position(p *move.Position) []any {
	var a, b []byte
	n := int64(-1)
	if p != nil {
		a, b, n = p.A, p.B, int64(p.N) //nolint:gosec // written from an int64
	}
	switch {
	case t.last:
		return []any{n}
	case t.day:
		return []any{string(a), n}
	case t.bytes:
		if a == nil {
			a = []byte{}
		}
		return []any{a}
	case t.table == "removed_attempts":
		return []any{string(a), append([]byte{}, b...)}
	}
	return []any{string(a), string(b)}[:t.args]
}

// Export visits the records behind a position, as of one moment.
func (s *Moving) Export(ctx context.Context, behind *move.Position, visit func(move.Record) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return unavailable(ctx, err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has read only
	for kind := range move.Kinds {
		if behind != nil && kind < behind.Kind {
			continue
		}
		t, from := movedTables()[kind], behind
		if behind != nil && kind > behind.Kind {
			from = nil
		}
		take := func(r *move.Record) error {
			if r == nil || !behind.Before(*r) {
				return nil
			}
			return visit(*r)
		}
		var err error
		switch kind { //nolint:exhaustive // the others are one statement each
		case move.Counter:
			err = exportCounters(ctx, tx, take)
		case move.WalletDay:
			err = exportWalletDays(ctx, tx, take)
		default:
			err = each(ctx, tx, func(rows pgx.Rows) error {
				r, err := scanRecord(rows, kind)
				if err != nil {
					return err
				}
				return take(r)
			}, t.sql, t.position(from)...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// exportCounters visits the counters, wherever they stand.
func exportCounters(ctx context.Context, tx pgx.Tx, visit func(*move.Record) error) error {
	return visitCounters(ctx, tx, "", "", func(v codec.CounterValue) error {
		if v.Amount.IsZero() {
			return nil
		}
		return visit(&move.Record{Kind: move.Counter, A: string(v.Counter), Row: []byte(v.Amount.String())})
	})
}

// exportWalletDays visits the sums of wallets, wherever they stand.
func exportWalletDays(ctx context.Context, tx pgx.Tx, visit func(*move.Record) error) error {
	return visitWalletDays(ctx, tx, func(walletID string, d pay.WalletDay) error {
		return visit(&move.Record{Kind: move.WalletDay, A: walletID, N: uint64(dayNumber(d.Day)), Row: codec.EncodeWalletDay(d)}) //nolint:gosec // not below zero
	}, `true`)
}

// scanRecord reads a record; nil: it is none.
func scanRecord(rows pgx.Rows, kind move.Kind) (*move.Record, error) {
	var a, b []byte
	var n int64
	r := &move.Record{Kind: kind}
	if err := rows.Scan(&a, &b, &n, &r.Row, &r.More); err != nil {
		return nil, err
	}
	r.A, r.B, r.N = string(a), string(b), uint64(n) //nolint:gosec // not below zero
	var err error
	switch kind { //nolint:exhaustive // the others are what they are
	case move.Setting:
		return knownSetting(r)
	case move.Declined:
		var list []pay.Declined
		if list, err = decode[[]pay.Declined](r.Row); err == nil {
			r.Row, err = move.DeclinedRow(list)
		}
	case move.Audit:
		r.Row, err = numbered(r.Row, func(e *pay.AuditEntry) { e.Number = r.N })
	case move.Notice:
		r.Row, err = numbered(r.Row, func(e *pay.Notice) { e.Number = r.N })
	}
	return r, err
}

// knownSetting returns a setting that moves; nil: it stays.
func knownSetting(r *move.Record) (*move.Record, error) {
	switch {
	case r.A == settingID, r.A == settingMinimum, r.A == settingMove, r.A == settingReconciled, strings.HasPrefix(r.A, settingNode):
		return nil, nil
	}
	for _, name := range move.Settings() {
		if r.A == name {
			if len(r.Row) == 0 {
				return nil, nil
			}
			return r, nil
		}
	}
	return nil, fmt.Errorf("%q is a setting that this purser does not know", r.A)
}

// numbered writes the number of a row into it, which is a column here.
func numbered[T any](row []byte, set func(*T)) ([]byte, error) {
	value, err := decode[T](row)
	if err != nil {
		return nil, err
	}
	set(&value)
	return json.Marshal(value)
}

// Import writes records and the mark in one transaction.
func (s *Moving) Import(ctx context.Context, list []move.Record, m *move.Mark) error {
	return s.within(ctx, func(tx pgx.Tx) error {
		for len(list) > 0 {
			n := 1
			for n < len(list) && list[n].Kind == list[0].Kind {
				n++
			}
			if err := importKind(ctx, tx, list[:n]); err != nil {
				return fmt.Errorf("%s: %w", list[0].Kind, err)
			}
			list = list[n:]
		}
		return putMark(ctx, tx, m)
	})
}

// importKind copies records of one kind into their table.
func importKind(ctx context.Context, tx pgx.Tx, list []move.Record) error {
	kind := list[0].Kind
	if kind == move.Payment {
		return importPayments(ctx, tx, list)
	}
	rows := make([][]any, 0, len(list))
	for _, r := range list {
		row, err := movedColumns(r)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	columns := map[move.Kind]string{
		move.Setting: "name value", move.Organization: "id row", move.Key: "id organization_id revision secret_hash secret row",
		move.ReplacedSecret: "secret_hash key_id", move.Account: "id identity row", move.Wallet: "id key_id address live secret row",
		move.Loan: "key_id wallet_id at", move.RemovedAttempt: "key_id attempt_of attempt",
		move.Spend:    "id key_id payment_id host_hash host task currency amount created corrects row",
		move.SpendDay: "key_id day row", move.WalletDay: strings.NewReplacer("(", "", ")", "", ",", "").Replace(drawnNames), move.Counter: "name amount", move.Declined: "key_id day row",
		move.Audit: "number key_id organization_id row", move.Notice: "number row", move.NoticeMark: "name count until",
		move.Delivery: "destination row", move.Approval: "id key_id expires answered purchase row", move.Session: "id expires data",
	}[kind]
	_, err := tx.CopyFrom(ctx, pgx.Identifier{movedTables()[kind].table}, strings.Fields(columns), pgx.CopyFromRows(rows))
	if err == nil && (kind == move.Audit || kind == move.Notice) {
		_, err = tx.Exec(ctx, `UPDATE numbers SET last = greatest(last, $2) WHERE name = $1`, movedTables()[kind].table, int64(list[len(list)-1].N)) //nolint:gosec // a count
	}
	return err
}

// importPayments copies payments with the columns that a node writes.
func importPayments(ctx context.Context, tx pgx.Tx, list []move.Record) error {
	c := newColumns(len(list))
	for _, r := range list {
		p, err := codec.Decode(codec.Stored{Row: r.Row, Payload: r.More})
		if err != nil {
			return fmt.Errorf("payment %s: %w", r.A, err)
		}
		c.add(p)
		i := len(c.row) - 1
		if c.row[i] = r.Row; len(r.More) > 0 {
			c.payload[i] = r.More
		}
	}
	arrays := make([]reflect.Value, 0, 24)
	for _, array := range c.args() {
		arrays = append(arrays, reflect.ValueOf(array))
	}
	names := strings.FieldsFunc(paymentNames, func(r rune) bool { return strings.ContainsRune("(), ", r) })
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"payments"}, names, pgx.CopyFromSlice(len(list), func(i int) ([]any, error) {
		row := make([]any, len(arrays))
		for k, array := range arrays {
			row[k] = array.Index(i).Interface()
		}
		return row, nil
	}))
	return err
}

// movedColumns returns the columns of a record, in the order of importKind.
func movedColumns(r move.Record) ([]any, error) {
	a, b, n := []byte(r.A), []byte(r.B), int64(r.N) //nolint:gosec // within the columns
	var sealed []byte
	if len(r.More) > 0 {
		sealed = r.More
	}
	switch r.Kind {
	case move.Setting, move.Organization, move.Delivery:
		return []any{r.A, r.Row}, nil
	case move.Key:
		k, err := decode[pay.Key](r.Row)
		return []any{r.A, k.OrganizationID, n, b, sealed, r.Row}, err
	case move.ReplacedSecret:
		return []any{a, r.B}, nil
	case move.Account:
		row, err := decode[codec.Account](r.Row)
		return []any{r.A, codec.AccountKey(row.Issuer, row.Subject), r.Row}, err
	case move.Wallet:
		w, err := decode[pay.Wallet](r.Row)
		var address []byte
		if w.Address != nil {
			address = w.Address[:]
		}
		return []any{r.A, w.KeyID, address, w.Deleted == nil, sealed, r.Row}, err
	case move.Loan:
		return []any{r.A, r.B, n}, nil
	case move.RemovedAttempt:
		return []any{r.A, b, n}, nil
	case move.Spend:
		e, err := codec.DecodeEvent(r.A, r.B, r.Row)
		var hash []byte
		if e.Host != "" {
			hash = []byte(withKey(e.KeyID, hashed(e.Host)))
		}
		return []any{e.ID, e.KeyID, e.PaymentID, hash, text(e.Host), text(e.Task), text(e.Currency), e.Amount.String(), nanoseconds(e.Created), e.Corrects, r.Row}, err
	case move.WalletDay:
		d, err := codec.DecodeWalletDay(r.Row)
		return []any{
			r.A, int32(n), "", d.Spent.Count, d.Spent.Amount.String(), d.Spent.Corrected.String(), //nolint:gosec // within the column
			d.Withdrawn.Count, d.Withdrawn.Amount.String(), d.Withdrawn.Corrected.String(),
		}, err
	case move.SpendDay, move.Declined:
		return []any{r.A, int32(n), r.Row}, nil //nolint:gosec // within the column
	case move.Counter:
		return []any{a, string(r.Row)}, nil
	case move.Audit:
		e, err := decode[pay.AuditEntry](r.Row)
		if err != nil {
			return nil, err
		}
		key, org := e.KeyID, e.OrganizationID
		e.Number = 0 // in the column
		row, err := json.Marshal(e)
		return []any{n, key, org, row}, err
	case move.Notice:
		row, err := numbered(r.Row, func(e *pay.Notice) { e.Number = 0 })
		return []any{n, row}, err
	case move.NoticeMark:
		if len(b) != 8 {
			return nil, errors.New("a mark without its end")
		}
		return []any{a, n, int64(binary.BigEndian.Uint64(b))}, nil //nolint:gosec // written from an int64
	case move.Approval:
		approval, err := decode[pay.Approval](r.Row)
		if err != nil {
			return nil, err
		}
		row, err := approvalRowOf(&approval)
		return []any{row.id, row.keyID, row.expires, row.answered, row.purchase, r.Row}, err
	case move.Session:
		return []any{r.A, n, r.Row}, nil
	case move.Payment, move.Kinds:
	}
	return nil, errors.New("a record of an unknown kind")
}

// MovedTables lists the tables that Export reads, and those that stay.
func MovedTables() []string {
	list := ownTables()
	for kind := range move.Kinds {
		list = append(list, movedTables()[kind].table)
	}
	return list
}
