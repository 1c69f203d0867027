package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// noonOf returns the noon of today. Tests count days from it, whatever the time is when they end.
func noonOf(d *pgstore.DB) time.Time { return pay.DayOf(d.Now()).Add(12 * time.Hour) }

// spends settles a payment of 5 from a wallet at a host.
func spends(t *testing.T, d *pgstore.DB, k pay.Key, host, walletID string, at time.Time) {
	t.Helper()
	call := callOf(k, d.Now())
	call.New.Host, call.New.WalletID = host, walletID
	begun, err := d.Begin(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	out := settledOf(begun.Payment)
	out.At = at
	if _, _, err := d.Record(t.Context(), out); err != nil {
		t.Fatal(err)
	}
}

// spentOn reads how many payments of a key a day has, in all and by hosts; and how many left wallets.
func spentOn(t *testing.T, d *pgstore.DB, k pay.Key, day time.Time, wallets ...string) (list [3]int) {
	t.Helper()
	add := func(i int, s pay.Sum) {
		if want := money.New(5 * uint64(s.Count)); s.Amount != want { //nolint:gosec // small
			t.Errorf("%d payments of 5 add up to %s", s.Count, s.Amount)
		}
		list[i] += s.Count
	}
	err := d.VisitSpendDays(t.Context(), []string{k.ID}, day, day, pay.SpendDays{
		Day:  func(_ string, _ time.Time, s pay.Sum) { add(0, s) },
		Host: func(_ string, _ time.Time, _ []byte, s pay.Sum) { add(1, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.VisitWalletDays(t.Context(), wallets, day, day, func(_ string, w pay.WalletDay) { add(2, w.Spent) }); err != nil {
		t.Fatal(err)
	}
	return list
}

// The sums of a key's newest day stand in its sheet, those of other days apart, on whichever node an event is booked.
func TestNewestDayInSheet(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	nodes := []*pgstore.DB{node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})}
	k, wallet, noon := keyOn(t, nodes[0]), "w1", noonOf(nodes[0])
	const later = 38_000 // a century
	for i, step := range []struct {
		day   int
		apart int // days that stand apart then
	}{{-1, 0}, {-1, 0}, {0, 1}, {-1, 1}, {0, 1}, {-3, 2}, {0, 2}, {1, 3}, {0, 3}, {1, 3}} {
		spends(t, nodes[i%2], k, "api.example.com", wallet, noon.AddDate(0, 0, step.day))
		if n := run(t, url, `SELECT count(*) FROM spend_days`); n != step.apart {
			t.Errorf("step %d: %d days stand apart, not %d", i, n, step.apart)
		}
	}
	for i, day := range []int{later, later + 1, later} {
		spends(t, nodes[i%2], k, "api.example.com", wallet, noon.AddDate(0, 0, day))
	}
	for day, n := range map[int]int{-3: 1, -2: 0, -1: 3, 0: 4, 1: 2, later: 2, later + 1: 1} {
		if got := spentOn(t, nodes[0], k, noon.AddDate(0, 0, day), wallet); got != [3]int{n, n, n} {
			t.Errorf("day %d has %d", day, got)
		}
	}
	if err := nodes[0].Check(t.Context()); err != nil {
		t.Error(err)
	}
	run(t, url, `INSERT INTO spend_days SELECT key_id, day, spent FROM sheets`)
	if err := nodes[0].Check(t.Context()); err == nil || !strings.Contains(err.Error(), "stands in two places") {
		t.Errorf("a day in two places: %v", err)
	}
	run(t, url, `UPDATE sheets SET drawn = NULL`)
	if err := nodes[0].Check(t.Context()); err == nil || !strings.Contains(err.Error(), "left the wallets") {
		t.Errorf("a wallet's sums are gone: %v", err)
	}
}

// A day of many hosts has no room in a sheet, and a day of many wallets has room for some. All count.
func TestDayOfManyNames(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	noon := noonOf(d)
	const names = codec.MaxDayNames + 8
	for what, c := range map[string]struct {
		host, wallet string
		apart        int
	}{
		"hosts":   {"api-%02d." + strings.Repeat("long", 10) + ".example", "w", 1},
		"wallets": {"api.example", "w%02d", 0},
	} {
		k := keyOn(t, d)
		var wallets []string
		of := func(name string, i int) string {
			if strings.Contains(name, "%") {
				return fmt.Sprintf(name, i)
			}
			return name
		}
		for i := range names {
			wallet := of(c.wallet, i) + what
			wallets = append(wallets, wallet)
			for range 2 {
				spends(t, d, k, of(c.host, i), wallet, noon)
			}
		}
		if got := spentOn(t, d, k, noon, wallets...); got != [3]int{2 * names, 2 * names, 2 * names} {
			t.Errorf("%s: %d", what, got)
		}
		if n := run(t, url, `SELECT count(*) FROM spend_days WHERE key_id = '`+k.ID+`'`); n != c.apart {
			t.Errorf("%s: %d days stand apart", what, n)
		}
		spends(t, d, k, "api.example.com", "w", noon.AddDate(0, 0, 1)) // the next day has room again
		if n := run(t, url, `SELECT count(*) FROM sheets WHERE key_id = '`+k.ID+`'`); n != 1 {
			t.Errorf("%s: %d sheets have a day", what, n)
		}
	}
	if n := run(t, url, `SELECT max(length(spent) + length(drawn)) FROM sheets`); n > 1000 {
		t.Errorf("a day has %d bytes in its sheet", n)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Sums that are damaged stay as they are: events are refused, also those that are booked together.
func TestDamagedDay(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	k := keyOn(t, d)
	pays(t, d, k, 1)
	payments := []*pay.Payment{begin(t, d, k), begin(t, d, k), begin(t, d, k)}
	run(t, url, `UPDATE sheets SET spent = '\x01' WHERE key_id IS NOT NULL`)
	release := held(t, url, `SELECT FROM locks WHERE name = 'key/`+k.ID+`' FOR UPDATE`)
	failed := make(chan error, len(payments))
	for i, p := range payments {
		go func() {
			_, _, err := d.Record(context.Background(), settledOf(p))
			failed <- err
		}()
		if i == 0 {
			blocked(t, url, 1) // the others wait for the next batch, and share it
		}
	}
	wait(t, "the other outcomes are queued", func() bool { return d.Queued() == len(payments)-1 })
	release()
	for range payments {
		if err := <-failed; err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("an outcome: %v", err)
		}
	}
	if n := run(t, url, `SELECT count(*) FROM sheets WHERE spent = '\x01'`); n != 1 {
		t.Error("the damaged sums were replaced")
	}
	if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("check: %v", err)
	}
}

// A database of schema 2 has the days in rows of their own, and hashes without keys. What was spent counts on, and repeats
// are recognized: with an idempotency key, and without one.
func TestUpgradeKeepsDaysAndRepeats(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	d := node(t, pgstore.Options{URL: url})
	k, noon := keyOn(t, d), noonOf(d)
	spends(t, d, k, "api.example.com", "w", noon)
	calls := []*pay.Begin{callOf(k, d.Now()), callOf(k, d.Now())}
	calls[0].IdempotencyKey, calls[0].New.IdempotencyKey = "order 1", "order 1"
	var ids []string
	for _, c := range calls {
		begun, err := d.Begin(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Record(t.Context(), pay.Outcome{PaymentID: begun.Payment.ID, Fence: begun.Payment.Lease.Fence, At: d.Now(), Verdict: pay.Unclear, Release: true}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, begun.Payment.ID)
	}
	run(t, url,
		`DROP VIEW days`, `INSERT INTO spend_days SELECT key_id, day, spent FROM sheets WHERE key_id IS NOT NULL`,
		`UPDATE wallet_days SET spent_count = 1, spent = 5`,
		`ALTER TABLE sheets DROP COLUMN key_id, DROP COLUMN day, DROP COLUMN spent, DROP COLUMN drawn`, `ALTER TABLE sheets RENAME COLUMN counters TO row`,
		fmt.Sprintf(`UPDATE payments SET living = sha256('order 1'), attempt_of = sha256('order 1') WHERE id = '%s'`, ids[0]),
		fmt.Sprintf(`UPDATE payments SET awaited = '\x%x' WHERE id = '%s'`, calls[1].Identity[:], ids[1]),
		`UPDATE payments SET holds_host = sha256('api.example.com') WHERE holds_host IS NOT NULL`, `UPDATE spend SET host_hash = sha256('api.example.com')`,
		`UPDATE settings SET value = '2' WHERE name = 'minimum'`, `DELETE FROM goose_db_version WHERE version_id > 2`)
	d = node(t, pgstore.Options{URL: url})
	for i, c := range calls {
		again := callOf(k, d.Now())
		again.IdempotencyKey, again.New.IdempotencyKey = c.IdempotencyKey, c.IdempotencyKey
		again.CallIdentity, again.New.Fingerprint, again.New.Identity = c.CallIdentity, c.Fingerprint, c.Identity
		begun, err := d.Begin(t.Context(), again)
		if err != nil || begun.Payment.ID != ids[i] {
			t.Errorf("a repeat of call %d: %+v, %v", i, begun, err)
		}
	}
	spends(t, d, k, "api.example.com", "w", noon)
	if got := spentOn(t, d, k, noon, "w"); got != [3]int{2, 2, 2} {
		t.Errorf("today has %d", got)
	}
	page, err := d.ListSpend(t.Context(), []string{k.ID, uuid.NewString()}, pay.OrganizationSpendQuery{Limit: 10, Host: "api.example.com"})
	if err != nil || len(page.Entries) != 2 {
		t.Errorf("%d payments at the host, %v", len(page.Entries), err)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Many calls on one key of a young database, of which the planner knows nothing, do not read all payments of the key.
func TestSearchesOfYoungDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := fresh(t, server)
	d, err := pgstore.Open(t.Context(), withKey(pgstore.Options{URL: url}))
	if err != nil {
		t.Fatal(err)
	}
	k := keyOn(t, d)
	var all sync.WaitGroup
	for range 128 {
		all.Go(func() {
			pays(t, d, k, 10)
		})
	}
	all.Wait()
	if err := d.Close(); err != nil { // a connection that ends tells the server's statistics
		t.Error(err)
	}
	const scans = `SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes WHERE schemaname = current_schema() AND indexrelname = '%s'`
	wait(t, "the statistics", func() bool { return run(t, url, fmt.Sprintf(scans, "payments_pkey")) >= 1280 })
	if n := run(t, url, fmt.Sprintf(scans, "payments_key")); n != 0 {
		t.Errorf("%d searches read all payments of the key", n)
	}
}
