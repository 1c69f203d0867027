package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/purserpay/purser/pay"
)

// maxPage bounds the rows of a listing.
const maxPage = 1000

// configuration names the lock of everything that is not a payment: keys, organizations, wallets,
// accounts. It changes rarely, so that one lock does.
const configuration = "configuration"

// tx is one transaction of something that is written rarely.
type tx struct {
	pgx.Tx
	ctx     context.Context
	d       *DB
	entries []*pay.AuditEntry
	notes   []pay.Notice
	// lossy: see batch.lossy.
	lossy bool
}

func (t *tx) exec(sql string, args ...any) error {
	if _, err := t.Exec(t.ctx, sql, args...); err != nil {
		return &databaseError{err}
	}
	return nil
}

// Enter keeps an audit entry for the end of the transaction, which numbers it.
func (t *tx) Enter(e *pay.AuditEntry) error {
	t.entries = append(t.entries, e)
	return nil
}

// Now tells the time of audit entries.
func (t *tx) Now() time.Time { return t.d.clock() }

// Room is nil: a database without room refuses to write.
func (t *tx) Room() error { return nil }

// change runs a transaction under locks. Errors of the database become pay.ErrUnavailable; others are
// returned as they are.
func (d *DB) change(ctx context.Context, locks []string, run func(t *tx) error) error {
	return d.changeWithin(ctx, answerTime, locks, run)
}

// changeWithin is change with a bound of the caller's.
func (d *DB) changeWithin(ctx context.Context, limit time.Duration, locks []string, run func(t *tx) error) error {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	slices.Sort(locks)
	locks = slices.Compact(locks)
	for try := 1; ; try++ {
		err := d.changeOnce(ctx, locks, false, run)
		if class := downClass(err); class == DownLost || class == DownReplaced {
			d.fail(ctx, class, err)
			return err
		}
		var refused *pgconn.PgError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused):
			if (refused.Code == "40001" || refused.Code == "40P01") && try < maxTries {
				continue
			}
			return unavailable(caller, err)
		case ctx.Err() != nil:
			return unavailable(caller, ctx.Err())
		}
		var lost *databaseError
		if errors.As(err, &lost) {
			return unavailable(caller, err)
		}
		return err
	}
}

// databaseError wraps what the connection says, to tell it from refusals of the store.
type databaseError struct{ error }

func (e *databaseError) Unwrap() error { return e.error }

func (d *DB) changeOnce(ctx context.Context, locks []string, lossy bool, run func(t *tx) error) error {
	own, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return &databaseError{err}
	}
	defer own.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // after a commit it does nothing
	t := &tx{Tx: own, ctx: ctx, d: d, lossy: lossy}
	if err := t.begin(locks); err != nil {
		return err
	}
	if err := run(t); err != nil {
		return err
	}
	var trip pgx.Batch
	if err := errors.Join(queueAudit(&trip, t.entries), queueNotices(&trip, t.notes)); err != nil {
		return err
	}
	mark := toldBatch{id: uuid.Must(uuid.NewV7()), order: d.answered.next()}
	trip.Queue(`INSERT INTO operations (id) VALUES ($1)`, pgtype.UUID{Bytes: mark.id, Valid: true})
	answers := own.SendBatch(ctx, &trip)
	if err := errors.Join(execAll(answers, trip.Len()), answers.Close()); err != nil {
		return &databaseError{err}
	}
	if err := own.Commit(ctx); err != nil {
		return &databaseError{err}
	}
	mark.at = d.clock()
	d.answers(ctx, changeSlot, mark)
	return nil
}

// begin takes the locks, and looks whether it is the same database.
func (t *tx) begin(locks []string) error {
	list := t.d.answered.list(t.d.clock())
	var trip pgx.Batch
	trip.Queue(insertLocks, bytesFrom(locks))
	trip.Queue(takeLocks, bytesFrom(locks))
	trip.Queue(`SELECT q.id, q.n FROM `+storeNow+` q`, idsOf(list))
	answers := t.SendBatch(t.ctx, &trip)
	var id []byte
	var found int
	err := execAll(answers, 2)
	if err == nil {
		err = answers.QueryRow().Scan(&id, &found)
	}
	switch err := errors.Join(err, answers.Close()); {
	case tablesGone(err):
		return &downError{DownReplaced}
	case err != nil:
		return &databaseError{err}
	case t.lossy || t.d.id == "": // that of a store that is moved, or told of its restore
		return nil
	}
	return t.d.recognizes(id, found, len(list))
}

// querier is the pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// one reads a JSON row, or fails with missing.
func one[T any](ctx context.Context, q querier, missing error, sql string, args ...any) (value T, err error) {
	err = get(ctx, q, missing, sql, args, func(r pgx.Rows) error {
		var row []byte
		if err := r.Scan(&row); err != nil {
			return err
		}
		value, err = decode[T](row)
		return err
	})
	return value, err
}

