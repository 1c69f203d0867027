package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// reconciles waits until a node has begun to reconcile and writes again.
func reconciles(t *testing.T, d *pgstore.DB) (r *pay.Restore) {
	t.Helper()
	wait(t, "reconciling", func() bool {
		var err error
		r, err = d.Restored(t.Context())
		return err == nil && r != nil && d.Stats().Down == ""
	})
	return r
}

// refusesNew demands that a node makes no new payment until the chain has told what was lost.
func refusesNew(t *testing.T, d *pgstore.DB, k pay.Key) {
	t.Helper()
	begun, err := d.Begin(t.Context(), callOf(k, d.Now()))
	refused, is := errors.AsType[*pay.ReconcilingError](err)
	if !is || !refused.Lost || !errors.Is(err, pay.ErrUnavailable) || !strings.Contains(err.Error(), "the database has lost") {
		t.Errorf("a new payment: %+v, %v", begun, err)
	}
}

// schemaOf names the schema of a URL, as SQL takes it.
func schemaOf(url string) string { return `"` + url[strings.LastIndex(url, "=")+1:] + `"` }

// An asynchronous standby takes over without the newest commits. The node that had made them stops all nodes until the
// chain has told. What it was paying at that moment ends in the books, with all that it knows of the payment.
func TestAsynchronousFailover(t *testing.T) {
	t.Parallel()
	first := pgtest.Start(t)
	url := fresh(t, first)
	second := first.AsyncStandby(t)
	url = strings.Replace(url, first.URL, first.With(second), 1)
	one, two := node(t, pgstore.Options{URL: url, Dir: t.TempDir()}), node(t, pgstore.Options{URL: url})
	k := keyOn(t, one)
	kept := begin(t, one, k)
	if _, _, err := one.Record(t.Context(), settledOf(kept)); err != nil {
		t.Fatal(err)
	}
	known := time.Now()
	first.Behind(t, second)

	lost, underWay, signed := begin(t, one, k), begin(t, one, k), begin(t, one, k)
	if _, _, err := one.Record(t.Context(), settledOf(lost)); err != nil {
		t.Fatal(err)
	}
	second.TakesOver(t, first)
	wait(t, "the node that has lost nothing itself", func() bool {
		begun, err := two.Begin(t.Context(), callOf(k, two.Now()))
		if err == nil {
			t.Fatalf("it pays %s, although the database lacks what another node has paid", begun.Payment.ID)
		}
		return pay.Code(err) == pay.CodeReconciling
	})
	if _, _, err := one.Record(context.WithoutCancel(t.Context()), settledOf(underWay)); err != nil && !errors.Is(err, pay.ErrQueued) {
		t.Fatal(err)
	}
	r := reconciles(t, one)
	if !r.Lost || r.Taken.After(known.Add(time.Second)) || r.Taken.Before(known.Add(-time.Minute)) {
		t.Errorf("begun to reconcile: %+v; the last commit that is there was before %s", r, known)
	}
	wait(t, "the other node", func() bool { return two.Stats().Down == "" })
	for _, d := range []*pgstore.DB{one, two} {
		refusesNew(t, d, k)
	}
	if is, err := two.Payment(t.Context(), signed.ID); err != nil || is.State != pay.Open || is.Lease.Owner != signed.Lease.Owner || is.Lease.Fence != signed.Lease.Fence || is.Host != signed.Host {
		t.Errorf("the payment that was only begun: %+v, %v", is, err)
	}
	if _, _, err := one.Record(t.Context(), settledOf(signed)); err != nil {
		t.Error(err)
	}
	if _, err := two.Payment(t.Context(), lost.ID); !errors.Is(err, pay.ErrPaymentNotFound) {
		t.Errorf("the payment that only the chain knows: %v", err)
	}
	paidOnce(t, two, k, kept, underWay, signed)
	notices, err := two.Notices(t.Context(), pay.NoticeQuery{Limit: 10})
	if err != nil || len(notices) != 1 || notices[0].Kind != pay.NoticeCommitsLost || !strings.Contains(notices[0].Text, "synchronous replication") {
		t.Errorf("notices: %+v, %v", notices, err)
	}
	for _, d := range []*pgstore.DB{one, two} {
		if err := d.Check(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A node is stopped when its database loses commits. It notices at its next start. One that was away for longer than the
// database remembers batches raises no alarm, and neither does one that comes back after the loss was reconciled.
func TestLostCommitsAreNoticedAtTheStart(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, c := range []struct {
		name    string
		between func(t *testing.T, url, dir string)
		alarm   bool
	}{
		{"lost", func(t *testing.T, url, _ string) { run(t, url, `DELETE FROM operations`) }, true},
		{"one is there", func(t *testing.T, url, _ string) {
			run(t, url, `DELETE FROM operations WHERE id = (SELECT id FROM operations ORDER BY id DESC LIMIT 1)`)
		}, true},
		{"nothing is lost", func(*testing.T, string, string) {}, false},
		{"forgotten", func(t *testing.T, url, dir string) {
			pgstore.AgeAnswered(t, dir, 5*time.Hour)
			run(t, url, `DELETE FROM operations`)
		}, false},
		{"another database", func(t *testing.T, url, _ string) {
			schema := schemaOf(url)
			run(t, url, `DROP SCHEMA `+schema+` CASCADE`, `CREATE SCHEMA `+schema)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, dir := fresh(t, server), t.TempDir()
			d, err := pgstore.Open(t.Context(), withKey(pgstore.Options{URL: url, Dir: dir}))
			if err != nil {
				t.Fatal(err)
			}
			k := keyOn(t, d)
			pays(t, d, k, 3)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			c.between(t, url, dir)
			d = node(t, pgstore.Options{URL: url, Dir: dir})
			r, err := d.Restored(t.Context())
			if err != nil || (r != nil) != c.alarm || d.Stats().Down != "" {
				t.Fatalf("reconciles: %+v, %v; down: %q", r, err, d.Stats().Down)
			}
			if !c.alarm {
				pays(t, d, keyOn(t, d), 1)
				return
			}
			refusesNew(t, d, k)
			if err := d.EndReconciling(t.Context(), r.At); err == nil {
				t.Error("a reconciliation that has just begun has ended")
			}
			if err := d.EndReconciling(t.Context(), r.At.Add(10*time.Minute)); err != nil {
				t.Fatal(err)
			}
			pays(t, d, k, 1)
		})
	}
}

// One node has noticed a loss and has reconciled it. Another one had made its last commit before, and starts later: that
// commit was part of the same loss.
func TestLossIsReconciledOnce(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	dirs := []string{t.TempDir(), t.TempDir()}
	var k pay.Key
	for _, dir := range dirs {
		d, err := pgstore.Open(t.Context(), withKey(pgstore.Options{URL: url, Dir: dir}))
		if err != nil {
			t.Fatal(err)
		}
		k = keyOn(t, d)
		pays(t, d, k, 1)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run(t, url, `DELETE FROM operations`, `DELETE FROM spend`, `DELETE FROM payments`, `DELETE FROM sheets`, `DELETE FROM wallet_days`, `DELETE FROM other_counters`)
	one := node(t, pgstore.Options{URL: url, Dir: dirs[0]})
	r := reconciles(t, one)
	two := node(t, pgstore.Options{URL: url, Dir: dirs[1]})
	if again := reconciles(t, two); !again.At.Equal(r.At) {
		t.Errorf("the reconciliation of %s begins again at %s", r.At, again.At)
	}
	// The chain tells of a payment whose nonce a challenge had chosen. A repeat under its idempotency key finds it.
	const order = 7
	ordered := func() *pay.Begin {
		b := callOf(k, two.Now())
		b.Order, b.IdempotencyKey, b.New.IdempotencyKey, b.New.Bound = order, "order", "order", true
		return b
	}
	found := ordered().New
	found.IdempotencyKey, found.Bound, found.Authorization.ValidAfter = "", false, order
	found.State, found.Confirmed, found.Reconciled, found.Answered, found.Closed, found.EventID = pay.Settled, true, true, true, found.Created, found.ID
	if list, err := one.Reconcile(t.Context(), pay.ReconcileStep{Network: "base", Scan: pay.Scan{First: 1, Next: 9}, Found: []*pay.Payment{found}}); err != nil || len(list) != 1 {
		t.Fatalf("booked %+v, %v", list, err)
	}
	if err := one.EndReconciling(t.Context(), r.At.Add(10*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		begun, err := insist(t.Context(), func() (pay.Begun, error) { return two.Begin(t.Context(), ordered()) })
		if err != nil || begun.How != pay.Stored || begun.Payment.ID != found.ID {
			t.Errorf("the order is served by %+v, %v", begun, err)
		}
	}
	pgstore.LoseAnswered(two)
	if _, err := insist(t.Context(), func() (pay.Begun, error) { return two.Begin(t.Context(), callOf(k, two.Now())) }); err != nil {
		t.Error(err)
	}
	if r, err := two.Restored(t.Context()); r != nil || err != nil {
		t.Errorf("reconciles again: %+v, %v", r, err)
	}
}

// An older copy of the database takes its place under a node that runs.
func TestOlderCopyUnderANode(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	server.Exec(t, `CREATE DATABASE books`)
	d := node(t, pgstore.Options{URL: strings.Replace(server.URL, "/postgres?", "/books?", 1), Dir: t.TempDir()})
	k := keyOn(t, d)
	pays(t, d, k, 3)
	load := server.Dump(t, "books")
	lost := begin(t, d, k)
	if _, _, err := d.Record(t.Context(), settledOf(lost)); err != nil {
		t.Fatal(err)
	}
	load()
	reconciles(t, d)
	refusesNew(t, d, k)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Another store takes the place of the database under a node that runs, while its connections live or are lost. The node
// stops: nothing is paid or made in a store that it does not know. It goes on when its own store is back.
func TestReplacedDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		filled bool // by another purser
		cut    bool // connections are lost
	}{{"empty", false, false}, {"another store", true, false}, {"empty, other connections", false, true}, {"another store, other connections", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t)
			url := fresh(t, server)
			schema := schemaOf(url)
			d := node(t, pgstore.Options{URL: url, Dir: t.TempDir()})
			k := keyOn(t, d)
			underWay := begin(t, d, k)
			statements := []string{`ALTER SCHEMA ` + schema + ` RENAME TO was`, `CREATE SCHEMA ` + schema}
			run(t, server.URL, statements...)
			if c.cut {
				server.EndConnections(t)
			}
			if c.filled {
				other := &opener{url: url}
				other.Open(t)
				other.Close(t)
			}
			for what, try := range map[string]func() error{
				"key": func() error {
					_, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: uuid.NewString(), Created: time.Now()}, Secret: "pk_" + uuid.NewString()})
					return err
				},
				"payment": func() error { _, err := d.Begin(t.Context(), callOf(k, d.Now())); return err },
				"limits":  func() error { return d.SetPause(t.Context(), &pay.Pause{At: time.Now()}) },
			} {
				if err := try(); !errors.Is(err, pay.ErrUnavailable) {
					t.Errorf("%s: %v", what, err)
				}
			}
			wait(t, "noticed", func() bool { return d.Stats().Down == pgstore.DownReplaced })
			if err := d.Health(t.Context()); !errors.Is(err, pay.ErrUnavailable) || !strings.Contains(err.Error(), "another store stands where the database was") {
				t.Errorf("health: %v", err)
			}
			if _, _, err := d.Record(t.Context(), settledOf(underWay)); !errors.Is(err, pay.ErrQueued) {
				t.Errorf("an outcome: %v", err)
			}
			if c.filled {
				if n := run(t, url, `SELECT (SELECT count(*) FROM keys) + (SELECT count(*) FROM payments) + (SELECT count(*) FROM settings WHERE name = 'pause')`); n != 0 {
					t.Errorf("%d rows were written into another store", n)
				}
			}
			run(t, server.URL, `DROP SCHEMA `+schema+` CASCADE`, `ALTER SCHEMA was RENAME TO `+schema)
			wait(t, "going on", func() bool { return d.Stats().Down == "" })
			if r, err := d.Restored(t.Context()); r != nil || err != nil {
				t.Errorf("its own store: %+v, %v", r, err)
			}
			paidOnce(t, d, k, underWay)
		})
	}
}

// An outcome is kept while the database is away, and the node ends. The database comes back without the payment. The next
// start writes both, by the file of the node alone.
func TestKeptOutcomeBringsItsPayment(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, dir := fresh(t, server), t.TempDir()
	d, err := pgstore.Open(t.Context(), withKey(pgstore.Options{URL: url, Dir: dir}))
	if err != nil {
		t.Fatal(err)
	}
	k := keyOn(t, d)
	lost := begin(t, d, k)
	keeps(t, server, d, lost)
	endsAway(t, server, d)
	run(t, url, `DELETE FROM payments`, `DELETE FROM sheets`, `DELETE FROM other_counters`, `DELETE FROM operations`)
	d = node(t, pgstore.Options{URL: url, Dir: dir})
	reconciles(t, d)
	refusesNew(t, d, k)
	paidOnce(t, d, k, lost)
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
