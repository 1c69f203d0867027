package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

const (
	// storeRounds is the number of rounds in which stores and pgbench take turns. The median counts.
	storeRounds = 5
	// shareRounds is the number of rounds in which nodes and budgets are compared, each for shareLength. Two rates of one
	// round differ by a fifth by chance, so that the median of so many is wrong by some hundredths.
	shareRounds = 31
	shareLength = 500 * time.Millisecond
	// storeCallers is the largest number of callers, and of budgets.
	storeCallers = 64
	// grouped is the number of rows that a transaction of pgbench inserts, beside one.
	grouped = 32
	// purserGC is the percentage at which cmd/purser has garbage collected: here the stores run in this process.
	purserGC = 400

	storeBolt     = "bbolt"
	storePostgres = "PostgreSQL, %s, %s"
	pgbenchOne    = "pgbench, 1 row a transaction"
	pgbenchMany   = "pgbench, 32 rows a transaction"
)

var storeLevels = []int{1, 8, storeCallers}

// subject is something that takes turns with others in one case.
type subject struct {
	name    string
	clients int
	measure func(ctx context.Context) (measurement, error)
}

// runStores measures the stores alone: payments that are begun and recorded, without signing and sending,
// beside pgbench on the same server with its disk flushed.
func runStores(ctx context.Context, b *bench) (err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(purserGC))
	if err := os.Chmod(b.dir, 0o711); err != nil { //nolint:gosec // the server has a user of its own
		return err
	}
	dir, err := filepath.Abs(b.dir)
	if err != nil {
		return err
	}
	server, err := pgtest.Launch(ctx, dir, "fsync=on", "full_page_writes=on", "min_wal_size=4GB", "max_wal_size=4GB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.End()) }()
	if err := age(ctx, server); err != nil {
		return err
	}
	var each, compared []subject
	bolt, err := boltstore.Open(ctx, boltstore.Options{Path: filepath.Join(b.dir, "stores", "purser.db"), MasterKey: vault.Given(vault.MasterKey{1}), MinFree: keepFree})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	for _, n := range storeLevels {
		each = append(each, b.paying(storeBolt, n, 0, []pay.Key{{ID: newID()}}, bolt))
	}
	var nodes []payments
	for range 3 {
		db, err := pgstore.Open(ctx, pgstore.Options{URL: server.URL, MasterKey: vault.Given(vault.MasterKey{1})})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		nodes = append(nodes, db)
	}
	keys := make([]pay.Key, storeCallers)
	for i := range keys {
		keys[i].ID = newID()
	}
	for _, n := range storeLevels {
		if n != storeCallers {
			each = append(each, b.paying(onPostgres(1, 1), n, 0, keys[:1], nodes[0]))
		}
	}
	bench, err := pgbench(ctx, b, server)
	if err != nil {
		return err
	}
	for _, by := range [][2]int{{1, 1}, {1, storeCallers}, {3, 1}, {3, storeCallers}} {
		compared = append(compared, b.paying(onPostgres(by[0], by[1]), storeCallers, shareLength, keys[:by[1]], nodes[:by[0]]...))
	}
	if err := b.takeTurns(ctx, storeRounds, append(each, bench...)); err != nil {
		return err
	}
	return b.takeTurns(ctx, shareRounds, compared)
}

// age has a new server make the files of its log: three gigabytes, which it uses again after the checkpoint. A server makes
// them in its first hours, and callers wait up to 60 ms for each.
func age(ctx context.Context, server *pgtest.Server) error {
	return psql(ctx, server, `DO $$ BEGIN FOR i IN 1..3000 LOOP PERFORM pg_logical_emit_message(false, '', repeat('x', 1000000)); END LOOP; END $$`, `CHECKPOINT`)
}

func psql(ctx context.Context, server *pgtest.Server, statements ...string) error {
	args := []string{"-q", "-h", server.Host(), "-U", "purser", "postgres"}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	if out, err := server.Command(ctx, "psql", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w\n%s", err, out)
	}
	return nil
}

// takeTurns measures subjects in rounds.
func (b *bench) takeTurns(ctx context.Context, rounds int, subjects []subject) error {
	seen, rates := make([][]measurement, len(subjects)), make([][]float64, len(subjects))
	for range rounds {
		for i, s := range subjects {
			m, err := s.measure(ctx)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", s.name, counted(s.clients), err)
			}
			seen[i], rates[i] = append(seen[i], m), append(rates[i], m.Rate)
		}
	}
	for i, s := range subjects {
		m := median(seen[i])
		m.Rounds = rates[i]
		b.report.add("stores", s.name, m)
	}
	return nil
}

func onPostgres(nodes, budgets int) string {
	return fmt.Sprintf(storePostgres, plural(nodes, "node"), plural(budgets, "budget"))
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}

// paying makes payments of keys at nodes, two operations each. length is that of a round; zero: the bench's.
func (b *bench) paying(name string, clients int, length time.Duration, keys []pay.Key, nodes ...payments) subject {
	s := &stock{keys: keys, made: make([][]*purchase, clients)}
	return subject{name, clients, func(ctx context.Context) (measurement, error) {
		s.fill()
		defer clear(s.made)
		return b.drive(ctx, load{clients: clients, length: length}, nil, func(ctx context.Context, client int, serial uint64, _ bool) error {
			return s.next(client, serial).write(ctx, nodes[client%len(nodes)], true)
		})
	}}
}

