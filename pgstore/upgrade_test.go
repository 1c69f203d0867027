package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
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
	run(t, url, `UPDATE settings SET value = '99' WHERE name = 'minimum'`)
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
	run(t, url, `UPDATE settings SET value = '3' WHERE name = 'minimum'`)
	wait(t, "payments again", func() bool { _, err := d.Begin(t.Context(), callOf(k, d.Now())); return err == nil })
}

// A database of schema 1 has each counter in a row of its own. What was reserved there counts on, and is given back.
func TestUpgradeKeepsCounters(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	first, second := begin(t, d, k), begin(t, d, k)
	list, err := d.Counters(t.Context())
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	statements := []string{
		`DROP VIEW days`, `DROP TABLE sheets`, `ALTER TABLE other_counters RENAME TO counters`,
		`DELETE FROM settings WHERE name = 'minimum'`, `DELETE FROM goose_db_version WHERE version_id >= 2`,
	}
	for _, v := range list {
		statements = append(statements, fmt.Sprintf(`INSERT INTO counters VALUES ('%s', %s)`, v.Counter, v.Amount))
	}
	run(t, url, statements...)
	d = node(t, pgstore.Options{URL: url})
	n, _ := pay.PendingCounters(k.ID)
	if open, err := d.Counter(t.Context(), n); err != nil || open != money.New(2) {
		t.Errorf("%s payments are open, %v", open, err)
	}
	if _, _, err := d.Record(t.Context(), settledOf(first)); err != nil {
		t.Fatal(err)
	}
	third := begin(t, d, k)
	for _, p := range []*pay.Payment{second, third} {
		if _, _, err := d.Record(t.Context(), settledOf(p)); err != nil {
			t.Fatal(err)
		}
	}
	paidOnce(t, d, k, first, second, third)
	if open, err := d.Counter(t.Context(), n); err != nil || !open.IsZero() {
		t.Errorf("%s payments are open, %v", open, err)
	}
	if n := run(t, url, `SELECT count(*) FROM other_counters`); n != 0 {
		t.Errorf("%d counters of a busy key stand apart", n)
	}
}

// A row of counters has room for a few. The others stand apart, and count all the same.
func TestCountersApart(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	most := money.New(3)
	counter := func(i int) pay.Counter {
		return pay.Counter(fmt.Sprintf("task-day/%s/task %d/USDC/2026-11-15", k.ID, i))
	}
	pays := func(i int) error {
		b := callOf(k, d.Now())
		b.Limits = append(b.Limits, pay.Limit{
			Reservation: pay.Reservation{Counter: counter(i), Amount: money.New(1), Release: pay.ReleaseBudget}, Max: &most, Refusal: errRefused,
		})
		_, err := d.Begin(t.Context(), b)
		return err
	}
	const tasks = 40
	for range 3 {
		for i := range tasks {
			if err := pays(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range tasks {
		if err := pays(i); !errors.Is(err, errRefused) {
			t.Errorf("task %d has spent more than its budget: %v", i, err)
		}
	}
	seen := 0
	err := d.VisitCounters(t.Context(), pay.Counter("task-day/"+k.ID+"/"), func(_ pay.Counter, amount money.Amount) bool {
		if seen++; amount != most {
			t.Errorf("a task has spent %s", amount)
		}
		return true
	})
	if err != nil || seen != tasks {
		t.Errorf("%d tasks have spent, %v", seen, err)
	}
	if n := run(t, url, `SELECT count(*) FROM other_counters`); n < tasks/2 {
		t.Errorf("only %d counters stand apart", n)
	}
	if n := run(t, url, `SELECT max(length(counters)) FROM sheets`); n > 1000 {
		t.Errorf("a row has %d bytes", n)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

var errRefused = errors.New("refused")

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
	const samples = `SELECT count(*) FROM pg_attribute WHERE attnum > 0 AND attstattarget IS DISTINCT FROM 25
		AND attrelid IN (SELECT 'payments'::regclass UNION SELECT relid FROM pg_partition_tree('spend'))`
	if n := run(t, url, samples); n != 0 {
		t.Errorf("ANALYZE reads many rows for %d columns", n)
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
	// The next try to make the partition takes that event along.
	if n := run(t, url, `SELECT count(*) FROM spend_other`); n != 1 {
		t.Errorf("%d events are in the partition for everything else", n)
	}
	paidOnce(t, node(t, pgstore.Options{URL: url}), k, again)
	if other, all := run(t, url, `SELECT count(*) FROM spend_other`), run(t, url, partitions); other != 0 || all != 3 {
		t.Errorf("%d events are in the partition for everything else, and there are %d partitions", other, all)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
