package move_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storetest"
	"github.com/purserpay/purser/pgstore"
)

// dumped opens a database that comes back from a pg_dump.
type dumped struct {
	server *pgtest.Server
	url    string
	db     *pgstore.DB
}

var _ storetest.Restorer = (*dumped)(nil)

func (d *dumped) Open(t testing.TB) pay.Store {
	t.Helper()
	d.db = must[*pgstore.DB](t)(pgstore.Open(context.Background(), pgAt(d.url)))
	return d.db
}

func (d *dumped) Close(t testing.TB) {
	t.Helper()
	if err := d.db.Close(); err != nil {
		t.Error(err)
	}
}

func (d *dumped) Kill(t testing.TB) { d.Close(t) }

// Snapshot takes a dump.
func (d *dumped) Snapshot(t testing.TB) func() {
	t.Helper()
	_, name, _ := strings.Cut(d.url, "///")
	name, _, _ = strings.Cut(name, "?")
	return d.server.Dump(t, name)
}

// Restore does what purser restore --taken does.
func (d *dumped) Restore(t testing.TB, taken time.Time) {
	t.Helper()
	s := must[*pgstore.Moving](t)(pgstore.OpenRestored(context.Background(), pgAt(d.url)))
	defer s.Close()
	if err := s.Reconcile(context.Background(), taken); err != nil {
		t.Fatal(err)
	}
}

// A database that was restored from a pg_dump passes the tests of reconciling: it pays nothing until the chain was
// read, what was paid after the dump is booked once, and a repeat of it is not paid again.
func TestRestoredFromADump(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	storetest.RunReconciling(t, func(t testing.TB) storetest.Opener { return &dumped{server: server, url: database(t, server)} })
}
