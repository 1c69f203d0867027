package faults

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/proxy/forward"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/signer"
)

// funds is a customer's first balance: a hundred dollars.
const funds = 100_000_000

// installation is a purser in this process: the API and the proxy on one listener, on a real store, in a hostile world.
// Recovery is the test's to run.
type installation struct {
	ground *ground
	world  *hostile.World
	path   string // of the database
	url    string // stays the same over restarts
	// skew is the difference of purser's clock from the chain's.
	skew atomic.Int64
	// free is the free space of the disk, in bytes.
	free atomic.Uint64
	// noRPC: purser knows no chain.
	noRPC bool
	// noDates: purser hears no clock but the chain's.
	noDates bool
	// wrapStore and wrapFacilitator put something between purser and its ports; they may be nil.
	wrapStore       func(pay.Store) pay.Store
	wrapFacilitator func(pay.Facilitator) pay.Facilitator

	store   *boltstore.DB
	payer   *pay.Payer
	books   *books.Books
	forward *forward.Proxy
	clients []interface{ Close() }
	calls   impatient // to the facilitator and the RPC
	visits  visits
	front   atomic.Pointer[http.Handler]
	server  *httptest.Server
	// sendTimeout is purser's patience with sellers. Only where one hangs does it need an end.
	sendTimeout time.Duration
}

// validity is the time that sellers give payers. It is longer than customers are busy, even on a
// slow machine.
const validity = 4 * time.Minute

// install starts a purser in a hostile world of its own.
func install(t *testing.T, g *ground, change ...func(*installation)) *installation {
	t.Helper()
	in := &installation{ground: g, world: process.StartHostile(t, g.chain, g.clock, validity), path: filepath.Join(t.TempDir(), "purser.db"), sendTimeout: patience}
	in.world.Hung = in.calls.hung
	in.world.HangUp = in.hangUp
	in.free.Store(1 << 40)
	for _, f := range change {
		f(in)
	}
	in.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front := in.front.Load(); front != nil {
			defer in.visits.enter(r)()
			(*front).ServeHTTP(w, r)
			return
		}
		panic(http.ErrAbortHandler) // it is down
	}))
	in.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	in.server.Start()
	in.url = in.server.URL
	in.start(t)
	t.Cleanup(func() {
		in.stop(t)
		in.server.CloseClientConnections()
		in.server.Close()
	})
	return in
}

// now is purser's clock.
func (in *installation) now() time.Time {
	return in.ground.clock.Now().Add(time.Duration(in.skew.Load()))
}

