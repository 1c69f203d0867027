package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// held runs a statement in a transaction that stays open until release is called.
func held(t *testing.T, url, sql string) (release func()) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.Replace(url, "pool_max_conns=4&", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"BEGIN", sql} {
		if _, err := c.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	done := false
	release = func() {
		if !done {
			done = true
			_, _ = c.Exec(context.Background(), "ROLLBACK")
			_ = c.Close(context.Background())
		}
	}
	t.Cleanup(release)
	return release
}

// blocked waits until n backends wait for locks.
func blocked(t *testing.T, url string, n int) {
	t.Helper()
	wait(t, fmt.Sprintf("%d wait for locks", n), func() bool {
		return run(t, url, `SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted`) >= n
	})
}

// A repeat revives a doubted payment on one node, and takes its monthly place of the organization again. A key
// of the same organization takes one on another node at the same time. Both places count.
func TestRevivalTakesItsLocks(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	a, b := node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})
	k1, k2 := keyOn(t, a), keyOn(t, a)
	most := money.New(1 << 60)
	shared := pay.Limit{Reservation: pay.Reservation{Counter: pay.PlaceCounter("org/acme", a.Now()), Amount: money.New(1), Release: pay.ReleasePlace}, Max: &most}
	first := callOf(k1, a.Now())
	first.Place = shared
	begun, err := a.Begin(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	p := begun.Payment
	if _, _, err := a.Record(t.Context(), pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: a.Now(), Verdict: pay.VerdictRefused, Stage: pay.StageVerify, Release: true}); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Counter(t.Context(), shared.Counter); err != nil || !n.IsZero() {
		t.Fatalf("the refused payment holds %s places, %v", n, err)
	}
	release := held(t, url, `LOCK TABLE operations IN SHARE MODE`)
	answers := make(chan error, 2)
	go func() { // as the payer asks when a fresh challenge cannot be paid: the place only bounds the revival
		again := &pay.Begin{Now: a.Now(), Owner: "a", CallIdentity: first.CallIdentity, Judgement: pay.Judgement{Revival: shared}}
		got, err := a.Begin(context.Background(), again)
		if err == nil && got.How != pay.Driven {
			err = fmt.Errorf("the repeat got %d", got.How)
		}
		answers <- err
	}()
	blocked(t, url, 1)
	go func() {
		other := callOf(k2, b.Now())
		other.Place = shared
		_, err := b.Begin(context.Background(), other)
		answers <- err
	}()
	blocked(t, url, 2)
	release()
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if n, err := a.Counter(t.Context(), shared.Counter); err != nil || n != money.New(2) {
		t.Errorf("two payments hold %s places, %v", n, err)
	}
	if err := a.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// One call that the database refuses does not take the outcomes down that wait with it.
func TestRefusedCallTakesNoOutcomeDown(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	p := begin(t, d, k)
	release := held(t, url, fmt.Sprintf(`SELECT FROM locks WHERE name = 'key/%s' FOR UPDATE`, k.ID))
	first := make(chan error, 1)
	go func() { _, err := d.Begin(context.Background(), callOf(k, d.Now())); first <- err }()
	blocked(t, url, 1)
	recorded, poison := make(chan error, 1), make(chan error, 1)
	go func() {
		b := callOf(k, d.Now())
		b.New.ID += "\x00"
		_, err := d.Begin(context.Background(), b)
		poison <- err
	}()
	go func() { _, _, err := d.Record(context.Background(), settledOf(p)); recorded <- err }()
	wait(t, "both are queued", func() bool { return d.Queued() == 2 })
	release()
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-poison; err == nil {
		t.Error("a text that the database refuses was written")
	}
	if err := <-recorded; err != nil && !errors.Is(err, pay.ErrQueued) {
		t.Errorf("the outcome of a payment that was made: %v", err)
	}
	wait(t, "settled", func() bool { is, err := d.Payment(t.Context(), p.ID); return err == nil && is.State == pay.Settled })
}

// Payments of two keys, on two nodes, claim one transaction at the same time. One of them gets it.
func TestTransactionIsClaimedOnce(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	a, b := node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})
	k1, k2 := keyOn(t, a), keyOn(t, a)
	p1, p2 := begin(t, a, k1), begin(t, b, k2)
	hash := fmt.Sprintf("0x%x", pay.HashOf("one transaction"))
	release := held(t, url, `LOCK TABLE operations IN SHARE MODE`)
	answers := make(chan error, 2)
	record := func(d *pgstore.DB, p *pay.Payment) {
		o := settledOf(p)
		o.Transaction = hash
		_, _, err := d.Record(context.Background(), o)
		answers <- err
	}
	go record(a, p1)
	blocked(t, url, 1)
	go record(b, p2)
	blocked(t, url, 2)
	release()
	refused := 0
	for range 2 {
		switch err := <-answers; {
		case errors.Is(err, pay.ErrTransactionKnown):
			refused++
		case err != nil:
			t.Error(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d of two payments were refused one transaction", refused)
	}
}

// A database that is set to answer before a commit is on the disk does not get purser's commits so.
func TestCommitsAreDurable(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	run(t, url, `ALTER DATABASE postgres SET synchronous_commit = off`, `ALTER ROLE ALL SET synchronous_commit = off`)
	d := node(t, pgstore.Options{URL: url})
	if is := d.SynchronousCommit(t.Context()); strings.Contains(is, "off") {
		t.Errorf("synchronous_commit of the connections: %s", is)
	}
}

// A caller hears of its payment when that is in the log on the disk, although its locks end earlier.
func TestCommitsAreFlushed(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "wal_writer_delay=10s")
	url := fresh(t, server)
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	for range 50 {
		before := lsn(t, server, "pg_current_wal_insert_lsn()")
		if _, err := d.Begin(t.Context(), callOf(k, d.Now())); err != nil {
			t.Fatal(err)
		}
		if flushed := lsn(t, server, "pg_current_wal_flush_lsn()"); flushed <= before {
			t.Fatalf("the log is flushed to %d; before the payment it had %d bytes", flushed, before)
		}
	}
}

