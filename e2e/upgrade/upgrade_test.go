package upgrade

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/sandbox/hostile"
)

var (
	older  = flag.String("upgrade.from", "", "the older program, a test build; without it, this purser comes before itself")
	config = flag.String("upgrade.config", "", "the Caddyfile that the older program was shipped with; default: this one")
)

const (
	// validity of the sellers' challenges.
	validity = 30 * time.Second
	// before is the number of orders that the older purser delivers at least, and after that of this one.
	before, after = 200, 200
	// perDoor bounds the orders at a door, of which each has its own number.
	perDoor = 10_000
	funds   = 1_000_000_000_000
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(process.Main(m, 2))
}

func TestOlderDatabaseInOneFile(t *testing.T) {
	t.Parallel()
	p := pursues(t)
	p.Check(t)
}

func TestOlderDatabaseInPostgreSQL(t *testing.T) {
	t.Parallel()
	database := pgtest.Start(t)
	pursues(t, "PURSER_STORE=postgres", "DATABASE_URL="+database.URL)
	store, err := pgstore.Open(shop.Bounded(t), pgstore.Options{URL: database.URL, MasterKey: shop.MasterKey()})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Check(shop.Bounded(t)), store.Close()); err != nil {
		t.Error(err)
	}
}

// pursues has customers insist on their orders while the older purser is killed and this one takes its place, which
// it returns after its end.
func pursues(t *testing.T, settings ...string) *process.Purser {
	t.Helper()
	s := shop.New(t, process.NewClock(t), validity)
	newer := process.Program(t, process.Failpoints)
	p := process.NewPurser(t, cmp.Or(*older, newer), filepath.Join(t.TempDir(), "data"),
		s.Settings(append(settings, "PURSER_DAILY_BUDGET=1000000", "PURSER_MONTHLY_BUDGET=1000000")...)...)
	p.Config = cmp.Or(*config, p.Config)
	p.Start(t)
	customers, doors := s.Enroll(t, p, money.New(funds)), slices.Concat(shop.Doors(), shop.Doors())

	ctx, end := context.WithTimeout(t.Context(), 5*time.Minute)
	defer end()
	var delivered atomic.Int64
	var full atomic.Bool
	var customersAreServed sync.WaitGroup
	for i, door := range doors {
		customersAreServed.Go(func() {
			for n := 0; !full.Load() && ctx.Err() == nil; n++ {
				o := hostile.Order{ID: uint64((i+1)*perDoor + n), Version: 1 + n%2, Key: fmt.Sprintf("order-%d-%d", i, n)}
				if n%3 == 2 {
					o.Method = http.MethodPost
				}
				r := shop.Insist(ctx, func() bool { return true }, func() hostile.Result { return s.Buy(ctx, customers[door], p, door, o) })
				if r.Done {
					delivered.Add(1)
				}
			}
		})
	}
	wait := func(orders int64) {
		process.Eventually(t, 2*time.Minute, func() string {
			if n := delivered.Load(); n < orders {
				return fmt.Sprintf("%d of %d orders were delivered", n, orders)
			}
			return ""
		})
	}
	wait(before)
	p.Kill()
	p.Binary = newer
	p.Start(t)
	wait(delivered.Load() + after)
	full.Store(true)
	customersAreServed.Wait()

	booked := 0
	for _, c := range shop.Everybody(customers) {
		var books hostile.Books
		var chain hostile.Ledger
		s.Clock.Until(t, 3*time.Minute, func() string {
			var err error
			if books, chain, err = process.ReadAccount(shop.Bounded(t), c, s.Chain); err != nil {
				return err.Error()
			}
			return shop.Open(books)
		})
		for _, f := range s.Audit(books, chain, func(order uint64) bool { return customers[doors[order/perDoor-1]] == c }) {
			t.Error(f)
		}
		booked += len(books.Payments)
	}
	p.End(t)
	t.Logf("%d orders were delivered, and the books have %d payments", delivered.Load(), booked)
	return p
}
