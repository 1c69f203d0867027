package pgstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/x402"
)

// wait waits until a condition holds.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// begin makes a payment.
func begin(t *testing.T, d *pgstore.DB, k pay.Key) *pay.Payment {
	t.Helper()
	begun, err := d.Begin(t.Context(), callOf(k, d.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return begun.Payment
}

// settledOf is the outcome of a payment that was made and answered.
func settledOf(p *pay.Payment) pay.Outcome {
	sig := x402.Signature{7}
	return pay.Outcome{
		PaymentID: p.ID, Fence: p.Lease.Fence, At: p.Created.Add(time.Second), Verdict: pay.VerdictSettled, EventID: uuid.Must(uuid.NewV7()).String(),
		Release: true, Answered: true, Transaction: fmt.Sprintf("0x%x", pay.HashOf(p.ID)), ClaimedTransaction: true, Signature: &sig, Note: "paid",
	}
}

// pays makes payments of a key, one after the other.
func pays(t *testing.T, d *pgstore.DB, k pay.Key, n int) {
	t.Helper()
	for range n {
		begun, err := d.Begin(t.Context(), callOf(k, d.Now()))
		if err == nil {
			_, _, err = d.Record(t.Context(), settledOf(begun.Payment))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// paidOnce checks that payments are settled, each with one event, and that the books are right.
func paidOnce(t *testing.T, d *pgstore.DB, k pay.Key, list ...*pay.Payment) {
	t.Helper()
	for _, p := range list {
		is, err := d.Payment(t.Context(), p.ID)
		if err != nil || is.State != pay.Settled || is.Lease.Owner != "" || len(is.Notes) != 1 {
			t.Errorf("payment %s: %+v, %v", p.ID, is, err)
		}
	}
	events, err := d.SpendEvents(t.Context(), k.ID, pay.SpendQuery{Limit: 100})
	if err != nil || len(events) != len(list) {
		t.Errorf("%d payments have %d events, %v", len(list), len(events), err)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// The database is away, hangs, is read-only, full, or has no connection left: new payments are refused at
// once and with the reason, outcomes are kept, and written when it works again.
func TestOutage(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, "max_connections=12")
	url := fresh(t, server)
	statement := func(t *testing.T, sql string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), strings.Replace(url, "pool_max_conns=4&", "", 1))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Exec(t.Context(), sql)
		if err := errors.Join(err, c.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		class  string
		breaks func(t *testing.T) (mend func())
	}{
		{pgstore.DownAway, func(t *testing.T) func() { server.Stop(t); return func() { server.Again(t) } }},
		{pgstore.DownHangs, func(t *testing.T) func() { return server.Freeze(t) }},
		{pgstore.DownReadOnly, func(t *testing.T) func() { server.ReadOnly(t, true); return func() { server.ReadOnly(t, false) } }},
		{pgstore.DownFull, func(t *testing.T) func() {
			statement(t, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END $$;
				CREATE TRIGGER full_disk BEFORE INSERT ON operations EXECUTE FUNCTION full_disk()`)
			return func() { statement(t, `DROP FUNCTION full_disk CASCADE`) }
		}},
		{pgstore.DownConnections, func(t *testing.T) func() {
			return server.TakeConnections(t)
		}},
	} {
		t.Run(c.class, func(t *testing.T) {
			var log bytes.Buffer
			dir := t.TempDir()
			d := node(t, pgstore.Options{URL: url, Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			k := keyOn(t, d)
			first, second, third := begin(t, d, k), begin(t, d, k), begin(t, d, k)
			mend := c.breaks(t)
			quickly := func(what string, call func() error) error {
				began := time.Now()
				err := call()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("%s took %s", what, took)
				}
				return err
			}
			err := quickly("a new payment", func() error { _, err := d.Begin(t.Context(), callOf(k, d.Now())); return err })
			if !errors.Is(err, pay.ErrUnavailable) {
				t.Errorf("a new payment: %v", err)
			}
			row, fx, err := d.Record(t.Context(), settledOf(first))
			if !errors.Is(err, pay.ErrQueued) || row.State != pay.Settled || fx.Event == nil {
				t.Fatalf("an outcome: %+v, %v", row, err)
			}
			if err := quickly("a renewal", func() error { return d.Renew(t.Context(), second.ID, second.Lease.Fence, d.Now().Add(pay.LeaseTime)) }); !errors.Is(err, pay.ErrUnavailable) {
				t.Errorf("a renewal: %v", err)
			}
			_, err = d.Begin(t.Context(), callOf(k, d.Now()))
			health := d.Health(t.Context())
			for _, err := range []error{err, health} {
				if !errors.Is(err, pay.ErrUnavailable) || !strings.Contains(err.Error(), "database") || strings.Contains(err.Error(), "user=") || strings.Contains(err.Error(), "/tmp") {
					t.Errorf("the reason is %q", err)
				}
			}
			if s := d.Stats(); s.Down != c.class || s.Queued != 1 || s.Since.IsZero() || s.Unsaved {
				t.Errorf("%+v", s)
			}
			if _, _, err := d.Record(t.Context(), settledOf(second)); !errors.Is(err, pay.ErrQueued) {
				t.Errorf("another outcome: %v", err)
			}
			mend()
			wait(t, "writing again", func() bool { return d.Stats().Down == "" })
			if err := d.Health(t.Context()); err != nil {
				t.Error(err)
			}
			if _, _, err := d.Record(t.Context(), settledOf(third)); err != nil {
				t.Error(err)
			}
			paidOnce(t, d, k, first, second, third)
			begin(t, d, k)
			if strings.Contains(log.String(), "no longer applies") {
				t.Error(log.String())
			}
			files, err := filepath.Glob(filepath.Join(dir, "outcomes-*.journal"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			if info, err := os.Stat(files[0]); err != nil || info.Size() != 0 {
				t.Errorf("the file has %d bytes, %v", info.Size(), err)
			}
		})
	}
}

// keeps ends the database, and has a node keep the outcomes of payments.
func keeps(t *testing.T, server *pgtest.Server, d *pgstore.DB, payments ...*pay.Payment) {
	t.Helper()
	server.Stop(t)
	for _, p := range payments {
		if _, _, err := d.Record(t.Context(), settledOf(p)); !errors.Is(err, pay.ErrQueued) {
			t.Fatal(err)
		}
	}
}

// endsAway ends a node, and then the outage.
func endsAway(t *testing.T, server *pgtest.Server, d *pgstore.DB) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	server.Again(t)
}

// outcomesIn returns the one file of kept outcomes in a folder, and its text.
func outcomesIn(t *testing.T, dir string) (file string, kept []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "outcomes-*.journal"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if kept, err = os.ReadFile(files[0]); err != nil {
		t.Fatal(err)
	}
	return files[0], kept
}

// A node that ends during an outage keeps outcomes in its file. The next one writes them before anything
// else, and once, even if it ends before it has cleared the file.
func TestOutcomesOutliveTheirNode(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, dir := fresh(t, server), t.TempDir()
	o := pgstore.Options{URL: url, Dir: dir}
	d := node(t, o)
	k := keyOn(t, d)
	first, second := begin(t, d, k), begin(t, d, k)
	keeps(t, server, d, first, second)
	file, kept := outcomesIn(t, dir)
	if bytes.Contains(kept, []byte(first.ID)) {
		t.Fatal("the file shows a payment")
	}
	endsAway(t, server, d)
	// A torn record behind the others: its caller was never answered.
	if err := os.WriteFile(file, append(bytes.Clone(kept), 0, 0, 0, 9, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		next := node(t, o)
		paidOnce(t, next, k, first, second)
		if info, err := os.Stat(file); err != nil || info.Size() != 0 || next.Stats().Queued != 0 {
			t.Errorf("the file has %d bytes, %v", info.Size(), err)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, kept, 0o600); err != nil { // as if it had not been cleared
			t.Fatal(err)
		}
	}
	spoilt := bytes.Clone(kept)
	spoilt[20] ^= 1
	if err := os.WriteFile(file, spoilt, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Open(context.Background(), withKey(o)); !errors.Is(err, pgstore.ErrOutcomes) {
		t.Errorf("a damaged file: %v", err)
	}
}

// The answer of a commit is lost, and the database with it. What was begun ends unsigned; what was
// recorded is in the books once, whether or not the commit has reached the database.
func TestLostCommits(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, arrives := range []bool{true, false} {
		t.Run(fmt.Sprintf("arrives=%t", arrives), func(t *testing.T) {
			link := server.Link(t)
			// One connection, so that it has prepared the commit: then only its execution names it so.
			url := strings.Replace(strings.Replace(fresh(t, server), server.URL, link.URL, 1), "pool_max_conns=4", "pool_max_conns=1", 1)
			digest := sha256.Sum256([]byte("commit"))
			commit := "stmtcache_" + hex.EncodeToString(digest[:24])
			d := node(t, pgstore.Options{URL: url, Dir: t.TempDir()})
			k := keyOn(t, d)
			first := begin(t, d, k)
			link.CutAt(commit, arrives)
			b := callOf(k, d.Now())
			if _, err := d.Begin(t.Context(), b); !errors.Is(err, pay.ErrUnavailable) {
				t.Fatalf("a begin whose commit is lost: %v", err)
			}
			link.Mend()
			wait(t, "writing again", func() bool { return d.Stats().Down == "" })
			p, err := d.Payment(t.Context(), b.New.ID)
			if arrives && (err != nil || p.State != pay.Void || p.Lease.Owner != "") || !arrives && !errors.Is(err, pay.ErrPaymentNotFound) {
				t.Errorf("what was begun is %+v, %v", p, err)
			}
			again := begin(t, d, k)
			link.CutAt(commit, arrives)
			if _, _, err := d.Record(t.Context(), settledOf(first)); !errors.Is(err, pay.ErrQueued) {
				t.Fatalf("an outcome whose commit is lost: %v", err)
			}
			link.Mend()
			wait(t, "writing again", func() bool { return d.Stats().Down == "" })
			if _, _, err := d.Record(t.Context(), settledOf(again)); err != nil {
				t.Error(err)
			}
			paidOnce(t, d, k, first, again)
		})
	}
}

// An outage ends between the moment at which the committer sees it and the one at which it keeps an outcome. The
// outcome is written all the same.
func TestOutcomeKeptBehindOutage(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url, Dir: t.TempDir()})
	k := keyOn(t, d)
	p := begin(t, d, k)
	if err := d.AnswerDown(t.Context(), settledOf(p)); !errors.Is(err, pay.ErrQueued) {
		t.Fatal(err)
	}
	wait(t, "the kept outcome is written", func() bool {
		is, err := d.Payment(t.Context(), p.ID)
		return err == nil && is.State == pay.Settled
	})
}

// A power cut leaves zeros behind the records of the outcome journal: their callers were never answered.
func TestZerosBehindOutcomes(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, dir := fresh(t, server), t.TempDir()
	o := pgstore.Options{URL: url, Dir: dir}
	d := node(t, o)
	k := keyOn(t, d)
	p := begin(t, d, k)
	keeps(t, server, d, p)
	endsAway(t, server, d)
	file, kept := outcomesIn(t, dir)
	if err := os.WriteFile(file, append(kept, make([]byte, 4096)...), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := pgstore.Open(t.Context(), withKey(o))
	if err != nil {
		t.Fatalf("the node does not start: %v", err)
	}
	paidOnce(t, next, k, p)
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// A node whose DATABASE_URL was changed while outcomes wait in its folder says so.
func TestOutcomesOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, next, dir := fresh(t, server), fresh(t, server), t.TempDir()
	d := node(t, pgstore.Options{URL: url, Dir: dir})
	k := keyOn(t, d)
	p := begin(t, d, k)
	keeps(t, server, d, p)
	endsAway(t, server, d)
	var log bytes.Buffer
	node(t, pgstore.Options{URL: next, Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if !strings.Contains(log.String(), "outcomes-") {
		t.Errorf("nothing is said: %s", log.String())
	}
}

// The database refuses one of the kept outcomes for good. The others are written, and payments go on.
func TestRefusedOutcomeHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	var log bytes.Buffer
	d := node(t, pgstore.Options{URL: url, Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	k := keyOn(t, d)
	refused, other := begin(t, d, k), begin(t, d, k)
	run(t, url, fmt.Sprintf(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.payment_id = '%s' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$`, refused.ID),
		`CREATE TRIGGER refuse BEFORE INSERT ON spend FOR EACH ROW EXECUTE FUNCTION refuse()`)
	keeps(t, server, d, refused, other)
	server.Again(t)
	wait(t, "writing again", func() bool { return d.Stats().Down == "" })
	paidOnce(t, d, k, other)
	if !strings.Contains(log.String(), "refuses a kept outcome") || !strings.Contains(log.String(), refused.ID) {
		t.Errorf("nothing is said: %s", log.String())
	}
}

// A damaged length does not hide the outcomes behind it.
func TestDamagedLengthOfOutcome(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, dir := fresh(t, server), t.TempDir()
	o := pgstore.Options{URL: url, Dir: dir}
	d := node(t, o)
	p := begin(t, d, keyOn(t, d))
	keeps(t, server, d, p)
	endsAway(t, server, d)
	file, kept := outcomesIn(t, dir)
	kept[2] ^= 0x40
	if err := os.WriteFile(file, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Open(t.Context(), withKey(o)); !errors.Is(err, pgstore.ErrOutcomes) {
		t.Errorf("a damaged file opens: %v", err)
	}
}