func lsn(t *testing.T, server *pgtest.Server, of string) (n int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = c.QueryRow(t.Context(), `SELECT (`+of+` - '0/0')::bigint`).Scan(&n)
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return n
}

// A batch whose flush is refused was committed all the same: it must not be repeated, nor fail. The next ones flush with
// their commits.
func TestFlushRefused(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	var log bytes.Buffer
	d := node(t, pgstore.Options{URL: fresh(t, server), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	d.FlushBy(`SELECT 1/0`)
	k := keyOn(t, d)
	begun, err := d.Begin(t.Context(), callOf(k, d.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Record(t.Context(), settledOf(begun.Payment)); err != nil {
		t.Fatal(err)
	}
	p, err := d.Payment(t.Context(), begun.Payment.ID)
	if err != nil || p.State != pay.Settled {
		t.Fatalf("payment is %v, %v", p, err)
	}
	if n := d.Stats().Repeats; n != 0 || begun.How != pay.Created {
		t.Errorf("%d batches were repeated, the payment was begun as %v", n, begun.How)
	}
	if d.FlushesBehind() {
		t.Error("batches still flush behind their commits")
	}
	if n := strings.Count(log.String(), "refuses to flush"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, &log)
	}
}

// rowsOf counts the rows of a call's payment.
func rowsOf(call *pay.Begin) string {
	return `SELECT count(*) FROM payments WHERE id = '` + call.New.ID + `'`
}

// unheard begins a payment that others see before its caller hears of it. The channel tells what the caller hears.
func unheard(t *testing.T, d *pgstore.DB, url string, call *pay.Begin) <-chan error {
	t.Helper()
	began := make(chan error, 1)
	go func() {
		begun, err := d.Begin(context.Background(), call)
		if err == nil && (begun.How != pay.Created || begun.Payment.ID != call.New.ID) {
			err = fmt.Errorf("the call got %+v", begun)
		}
		began <- err
	}()
	wait(t, "the payment is seen", func() bool { return run(t, url, rowsOf(call)) == 1 })
	select {
	case err := <-began:
		t.Fatalf("the caller heard before the flush: %v", err)
	default:
	}
	return began
}

// The database dies between a commit that others see and its flush. The row is lost with it, and the call is decided
// again: its caller has not heard before, and hears of one payment.
func TestCrashBeforeFlush(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "wal_writer_delay=10s")
	url := fresh(t, server)
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	begin(t, d, k)
	run(t, url, `CREATE TABLE stuck AS SELECT pg_postmaster_start_time() AS started`)
	d.FlushBy(`SELECT (SELECT pg_sleep(600) FROM stuck WHERE started = pg_postmaster_start_time()), pg_logical_emit_message(true, 'purser', '')`)
	call := callOf(k, d.Now())
	began := unheard(t, d, url, call)
	repeats := d.Stats().Repeats
	server.Restart(t)
	switch err := <-began; {
	case err == nil && d.Stats().Repeats == repeats:
		t.Error("the row outlived the crash: this test tests nothing")
	case errors.Is(err, pay.ErrUnavailable): // the database was away for longer than the node looks for its batch
		wait(t, "payments again", func() bool { _, err := d.Begin(t.Context(), call); return err == nil })
	case err != nil:
		t.Fatal(err)
	}
	if n := run(t, url, rowsOf(call)); n != 1 {
		t.Errorf("%d rows of one payment", n)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A new connection of the committer waits for no standby: its batches commit, and only their callers wait.
func TestConnectsWithoutStandby(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	server.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = 'gone'`)
	server.Exec(t, `SELECT pg_reload_conf()`)
	wait(t, "the setting", func() bool {
		return run(t, url, `SELECT count(*) FROM pg_settings WHERE name = 'synchronous_standby_names' AND setting = 'gone'`) == 1
	})
	server.EndConnections(t)
	began := unheard(t, d, url, callOf(k, d.Now()))
	server.Exec(t, `ALTER SYSTEM RESET synchronous_standby_names`)
	server.Exec(t, `SELECT pg_reload_conf()`)
	if err := <-began; err != nil {
		t.Error(err)
	}
}

// Questions of any kinds are asked together.
func TestAllQuestionsAtOnce(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	d := node(t, pgstore.Options{URL: url})
	run(t, url, `PREPARE every AS `+d.AskEverything())
}
