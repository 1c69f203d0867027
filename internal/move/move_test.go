package move_test

import (
	"context"
	"fmt"
	"path/filepath"
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

func quiet(move.Kind, int) {}

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

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// moves moves a store, and returns how many records.
func moves(t testing.TB, path, url string) move.Counts {
	t.Helper()
	from := must[*boltstore.Moving](t)(boltstore.OpenSource(t.Context(), boltAt(path)))
	defer from.Close()
	to := must[*pgstore.Moving](t)(pgstore.OpenTarget(t.Context(), pgAt(url)))
	defer to.Close()
	return must[move.Counts](t)(move.Run(t.Context(), from, to, time.Now(), quiet))
}

// wanderer opens a store that has moved to PostgreSQL when it was closed first, so the suite finds there what the file
// was told.
type wanderer struct {
	path   string
	server *pgtest.Server
	opened bool
	url    string // "": it has not moved
	db     interface {
		pay.Store
		Close() error
	}
}

func (w *wanderer) Open(t testing.TB) pay.Store {
	t.Helper()
	ctx := context.Background()
	if !w.opened {
		w.opened = true
		w.db = must[*boltstore.DB](t)(boltstore.Open(ctx, boltAt(w.path)))
		return w.db
	}
	if w.url == "" {
		w.url = database(t, w.server)
		moves(t, w.path, w.url)
	}
	w.db = must[*pgstore.DB](t)(pgstore.Open(ctx, pgAt(w.url)))
	return w.db
}

func (w *wanderer) Close(t testing.TB) {
	t.Helper()
	if err := w.db.Close(); err != nil {
		t.Error(err)
	}
}

func (w *wanderer) Kill(t testing.TB) { w.Close(t) }

// A store that moves when it is closed passes the suite that each store passes: repeats get the authorization
// that was signed before the move, limits hold, and nothing is lost.
func TestConformanceAcrossAMove(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	storetest.Run(t, func(t testing.TB) storetest.Opener {
		return &wanderer{path: filepath.Join(t.TempDir(), "purser.db"), server: server}
	})
}
