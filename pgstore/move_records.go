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

// movedTable is a table that has the records of a kind, with the columns that movedColumns returns.
type movedTable struct{ name, columns string }

func movedTables() map[move.Kind]movedTable {
	return map[move.Kind]movedTable{
		move.Setting:        {"settings", "name value"},
		move.Organization:   {"organizations", "id row"},
		move.Key:            {"keys", "id organization_id revision secret_hash secret row"},
		move.ReplacedSecret: {"replaced_secrets", "secret_hash key_id"},
		move.Account:        {"accounts", "id identity row"},
		move.Wallet:         {"wallets", "id key_id address live secret row"},
		move.Loan:           {"loans", "key_id wallet_id at"},
		move.Payment:        {"payments", names(paymentNames)},
		move.RemovedAttempt: {"removed_attempts", "key_id attempt_of attempt"},
		move.Spend:          {"spend", "id key_id payment_id host_hash host task currency amount created corrects row"},
		move.SpendDay:       {"spend_days", "key_id day row"},
		move.WalletDay:      {"wallet_days", names(drawnNames)},
		move.Counter:        {"other_counters", "name amount"},
		move.Declined:       {"declined", "key_id day row"},
		move.Audit:          {"audit", "number key_id organization_id row"},
		move.Notice:         {"notices", "number row"},
		move.NoticeMark:     {"notice_marks", "name count until"},
		move.Delivery:       {"deliveries", "destination row"},
		move.Approval:       {"approvals", "id key_id expires answered purchase row"},
		move.Session:        {"sessions", "id expires data"},
	}
}

// names returns the names in a list of SQL, with spaces between.
func names(list string) string { return strings.NewReplacer("(", "", ")", "", ",", "").Replace(list) }

// ownTables lists the tables that do not move: what nodes tell each other, and what other records have: numbers, and
// what stands in sheets.
func ownTables() []string {
	return []string{"goose_db_version", "locks", "numbers", "operations", "sheets"}
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

// importKind copies records of one kind into their table.
func importKind(ctx context.Context, tx pgx.Tx, list []move.Record) error {
	kind := list[0].Kind
	t := movedTables()[kind]
	if kind == move.Payment {
		return importPayments(ctx, tx, t, list)
	}
	rows := make([][]any, 0, len(list))
	for _, r := range list {
		row, err := movedColumns(r)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, strings.Fields(t.columns), pgx.CopyFromRows(rows))
	if err == nil && (kind == move.Audit || kind == move.Notice) {
		_, err = tx.Exec(ctx, `UPDATE numbers SET last = greatest(last, $2) WHERE name = $1`, t.name, int64(list[len(list)-1].N)) //nolint:gosec // a count
	}
	return err
}

// importPayments copies payments with the columns that a node writes.
func importPayments(ctx context.Context, tx pgx.Tx, t movedTable, list []move.Record) error {
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
	_, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, strings.Fields(t.columns), pgx.CopyFromSlice(len(list), func(i int) ([]any, error) {
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
			address = w.Address.Bytes()
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

// MovedTables lists the tables that Import writes, and those that stay.
func MovedTables() []string {
	list := ownTables()
	for kind := range move.Kinds {
		list = append(list, movedTables()[kind].name)
	}
	return list
}