// get reads one row, or fails with missing.
func get(ctx context.Context, q querier, missing error, sql string, args []any, scan func(r pgx.Rows) error) error {
	found := false
	err := each(ctx, q, func(r pgx.Rows) error {
		found = true
		return scan(r)
	}, sql, args...)
	if err == nil && !found {
		err = missing
	}
	return err
}

func decode[T any](row []byte) (value T, err error) {
	if err := json.Unmarshal(row, &value); err != nil {
		return value, fmt.Errorf("decode row: %w", err)
	}
	return value, nil
}

// many reads JSON rows.
func many[T any](ctx context.Context, q querier, sql string, args ...any) (list []T, err error) {
	err = each(ctx, q, func(r pgx.Rows) error {
		var row []byte
		if err := r.Scan(&row); err != nil {
			return err
		}
		value, err := decode[T](row)
		list = append(list, value)
		return err
	}, sql, args...)
	return list, err
}

// exists reports whether a query finds a row.
func exists(ctx context.Context, q querier, sql string, args ...any) (is bool, err error) {
	err = get(ctx, q, nil, `SELECT EXISTS (`+sql+`)`, args, func(r pgx.Rows) error { return r.Scan(&is) })
	return is, err
}

// number reads one number.
func number(ctx context.Context, q querier, sql string, args ...any) (n int, err error) {
	err = get(ctx, q, nil, sql, args, func(r pgx.Rows) error { return r.Scan(&n) })
	return n, err
}

// maxReads bounds the tries of a reading whose connection turns out to be lost.
const maxReads = 5

// each reads rows. A connection that was lost before the first row is replaced by another one. The first
// row comes within answerTime, unless the caller has a transaction of its own for reading everything.
func each(ctx context.Context, q querier, scan func(r pgx.Rows) error, sql string, args ...any) (err error) {
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(answerTime, cancel)
	defer late.Stop()
	if _, everything := q.(*pgxpool.Tx); everything { // a check, or a move, which may sort for minutes
		late.Stop()
	}
	args = searchable(args)
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return tooLate(caller)
		}
		began, scanned := false, error(nil)
		err = func() error {
			rows, err := q.Query(ctx, sql, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if !began {
					late.Stop()
				}
				began = true
				if scanned = scan(rows); scanned != nil {
					return nil
				}
			}
			return rows.Err()
		}()
		if scanned != nil || err == nil {
			return scanned
		}
		_, pool := q.(*pgxpool.Pool)
		switch lost := connectionLost(err); {
		case ctx.Err() != nil:
			return tooLate(caller)
		case pool && !began && lost && try < maxReads:
		case lost:
			return unavailable(caller, &lostConnection{err})
		default:
			return unavailable(caller, err)
		}
	}
}

// searchable returns what is searched for as text that the database takes. No text of a row has a zero or
// bytes beyond UTF-8, so what callers send with them in the place of an id is found nowhere.
func searchable(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = text(arg)
		case []string:
			list := make([]string, len(arg))
			for j, given := range arg {
				list[j] = text(given)
			}
			args[i] = list
		}
	}
	return args
}

// tooLate tells why a reading has ended: its caller left, or the database did not answer.
func tooLate(caller context.Context) error { return unavailable(caller, context.DeadlineExceeded) }

// connectionLost reports whether an error says so, or that the server ends the connection.
func connectionLost(err error) bool {
	var refused *pgconn.PgError
	return !errors.As(err, &refused) || strings.HasPrefix(refused.Code, "57P0") || strings.HasPrefix(refused.Code, "08")
}

func (d *DB) each(ctx context.Context, scan func(r pgx.Rows) error, sql string, args ...any) error {
	return each(ctx, d.pool, scan, sql, args...)
}

// put replaces a JSON value of the settings.
func (t *tx) put(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return t.putText(name, text)
}

// putText replaces a value of the settings.
func (t *tx) putText(name string, text []byte) error {
	return t.exec(`INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, text)
}

// settingOf reads a JSON value of the settings; nil: there is none.
func settingOf[T any](ctx context.Context, q querier, name string) (*T, error) {
	text, err := setting(ctx, q, name)
	if err != nil {
		return nil, err
	}
	return decodeSetting[T](name, text)
}

// setting reads a value of the settings; nil: there is none.
func setting(ctx context.Context, q querier, name string) (value []byte, err error) {
	err = get(ctx, q, nil, `SELECT value FROM settings WHERE name = $1`, []any{name}, func(r pgx.Rows) error { return r.Scan(&value) })
	return value, err
}
