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

// dying ends a move at a mark of the source, before or after it is written.
type dying struct {
	move.From
	left  *int
	after bool
}

func (d dying) SetMark(ctx context.Context, m *move.Mark) error {
	*d.left--
	if *d.left == 0 && !d.after {
		return errKilled
	}
	err := d.From.SetMark(ctx, m)
	if *d.left == 0 {
		err = errors.Join(err, errKilled)
	}
	return err
}

// A move that ends around its commit goes on when it is run again, on the same database only. At no moment do both stores
// open.
func TestCutOff(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, c := range []struct {
		mark       int
		after      bool
		source     error // of opening
		targetOpen bool
	}{{1, false, nil, false}, {1, true, move.ErrUnderWay, false}, {2, false, move.ErrUnderWay, true}, {2, true, move.ErrMoved, true}} {
		path, url := filled(t, 100), database(t, server)
		try := func(url string, left int) error {
			from := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
			defer from.Close()
			to := must[*pgstore.Moving](t)(pgstore.OpenTarget(t.Context(), pgAt(url)))
			defer to.Close()
			_, err := move.Run(t.Context(), dying{from, &left, c.after}, to, time.Now(), quiet)
			return err
		}
		if err := try(url, c.mark); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		db, err := boltstore.Open(t.Context(), boltAt(path))
		if err == nil {
			db.Close()
		}
		if !errors.Is(err, c.source) {
			t.Errorf("%+v: the source: %v", c, err)
		}
		node, err := pgstore.Open(t.Context(), pgAt(url))
		if err == nil {
			node.Close()
		}
		if c.targetOpen != (err == nil) || err != nil && !errors.Is(err, move.ErrUnderWay) {
			t.Errorf("%+v: the target: %v", c, err)
		}
		if c.source != nil {
			if err := try(database(t, server), 0); err == nil {
				t.Errorf("%+v: the store moves into a second database", c)
			}
		}
		if err := try(url, 0); err != nil && (c.mark != 2 || !c.after || !errors.Is(err, move.ErrMoved)) {
			t.Errorf("%+v: again: %v", c, err)
		}
		if _, err := boltstore.Open(t.Context(), boltAt(path)); !errors.Is(err, move.ErrMoved) {
			t.Errorf("%+v: the old store opens: %v", c, err)
		}
		must[*pgstore.DB](t)(pgstore.Open(t.Context(), pgAt(url))).Close()
	}
}

// plain leaves out what only the pool understands.
func plain(url string) string {
	is, _, _ := strings.Cut(url, "&pool_max")
	return is
}

// TestScale moves MOVE_PAYMENTS payments, and prints the time. make migrate-scale sets it to a million.
func TestScale(t *testing.T) {
	t.Parallel()
	n := 2000
	if text := os.Getenv("MOVE_PAYMENTS"); text != "" {
		n = must[int](t)(strconv.Atoi(text))
	}
	server := pgtest.Start(t)
	path, url := filled(t, n), database(t, server)
	began := time.Now()
	counts := moves(t, path, url)
	t.Logf("%d payments: %.0f s to postgres, checked", n, time.Since(began).Seconds())
	if counts[move.Payment] != n {
		t.Errorf("%d payments", counts[move.Payment])
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
	_, err = move.Run(ctx, from, to, time.Now(), func(kind move.Kind, n int) { fmt.Println(kind, n) })
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A process that moves a store is killed at its first part, its fourth one and so on, and the next one begins again.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	path, url := filled(t, 12_000), database(t, server)
	for kills := 1; ; kills += 3 {
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
		if kills < 8 {
			t.Errorf("the move has %d parts", kills)
		}
		break
	}
	db := must[*pgstore.DB](t)(pgstore.Open(t.Context(), pgAt(url)))
	defer db.Close()
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// reconciling is a store that is being reconciled.
type reconciling struct{ move.From }

func (reconciling) Export(_ context.Context, visit func(move.Record) error) error {
	return visit(move.Record{Kind: move.Setting, A: move.SettingRestored})
}

// A database that is not empty or is in use is refused, and so is a file that is in use, was moved or is being reconciled.
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
	node.Close()
	refused(target(other), "holds a store already")

	running := must[*boltstore.DB](t)(boltstore.Open(t.Context(), boltAt(path)))
	_, err := boltstore.OpenSource(t.Context(), boltAt(path))
	if !errors.Is(err, boltstore.ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	running.Close()

	source := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
	empty := must[*pgstore.Moving](t)(pgstore.OpenTarget(t.Context(), pgAt(database(t, server))))
	_, err = move.Run(t.Context(), reconciling{source}, empty, time.Now(), quiet)
	refused(err, "being reconciled")
	source.Close()
	empty.Close()

	url := database(t, server)
	if err := target(url); err != nil {
		t.Fatal(err)
	}
	refused(target(database(t, server)), "was moved")
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
