package move_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/boltstore/boltfill"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// TestMain bounds the random histories of the conformance suite: each of their restarts moves the store.
func TestMain(m *testing.M) {
	if path := os.Getenv("MOVE_FROM"); path != "" {
		os.Exit(child(path, os.Getenv("MOVE_TO")))
	}
	flag.Parse()
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// filled makes a store with payments, spend events, days and keys.
func filled(t testing.TB, payments int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "purser.db")
	db := must[*boltstore.DB](t)(boltstore.Open(t.Context(), boltAt(path)))
	ids := []string{"key-1", "key-2"}
	for _, id := range ids {
		must[pay.Key](t)(db.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: id}, Secret: "pk_" + id}))
	}
	if err := errors.Join(
		boltfill.Fill(t.Context(), db, boltfill.Options{Keys: ids, Payments: payments}),
		boltfill.Declines(t.Context(), db, ids, time.Now()), db.SetPause(t.Context(), &pay.Pause{At: time.Now().UTC()}), db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

var errKilled = errors.New("killed")

// dying ends a move at its nth batch, before or after the batch was written, or at the change of a mark.
type dying struct {
	move.Store
	left  *int
	after bool
}

func (d dying) step(run func() error) error {
	*d.left--
	if *d.left == 0 && !d.after {
		return errKilled
	}
	err := run()
	if *d.left == 0 {
		return errors.Join(err, errKilled)
	}
	return err
}

func (d dying) Import(ctx context.Context, list []move.Record, m *move.Mark) error {
	return d.step(func() error { return d.Store.Import(ctx, list, m) })
}

func (d dying) SetMark(ctx context.Context, m *move.Mark) error {
	return d.step(func() error { return d.Store.SetMark(ctx, m) })
}

func (d dying) Check(ctx context.Context) error {
	return d.step(func() error { return d.Store.Check(ctx) })
}

// A move that ends anywhere goes on when it is run again, and purser starts on neither store meanwhile. A round trip
// brings back the same records.
func TestResumes(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	path, url := filled(t, 12_000), database(t, server)
	tries, died := 0, 0
	var first []move.Total
	for ; first == nil; tries++ {
		if tries == 40 {
			t.Fatal("the move does not end")
		}
		from, to := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path))), must[*pgstore.Moving](t)(pgstore.OpenTarget(t.Context(), pgAt(url)))
		left := 1 + tries%4 // at 4 the last steps fit
		totals, err := move.Run(t.Context(), dying{from, &left, tries%2 == 0}, dying{to, &left, tries%2 == 0}, time.Now(), quiet)
		from.Close()
		to.Close()
		switch {
		case err == nil:
			first = totals
		case !errors.Is(err, errKilled):
			if source, _ := markOf(t, path); source.Done.IsZero() {
				t.Fatal(err)
			}
			first = []move.Total{} // it ended after its last step
		default:
			if died++; tries < 4 {
				continue // a store may have no mark yet
			}
			if _, err := boltstore.Open(t.Context(), boltAt(path)); !errors.Is(err, move.ErrUnderWay) && !errors.Is(err, move.ErrMoved) {
				t.Fatalf("the source opens during its move: %v", err)
			}
			if db, err := pgstore.Open(t.Context(), pgAt(url)); err == nil {
				if source, _ := markOf(t, path); source.Done.IsZero() {
					t.Fatal("the target opens during its move")
				}
				db.Close()
			} else if !errors.Is(err, move.ErrUnderWay) {
				t.Fatal(err)
			}
		}
	}
	if died < 5 {
		t.Errorf("killed %d times", died)
	}
	if _, err := boltstore.Open(t.Context(), boltAt(path)); !errors.Is(err, move.ErrMoved) {
		t.Errorf("the old store opens: %v", err)
	}
	back := filepath.Join(t.TempDir(), "purser.db")
	there := toBolt(t, url, back)
	s := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
	defer s.Close()
	origin := must[[]move.Total](t)(move.Totals(t.Context(), s, nil))
	if wrong := move.Differences(origin, there); wrong != nil {
		t.Errorf("after a round trip: %v", wrong)
	}
	if n := there[move.Payment]; n.Count != 12_000 || !strings.HasSuffix(n.Sums, " USDC") {
		t.Errorf("%+v", n)
	}
}

// plain leaves out what only the pool understands.
func plain(url string) string {
	is, _, _ := strings.Cut(url, "&pool_max")
	return is
}

func markOf(t testing.TB, path string) (move.Mark, error) {
	t.Helper()
	s := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
	defer s.Close()
	m, err := s.Mark(t.Context())
	if m == nil {
		m = &move.Mark{}
	}
	return *m, err
}

// TestScale moves MOVE_PAYMENTS payments there and back, and prints the times. make migrate-scale sets it to a million.
func TestScale(t *testing.T) {
	t.Parallel()
	n := 2000
	if text := os.Getenv("MOVE_PAYMENTS"); text != "" {
		n = must[int](t)(strconv.Atoi(text))
	}
	server := pgtest.Start(t)
	path, url, back := filled(t, n), database(t, server), filepath.Join(t.TempDir(), "purser.db")
	began := time.Now()
	there := toPostgres(t, path, url)
	half := time.Now()
	again := toBolt(t, url, back)
	t.Logf("%d payments: %.0f s to postgres, %.0f s back, verified and checked", n, half.Sub(began).Seconds(), time.Since(half).Seconds())
	if wrong := move.Differences(there, again); wrong != nil || there[move.Payment].Count != n {
		t.Errorf("%v", wrong)
	}
}

