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
	"github.com/purserpay/purser/facilitator"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/payapi"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/vault"
	"github.com/purserpay/purser/x402"
)

// funds is what a customer starts with: a hundred dollars.
const funds = 100_000_000

// installation is a purser in this process: the API and the proxy on one listener, on a real store, in a hostile world.
// Recovery is the test's to run.
type installation struct {
	ground *ground
	world  *hostile.World
	path   string // of the database
	url    string // stays the same over restarts
	// skew is how far purser's clock is from that of the chain.
	skew atomic.Int64
	// free is what the disk has left, in bytes.
	free atomic.Uint64
	// noRPC: purser knows no chain.
	noRPC bool
	// wrapStore and wrapFacilitator put something between purser and its ports; they may be nil.
	wrapStore       func(pay.Store) pay.Store
	wrapFacilitator func(pay.Facilitator) pay.Facilitator

	store    *boltstore.DB
	payer    *pay.Payer
	forward  *proxy.Forward
	clients  []interface{ Close() }
	front    atomic.Pointer[http.Handler]
	server   *httptest.Server
	patience time.Duration // with facilitator and seller
}

// validity is what sellers let payers take: longer than customers are busy, on a slow machine too.
const validity = 4 * time.Minute

// newWorld starts a hostile world on a chain.
func newWorld(t *testing.T, g *ground) *hostile.World {
	t.Helper()
	w, err := hostile.Start(context.Background(), hostile.Options{Chain: g.chain, Now: g.clock.now, Validity: validity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// install starts a purser in a hostile world of its own.
func install(t *testing.T, g *ground, change ...func(*installation)) *installation {
	t.Helper()
	in := &installation{ground: g, world: newWorld(t, g), path: filepath.Join(t.TempDir(), "purser.db"), patience: hostile.Patience}
	in.free.Store(1 << 40)
	for _, f := range change {
		f(in)
	}
	in.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if front := in.front.Load(); front != nil {
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
	return in.ground.clock.now().Add(time.Duration(in.skew.Load()))
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
		SendTimeout: in.patience, RepeatWait: 10 * time.Second,
	}
	if in.wrapStore != nil {
		o.Store = in.wrapStore(in.store)
	}
	f, err := facilitator.New(facilitator.Options{URL: in.world.FacilitatorURL, Timeout: in.patience})
	if err != nil {
		t.Fatal(err)
	}
	o.Facilitator = f
	if in.wrapFacilitator != nil {
		o.Facilitator = in.wrapFacilitator(f)
	}
	in.clients = append(in.clients, f)
	if !in.noRPC {
		c, err := chain.New(chain.Options{URL: in.world.RPCURL, Timeout: hostile.Patience, Clock: in.now})
		if err != nil {
			t.Fatal(err)
		}
		o.Chain = c
		in.clients = append(in.clients, c)
	}
	if in.payer, err = pay.New(o); err != nil {
		t.Fatal(err)
	}
	api, err := payapi.New(payapi.Options{Payer: in.payer, Clock: in.now, KeyRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	forward, err := proxy.NewForward(proxy.ForwardOptions{
		Payer: in.payer, Guard: proxy.NewGuard(proxy.GuardOptions{AllowLoopback: true}), Clock: in.now,
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
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := hostile.Enroll(ctx, in.url)
	if err != nil {
		return nil, err
	}
	return c, in.world.Fund(ctx, c.Wallet, x402.NewAmount(funds))
}

// recover lets recovery look at everything that is due.
func (in *installation) recover(t *testing.T) {
	t.Helper()
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

// quiet waits until nobody is sending anything any more.
func (in *installation) quiet(t *testing.T, c *hostile.Customer) {
	t.Helper()
	key, err := in.payer.Resolve(bounded(t), c.Key)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, func() string {
		rows, err := in.payer.Payments(bounded(t), key, "", 500, "")
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
	b, err := hostile.ReadBooks(bounded(t), c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := hostile.ReadLedger(bounded(t), in.ground.chain, c.Wallet)
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

// settle ends all trouble and lets time go by until recovery has seen all there is to be seen.
func (in *installation) settle(t *testing.T) {
	t.Helper()
	in.skew.Store(0)
	in.world.Calm()
	in.world.Late(bounded(t))
	for _, d := range []time.Duration{3 * time.Hour, untilDue, untilDue} {
		in.ground.pass(t, d)
		in.recover(t)
	}
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

// patient is for scenarios in which nobody is waited for in vain, however busy the machine.
func patient(in *installation) { in.patience = 30 * time.Second }
