package pgstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// run runs statements in the schema of a URL, and reads a number with the last one.
func run(t testing.TB, url string, statements ...string) (n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.Replace(url, "pool_max_conns=4&", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	for i, sql := range statements {
		if i == len(statements)-1 && strings.HasPrefix(sql, "SELECT") {
			err = errors.Join(err, c.QueryRow(t.Context(), sql).Scan(&n))
			break
		}
		_, execErr := c.Exec(t.Context(), sql)
		err = errors.Join(err, execErr)
	}
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return n
}

// A newer node adds to the schema: older ones go on. One that sets the minimum makes them stop new payments
// and say why; what they have begun they still bring to its end.
func TestUpgradeBesideAnOldNode(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	run(t, url, `ALTER TABLE payments ADD COLUMN later text`, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)`)
	first, second := begin(t, d, k), begin(t, d, k)
	if _, _, err := node(t, pgstore.Options{URL: url}).Record(t.Context(), settledOf(first)); err != nil {
		t.Error(err)
	}
	run(t, url, `INSERT INTO settings VALUES ('minimum', '99')`)
	_, err := d.Begin(t.Context(), callOf(k, d.Now()))
	for _, err := range []error{err, d.Health(t.Context())} {
		if !errors.Is(err, pay.ErrUnavailable) || !strings.Contains(err.Error(), "newer purser") {
			t.Errorf("an old node says %v", err)
		}
	}
	if s := d.Stats(); s.Down != pgstore.DownOld {
		t.Errorf("%+v", s)
	}
	if _, _, err := d.Record(t.Context(), settledOf(second)); err != nil {
		t.Errorf("an old node's outcome: %v", err)
	}
	if _, err := pgstore.Open(t.Context(), withKey(pgstore.Options{URL: url})); !errors.Is(err, pgstore.ErrNewer) {
		t.Errorf("an old node starts: %v", err)
	}
	paidOnce(t, d, k, first, second)
	run(t, url, `DELETE FROM settings WHERE name = 'minimum'`)
	wait(t, "payments again", func() bool { _, err := d.Begin(t.Context(), callOf(k, d.Now())); return err == nil })
}

// The spend of a month is in a partition of its own, which nodes that start together make once. It goes
// when all of it is removed.
func TestPartitions(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	opened := make(chan *pgstore.DB, 3)
	for range 3 {
		go func() {
			d, err := pgstore.Open(t.Context(), withKey(pgstore.Options{URL: url}))
			if err != nil {
				t.Error(err)
			}
			opened <- d
		}()
	}
	var d *pgstore.DB
	for range 3 {
		if d = <-opened; d == nil {
			t.FailNow()
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	const partitions = `SELECT count(*) FROM pg_inherits WHERE inhparent = 'spend'::regclass`
	if n := run(t, url, partitions); n != 3 { // this month, the next one, everything else
		t.Errorf("there are %d partitions", n)
	}
	k := keyOn(t, d)
	p := begin(t, d, k)
	if _, _, err := d.Record(t.Context(), settledOf(p)); err != nil {
		t.Fatal(err)
	}
	if n := run(t, url, `SELECT count(*) FROM spend_other`); n != 0 {
		t.Errorf("%d events are in the partition for everything else", n)
	}
	paidOnce(t, d, k, p)
	// A retention of the far future removes what is retired.
	end := d.Now().AddDate(0, 3, 0)
	row, err := d.Acquire(t.Context(), p.ID, "recovery", d.Now(), d.Now().Add(pay.LeaseTime))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Record(t.Context(), pay.Outcome{PaymentID: p.ID, Fence: row.Lease.Fence, At: d.Now(), Verdict: pay.VerdictConfirmed, Retire: true, Release: true, Answered: true}); err != nil {
		t.Fatal(err)
	}
	done, err := d.RemovePayments(t.Context(), pay.Removal{Before: end, Limit: 50})
	if err != nil || done.Count != 1 || done.Next != "" {
		t.Fatalf("%+v, %v", done, err)
	}
	if n := run(t, url, partitions); n != 1 {
		t.Errorf("there are %d partitions after everything is removed", n)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	again := begin(t, d, k) // its event goes to the partition for everything else
	if _, _, err := d.Record(t.Context(), settledOf(again)); err != nil {
		t.Error(err)
	}
	if _, err := d.Payment(t.Context(), again.ID); err != nil || time.Since(again.Created) > time.Hour {
		t.Error(err)
	}
}