// child moves a file into a database, and tells each batch on a line.
func child(path, url string) int {
	ctx := context.Background()
	from, err := boltstore.OpenSource(ctx, boltAt(path))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	to, err := pgstore.OpenTarget(ctx, pgAt(url))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = move.Run(ctx, from, to, time.Now(), func(doing string, kind move.Kind, n int) {
		if doing == "copies" || n%4000 == 0 {
			fmt.Println(doing, kind, n)
		}
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A process that moves a store is killed at its first batch, its second one and so on, and the next one goes on.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	path, url := filled(t, 12_000), database(t, server)
	for kills := 1; ; kills++ {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), "MOVE_FROM="+path, "MOVE_TO="+url)
		out, err := c.StdoutPipe()
		if err := errors.Join(err, c.Start()); err != nil {
			t.Fatal(err)
		}
		lines, last := bufio.NewScanner(out), ""
		for n := 0; n < kills && lines.Scan(); n++ {
			last = lines.Text()
		}
		if lines.Scan() { // it is at work
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, out) // to its end
			_ = c.Wait()                    // it was killed
			continue
		}
		if err := c.Wait(); err != nil {
			t.Fatalf("after %d kills: %v, %s", kills-1, err, last)
		}
		if kills < 4 {
			t.Errorf("killed %d times", kills-1)
		}
		break
	}
	there := toBolt(t, url, filepath.Join(t.TempDir(), "purser.db"))
	s := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
	defer s.Close()
	if wrong := move.Differences(must[[]move.Total](t)(move.Totals(t.Context(), s, nil)), there); wrong != nil {
		t.Errorf("%v", wrong)
	}
}

// A database that is not empty, is in use, or belongs to another move is refused. A source that was unlocked reads the
// chain first.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	path := filled(t, 10)
	target := func(url string) error {
		s, err := pgstore.OpenTarget(t.Context(), pgAt(url))
		if err == nil {
			defer s.Close()
			source := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
			defer source.Close()
			_, err = move.Run(t.Context(), source, s, time.Now(), quiet)
		}
		return err
	}
	refused := func(err error, why string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, and not %q", err, why)
		}
	}

	foreign := database(t, server)
	c := must[*pgx.Conn](t)(pgx.Connect(t.Context(), plain(foreign)))
	if _, err := c.Exec(t.Context(), `CREATE TABLE orders (id int)`); err != nil {
		t.Fatal(err)
	}
	c.Close(t.Context())
	refused(target(foreign), "orders")

	other := database(t, server)
	node := must[*pgstore.DB](t)(pgstore.Open(t.Context(), pgAt(other)))
	refused(target(other), "stop all nodes")
	_, err := pgstore.OpenSource(t.Context(), pgAt(other))
	refused(err, "stop all nodes")
	node.Close()
	refused(target(other), "holds a store already")
	with := pgAt(other)
	with.Dir = t.TempDir()
	must[*pgstore.DB](t)(pgstore.Open(t.Context(), with)).Close()
	files := must[[]string](t)(filepath.Glob(filepath.Join(with.Dir, "outcomes-*")))
	if err := os.WriteFile(files[0], []byte("an outcome"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = pgstore.OpenSource(t.Context(), with)
	refused(err, "outcomes wait")

	running := must[*boltstore.DB](t)(boltstore.Open(t.Context(), boltAt(path)))
	_, err = boltstore.OpenSource(t.Context(), boltAt(path))
	if !errors.Is(err, boltstore.ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	running.Close()

	url := database(t, server)
	if err := target(url); err != nil {
		t.Fatal(err)
	}
	refused(target(database(t, server)), "was moved")
	s := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
	if err := move.Unlock(t.Context(), s, s.Reconcile); err != nil {
		t.Fatal(err)
	}
	s.Close()
	db := must[*boltstore.DB](t)(boltstore.Open(t.Context(), boltAt(path)))
	if r, err := db.Restored(t.Context()); err != nil || r == nil {
		t.Errorf("the old store pays at once: %v, %v", r, err)
	}
	db.Close()
	_, err = move.Run(t.Context(), must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path))),
		must[*pgstore.Moving](t)(pgstore.OpenTarget(t.Context(), pgAt(database(t, server)))), time.Now(), quiet)
	refused(err, "being reconciled")
}

// A node that was away while its database was moved writes no payment when it comes back.
func TestFence(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := database(t, server)
	toPostgres(t, filled(t, 10), url)
	toBolt(t, url, filepath.Join(t.TempDir(), "purser.db"))
	c := must[*pgx.Conn](t)(pgx.Connect(t.Context(), plain(url)))
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), `UPDATE payments SET leased = 1`); err == nil || !strings.Contains(err.Error(), "was moved") {
		t.Errorf("a moved database takes payments: %v", err)
	}
	if _, err := pgstore.Open(t.Context(), pgAt(url)); !errors.Is(err, move.ErrMoved) {
		t.Errorf("a moved database opens: %v", err)
	}
}

// Each table of the database moves, or is known to stay.
func TestEveryTableMoves(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := database(t, server)
	must[*pgstore.DB](t)(pgstore.Open(t.Context(), pgAt(url))).Close()
	c := must[*pgx.Conn](t)(pgx.Connect(t.Context(), plain(url)))
	defer c.Close(t.Context())
	rows, err := c.Query(t.Context(), `SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace`)
	names := must[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string]))
	if err != nil || len(names) < 20 {
		t.Fatal(err, names)
	}
	known := pgstore.MovedTables()
	for _, name := range names {
		if !slices.Contains(known, name) {
			t.Errorf("table %s is not moved: give it a kind in internal/move, or list it in ownTables", name)
		}
	}
}