// start opens the store and puts everything in front of it.
func (in *installation) start(t *testing.T) {
	t.Helper()
	var err error
	in.store, err = boltstore.Open(t.Context(), boltstore.Options{
		Path: in.path, MasterKey: vault.Given(vault.MasterKey{1, 2, 3}), Clock: in.now,
		FreeSpace: func(string) (uint64, error) { return in.free.Load(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	o := pay.Options{
		Store: in.store, Wallets: signer.NewLocal(in.store), Clock: in.now,
		SendTimeout: in.sendTimeout, RepeatWait: 10 * time.Second, Time: pay.NewTimekeeper(in.now),
	}
	if in.wrapStore != nil {
		o.Store = in.wrapStore(in.store)
	}
	f, err := facilitator.New(facilitator.Options{URL: in.world.FacilitatorURL, Timeout: patience, Transport: &in.calls})
	if err != nil {
		t.Fatal(err)
	}
	if !in.noDates {
		f.WatchDates(o.Time.Dates(pay.SourceFacilitator))
	}
	o.Facilitator = f
	if in.wrapFacilitator != nil {
		o.Facilitator = in.wrapFacilitator(f)
	}
	in.clients = append(in.clients, f)
	if !in.noRPC {
		var dates pay.Dates
		if !in.noDates {
			dates = o.Time.Dates(pay.SourceRPC)
		}
		c, err := chain.New(chain.Options{URL: in.world.RPCURL, Timeout: patience, Transport: &in.calls, Dates: dates})
		if err != nil {
			t.Fatal(err)
		}
		o.Chain = c
		in.clients = append(in.clients, c)
	}
	if in.payer, err = pay.New(o); err != nil {
		t.Fatal(err)
	}
	if in.books, err = books.New(books.Options{Store: o.Store, Wallets: o.Wallets, Clock: in.now}); err != nil {
		t.Fatal(err)
	}
	api, err := payapi.New(payapi.Options{Payer: in.payer, Books: in.books, Clock: in.now, KeyRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	forward, err := forward.New(forward.Options{
		Payer: in.payer, Dialer: guard.NewDialer(guard.Options{Rules: guard.Rules{AllowLoopback: true}}), Clock: in.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	in.forward = forward
	var front http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward.ServeHTTP(w, r, api) })
	in.front.Store(&front)
}

// stop ends purser as SIGTERM does.
func (in *installation) stop(t *testing.T) {
	t.Helper()
	in.front.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := in.payer.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := in.forward.Close(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range in.clients {
		c.Close()
	}
	in.clients = nil
	if err := in.store.Close(); err != nil {
		t.Error(err)
	}
}

// enroll makes a customer with money.
func (in *installation) enroll(t *testing.T) *hostile.Customer {
	t.Helper()
	c, err := in.tryEnroll()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (in *installation) tryEnroll() (*hostile.Customer, error) {
	c, err := enroll(in.world, in.url)
	if err == nil {
		c.Patience = patience
	}
	return c, err
}

// enroll makes a customer with money at a purser.
func enroll(w *hostile.World, purser string) (*hostile.Customer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := hostile.Enroll(ctx, purser)
	if err != nil {
		return nil, err
	}
	return c, w.Fund(ctx, c.Wallet, money.New(funds))
}

// hangUp calls leave, and returns once purser has noticed that the clients of the present are gone.
// The customer's next request may come before that, and is not waited for.
func (in *installation) hangUp(ctx context.Context, leave func()) {
	present := in.visits.present()
	leave()
	for _, r := range present {
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
			return
		}
	}
}

// busy bounds the concurrent work in this process. Too much of it would make recovery's looks run
// out of time.
var busy = make(chan struct{}, 6)

// recover lets recovery look at everything that is due.
func (in *installation) recover(t *testing.T) {
	t.Helper()
	busy <- struct{}{}
	defer func() { <-busy }()
	for {
		n, err := in.payer.RecoverOnce(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// quiet waits until no send is in flight.
func (in *installation) quiet(t *testing.T, c *hostile.Customer) {
	t.Helper()
	key, err := in.payer.Resolve(bounded(t), c.Key)
	if err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, patience, func() string {
		rows, err := in.books.Payments(bounded(t), key, "", 500, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Lease.Owner != "" {
				return "payment " + row.ID + " is still leased"
			}
		}
		return ""
	})
}

// account reads a customer's books and ledger.
func (in *installation) account(t *testing.T, c *hostile.Customer) (hostile.Books, hostile.Ledger) {
	t.Helper()
	busy <- struct{}{}
	defer func() { <-busy }()
	b, l, err := process.ReadAccount(bounded(t), c, in.ground.chain)
	if err != nil {
		t.Fatal(err)
	}
	return b, l
}

// report fails the test for each finding.
func report(t *testing.T, findings []hostile.Finding) {
	t.Helper()
	for _, f := range findings {
		t.Error(f)
	}
}

// settle ends all trouble and lets time go by until recovery has seen all there is to be seen. A customer may have its
// answer before its send has let the payment go, and recovery leaves that one alone: settle waits for it first.
func (in *installation) settle(t *testing.T, c *hostile.Customer) {
	t.Helper()
	in.skew.Store(0)
	in.world.Calm()
	in.quiet(t, c)
	in.world.Late(bounded(t))
	in.ground.pass(t, 3*time.Hour)
	closeBooks(t, in.ground, in)
}

// rounds bounds the looks of recovery. A look that runs out of time on a busy machine is repeated.
const rounds = 8

// closeBooks lets recovery look, and time go by, until it has seen all there is to be seen.
func closeBooks(t *testing.T, g *ground, all ...*installation) {
	t.Helper()
	for n := 0; n < rounds; n++ {
		open := 0
		for _, in := range all {
			in.recover(t)
			open += in.unfinished(t)
		}
		g.pass(t, untilDue)
		if open == 0 {
			return
		}
	}
}

// unfinished is the number of payments that evidence may still close, settle or prove.
func (in *installation) unfinished(t *testing.T) int {
	t.Helper()
	n := 0
	for _, state := range []pay.State{pay.Open, pay.Settled} {
		rows, err := in.store.AllPayments(bounded(t), pay.LabelQuery{
			Label: string(state), Without: []string{"confirmed", "disputed"}, Limit: 500,
		})
		if err != nil {
			t.Fatal(err)
		}
		n += len(rows)
	}
	return n
}

// audit fails the test unless a customer's books are the chain's.
func (in *installation) audit(t *testing.T, c *hostile.Customer) {
	t.Helper()
	books, ledger := in.account(t, c)
	if report(t, hostile.Audit(books, ledger, nil)); t.Failed() {
		tell(t, hostile.Played{}, books, ledger)
	}
	if err := in.store.Check(bounded(t)); err != nil {
		t.Error(err)
	}
}

// impatientWithSellers is for worlds in which sellers hang.
func impatientWithSellers(in *installation) { in.sendTimeout = hostile.Patience }
