package move_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storetest"
	"github.com/purserpay/purser/pgstore"
)

var master = vault.Given(vault.MasterKey{1, 2, 3})

func quiet(string, move.Kind, int) {}

// database makes an empty database, and returns its URL.
func database(t testing.TB, server *pgtest.Server) string {
	t.Helper()
	name := "m_" + uuid.NewString()[:13]
	c, err := pgx.Connect(context.Background(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(context.Background(), fmt.Sprintf(`CREATE DATABASE %q`, name)); err != nil {
		t.Fatal(err)
	}
	return strings.Replace(server.URL, "/"+c.Config().Database, "/"+name, 1) + "&pool_max_conns=4"
}

func boltAt(path string) boltstore.Options {
	return boltstore.Options{Path: path, MasterKey: master}
}

func pgAt(url string) pgstore.Options { return pgstore.Options{URL: url, MasterKey: master} }

// store is one that can be closed.
type store interface {
	move.Store
	Close() error
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// toPostgres and toBolt move a store, and return what it adds up to.
func toPostgres(t testing.TB, path, url string) []move.Total {
	t.Helper()
	return run(t, must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path))), must[*pgstore.Moving](t)(pgstore.OpenTarget(t.Context(), pgAt(url))))
}

func toBolt(t testing.TB, url, path string) []move.Total {
	t.Helper()
	return run(t, must[*pgstore.Moving](t)(pgstore.OpenSource(t.Context(), pgAt(url))), must[*boltstore.Moving](t)(boltstore.OpenTarget(boltAt(path))))
}

func run(t testing.TB, from, to store) []move.Total {
	t.Helper()
	defer from.Close()
	defer to.Close()
	return must[[]move.Total](t)(move.Run(t.Context(), from, to, time.Now(), quiet))
}

// wanderer opens a store that has moved to the other engine since it was closed, so the suite finds in one what
// the other was told.
type wanderer struct {
	dir    string
	server *pgtest.Server
	n      int
	at     string // of the store, of PostgreSQL if n is even
	db     interface {
		pay.Store
		Close() error
	}
}

func (w *wanderer) Open(t testing.TB) pay.Store {
	t.Helper()
	ctx := context.Background()
	was := w.at
	w.n++
	path := filepath.Join(w.dir, strconv.Itoa(w.n), "purser.db")
	if w.n%2 == 1 {
		if w.at = path; was != "" {
			toBolt(t, was, path)
		}
		w.db = must[*boltstore.DB](t)(boltstore.Open(ctx, boltAt(path)))
	} else {
		w.at = database(t, w.server)
		toPostgres(t, was, w.at)
		w.db = must[*pgstore.DB](t)(pgstore.Open(ctx, pgAt(w.at)))
	}
	return w.db
}

func (w *wanderer) Close(t testing.TB) {
	t.Helper()
	if err := w.db.Close(); err != nil {
		t.Error(err)
	}
}

func (w *wanderer) Kill(t testing.TB) { w.Close(t) }

// A store that moves whenever it is closed passes the suite that each store passes: repeats get the authorization
// that was signed before the move, limits hold, and nothing is lost.
func TestConformanceAcrossMoves(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	storetest.Run(t, func(t testing.TB) storetest.Opener { return &wanderer{dir: t.TempDir(), server: server} })
}