// pgbench has programs of PostgreSQL do the least that a budget needs: each transaction updates one hot row
// on a condition, and inserts.
func pgbench(ctx context.Context, b *bench, server *pgtest.Server) ([]subject, error) {
	err := psql(ctx, server, `CREATE SCHEMA pgbench; CREATE TABLE pgbench.hot (id int PRIMARY KEY, spent bigint) WITH (fillfactor = 50); INSERT INTO pgbench.hot VALUES (1, 0);
		CREATE TABLE pgbench.paid (id uuid PRIMARY KEY, budget int, amount bigint, at timestamptz DEFAULT now())`)
	if err != nil {
		return nil, err
	}
	var list []subject
	for _, script := range []struct {
		name string
		rows int
	}{{pgbenchOne, 1}, {pgbenchMany, grouped}} {
		path := filepath.Join(server.Host(), strconv.Itoa(script.rows)+".sql")
		text := fmt.Sprintf(`BEGIN;
UPDATE pgbench.hot SET spent = spent + %[1]d WHERE id = 1 AND spent + %[1]d <= 1000000000000;
INSERT INTO pgbench.paid (id, budget, amount) SELECT gen_random_uuid(), 1, 1 FROM generate_series(1, %[1]d);
COMMIT;
`, script.rows)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // the server's user reads it
			return nil, err
		}
		for _, n := range storeLevels {
			list = append(list, subject{script.name, n, func(ctx context.Context) (measurement, error) {
				return runPgbench(ctx, server, path, n, b.length)
			}})
		}
	}
	return list, nil
}

func runPgbench(ctx context.Context, server *pgtest.Server, script string, clients int, length time.Duration) (measurement, error) {
	seconds := max(1, int(length.Seconds()+0.5))
	out, err := server.Command(ctx, "pgbench", "-n", "-M", "prepared", "-h", server.Host(), "-U", "purser", "-f", script,
		"-c", strconv.Itoa(clients), "-j", "2", "-T", strconv.Itoa(seconds), "postgres").Output()
	if err != nil {
		return measurement{}, fmt.Errorf("pgbench: %w", err)
	}
	m := measurement{Clients: clients}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if at := slices.Index(words, "="); at > 0 && at+1 < len(words) {
			value, err := strconv.ParseFloat(words[at+1], 64)
			switch {
			case err != nil:
			case words[0] == "tps":
				m.Rate = value
			case strings.HasPrefix(line, "latency average"):
				m.P50 = value
			}
		}
	}
	if m.Rate == 0 {
		return m, fmt.Errorf("pgbench printed no rate:\n%s", out)
	}
	return m, nil
}

// compareStores sets the stores beside pgbench and beside each other.
func (r *report) compareStores() {
	rate := func(name string, clients int) float64 { return r.find("stores", name, clients).Rate }
	store := r.group("Payments per second of the store alone",
		"Begun and recorded, two operations, without signing and sending, and without the callers' work: most purchases are made before "+
			"they are measured. The stores flush the disk. A budget is a key's "+
			"limit for a day, which all of its payments count against. The files of PostgreSQL's log are there, as after some hours. "+
			"pgbench updates one hot row and inserts in each transaction: its figures are transactions.")
	for _, n := range storeLevels {
		store.value(storeBolt+", "+counted(n), rate(storeBolt, n), nil)
	}
	for _, n := range storeLevels {
		store.value(onPostgres(1, 1)+", "+counted(n), rate(onPostgres(1, 1), n), nil)
	}
	for _, name := range []string{onPostgres(1, storeCallers), onPostgres(3, 1), onPostgres(3, storeCallers)} {
		store.value(name+", "+counted(storeCallers), rate(name, storeCallers), nil)
	}
	for _, name := range []string{pgbenchOne, pgbenchMany} {
		for _, n := range storeLevels {
			store.value(name+", "+counted(n), rate(name, n), nil)
		}
	}
	ratios := r.group("PostgreSQL: many callers, nodes and budgets, as ratios",
		"With 64 callers. Nodes, PostgreSQL and the callers share the cores. Nodes and budgets take turns in rounds, whose rates differ "+
			"by a fifth: a ratio of them is the median of those within the rounds.")
	share := func(of, by string) float64 {
		return r.find("stores", of, storeCallers).share(r.find("stores", by, storeCallers))
	}
	hot := onPostgres(1, 1)
	ratios.ratio("1 node and 1 budget / "+pgbenchOne, rate(hot, storeCallers), rate(pgbenchOne, storeCallers), atLeast(hotBudget))
	ratios.value("3 nodes / 1 node, 1 budget", share(onPostgres(3, 1), hot), atLeast(nodesBudget))
	ratios.value("64 budgets / 1 budget, 1 node", share(onPostgres(1, storeCallers), hot), nil)
	ratios.value("64 budgets / 1 budget, 3 nodes", share(onPostgres(3, storeCallers), onPostgres(3, 1)), nil)
}
