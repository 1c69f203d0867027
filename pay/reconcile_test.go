package pay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// The chain of these tests makes a block every two seconds.

func (c *truth) blockAt(at time.Time) uint64 { return uint64(at.Unix()-1_700_000_000) / 2 }

func (c *truth) block(n uint64) pay.ChainBlock {
	b := pay.ChainBlock{Number: n, Hash: fmt.Sprintf("0x%064x", n), Time: time.Unix(1_700_000_000+2*int64(n), 0).UTC()}
	if h := c.past[n]; h != "" {
		b.Hash = h
	}
	return b
}

func (c *truth) Safe(context.Context, x402.Network) (pay.ChainBlock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return pay.ChainBlock{}, errors.New("rpc down")
	}
	return c.block(c.blockAt(c.now.Add(-c.lag))), nil
}

func (c *truth) Before(_ context.Context, _ x402.Network, moment time.Time) (pay.ChainBlock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.block(c.blockAt(moment)), nil
}

func (c *truth) Used(_ context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks = append(c.asks, q); c.down {
		return pay.UsedAnswer{}, errors.New("rpc down")
	}
	if k := q.Known; k != nil && c.block(k.Number).Hash != k.Hash {
		return pay.UsedAnswer{}, errors.New("the block of the backup is another one")
	}
	a := pay.UsedAnswer{Through: min(q.To, q.From+499), Size: 500, Chain: pay.ChainIdentity{ChainID: q.Network.ChainID, Genesis: cmp.Or(c.other, c.gen)}}
	for _, m := range c.log {
		if n := c.blockAt(m.at); n >= q.From && n <= a.Through && slices.Contains(q.Wallets, m.auth.From) && q.Asset.Symbol == "USDC" {
			value := m.auth.Value
			if less, upto := c.charged[m.auth.Nonce]; upto {
				value = less
			}
			u := pay.UsedAuthorization{
				From: m.auth.From, Nonce: m.auth.Nonce, Rail: m.auth.Rail, Transaction: m.tx, Block: c.block(n),
				Matched: !m.auth.To.IsZero(), To: m.auth.To, Value: value,
			}
			if c.plain[m.tx] {
				a.Unexplained = append(a.Unexplained, u)
			} else {
				a.Used = append(a.Used, u)
			}
		}
	}
	return a, nil
}

// restore does what opening a backup does. The backup was taken at a moment of the chain, by a
// clock that has gone on since.
func (w *world) restore(backup *memStore, taken time.Time, withBlock bool) {
	r := pay.Restore{Taken: taken, At: w.chain.clock()}
	if withBlock {
		b := w.chain.block(w.chain.blockAt(taken.Add(-time.Minute)))
		r.Block = &pay.MarkedBlock{Network: "base", Genesis: w.chain.gen, Number: b.Number, Hash: b.Hash, Time: b.Time}
	}
	backup.Restore(r)
	w.store, w.opts.Store = backup, backup
	w.payer = nil
	w.restart()
}

// reconcile looks once and says whether that is not the end of it.
func (w *world) reconcile() bool {
	w.t.Helper()
	for {
		pending, behind, err := w.payer.ReconcileOnce(context.Background())
		if err != nil {
			w.t.Fatal(err)
		}
		if !behind {
			return pending
		}
	}
}

func (w *world) mustReconcile() {
	w.t.Helper()
	if w.reconcile() {
		w.t.Fatal("still pending")
	}
}

// buy makes a proxied purchase; the seller moves the money if it settles.
func (w *world) buy(url, amount, idem string, settles bool) (*pay.Payment, error) {
	a, err := w.payer.Open(context.Background(), w.proxied(url, amount, idem))
	if err != nil {
		return nil, err
	}
	if settles {
		w.sellerMoves(a.Payload())
	}
	a.Finish(settles)
	w.idle()
	return a.Payment(), nil
}

// idle waits until nothing is held any more.
func (w *world) idle() {
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if w.store.leases() == 0 {
			return
		}
	}
	w.t.Fatal("a lease is not released")
}

func (w *world) mustBuy(url, amount, idem string, settles bool) *pay.Payment {
	w.t.Helper()
	p := must(w.buy(url, amount, idem, settles))
	return p
}

// booksAreTheChain demands that every move of the chain is one settled payment with one
// event, and nothing else is.
func (w *world) booksAreTheChain() {
	w.t.Helper()
	rows := map[x402.Nonce]*pay.Payment{}
	for _, p := range w.store.payments() {
		if p.State == pay.Settled {
			if rows[p.Authorization.Nonce] != nil {
				w.t.Errorf("booked twice: %s", p.ID)
			}
			rows[p.Authorization.Nonce] = p
		}
	}
	var moved, booked money.Amount
	for _, m := range w.chain.log {
		p := rows[m.auth.Nonce]
		if p == nil || p.Transaction != m.tx || p.Terms.Amount != m.auth.Value || p.Terms.PayTo != m.auth.To {
			w.t.Errorf("a move that is not booked: %+v, %+v", m, p)
		}
		moved, _ = moved.Add(m.auth.Value)
	}
	events := w.store.events()
	for _, e := range events {
		booked, _ = booked.Add(e.Amount)
	}
	if len(rows) != len(w.chain.log) || len(events) != len(rows) || moved != booked {
		w.t.Errorf("%d rows, %d events, %d moves; %s booked, %s moved", len(rows), len(events), len(w.chain.log), booked, moved)
	}
	w.checkBooks()
}

// TestReconcile lives through a loss of the books: what was paid after the backup is booked
// from the chain, no repeat pays again, and limits hold.
func TestReconcile(t *testing.T) {
	t.Parallel()
	for _, withBlock := range []bool{true, false} {
		t.Run(fmt.Sprint("with a block: ", withBlock), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *pay.Options) {
				o.DefaultPolicy = policy.Policy{DailyBudget: policy.CapOf(money.New(100_000))}
			})
			w.chain.lag = 90 * time.Second
			w.mustBuy("https://api.example.com/before", "1", "before", true)
			w.chain.advance(10 * time.Minute)
			w.recoverAll()
			void := w.mustBuy("https://api.example.com/tried", "2", "tried", false)
			open := w.mustBuy("https://api.example.com/open", "3", "open", false)
			backup, taken := w.store.snapshot(), w.chain.clock()
			openPayload := must(payloadOf(w.payment(open.ID)))

			w.chain.advance(20 * time.Second)
			w.sellerMoves(openPayload)
			w.mustBuy("https://api.example.com/keyless", "10", "", true)
			w.mustBuy("https://api.example.com/keyed", "20", "keyed", true)
			rest := w.mustBegin(w.rest(pay.SettlePayer, "https://api.example.com/rest", "40", "rest"))
			rest.Finish(true)
			seller := w.mustBegin(w.rest(pay.SettleSeller, "https://api.example.com/seller", "80", "seller"))
			w.sellerMoves(seller.Payload())
			seller.Finish(true)
			w.chain.advance(10 * time.Minute)
			w.recoverAll() // the unsettled attempt is void, and is made again
			if p := w.payment(void.ID); p.State != pay.Void {
				t.Fatalf("%+v", p)
			}
			w.mustBuy("https://api.example.com/tried", "160", "tried", false)
			w.chain.advance(10 * time.Minute)
			w.recoverAll()
			w.mustBuy("https://api.example.com/tried", "160", "tried", true)
			late := w.mustOpen(w.proxied("https://api.example.com/late", "320", "late"))
			w.chain.advance(20 * time.Second)
			w.restore(backup, taken, withBlock)
			restoredAt := w.chain.clock()
			w.sellerMoves(late.Payload()) // after the restore, when no record of it is left
			late.Finish(true)

			// Nothing begins, whatever the door.
			refused := func() {
				t.Helper()
				for _, r := range []pay.Request{
					w.proxied("https://api.example.com/new", "5", ""), w.proxied("https://api.example.com/new", "5", "new"),
					w.rest(pay.SettlePayer, "https://api.example.com/new", "5", ""), w.proxied("https://api.example.com/keyless", "10", ""),
				} {
					_, err := w.payer.Open(t.Context(), r)
					restored, ok := errors.AsType[*pay.ReconcilingError](err)
					if !ok || !restored.Taken.Equal(taken) || !errors.Is(err, pay.ErrUnavailable) {
						t.Fatalf("error %v", err)
					}
				}
			}
			moves := w.chain.moves()
			for w.chain.clock().Before(restoredAt.Add(300*time.Second + pay.RepeatGrace)) {
				refused()
				var both sync.WaitGroup
				both.Go(func() { w.reconcile() })
				both.Go(func() {
					if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
						t.Error(err)
					}
				})
				both.Wait()
				if h := w.payer.Health(t.Context()); h.OK || h.Reconciling == nil || h.Reconciling.Networks[0].Err != nil {
					t.Fatalf("%+v", h)
				}
				w.chain.advance(15 * time.Second)
			}
			w.mustReconcile()
			if h := w.payer.Health(t.Context()); !h.OK || h.Reconciling != nil {
				t.Fatalf("%+v", h)
			}
			w.recoverAll()
			if w.chain.moves() != moves {
				t.Fatal("money was moved")
			}
			w.booksAreTheChain()

			// Repeats of what was paid get the payment, and none of them moves money.
			for url, amount := range map[string]string{"keyed": "20", "tried": "160", "late": "320"} {
				_, err := w.buy("https://api.example.com/"+url, amount, url, true)
				spent, ok := errors.AsType[*pay.SpentError](err)
				if !ok || !spent.Payment.Reconciled || spent.Payment.Terms.Amount.String() != amount {
					t.Errorf("%s: %v", url, err)
				}
			}
			for _, r := range []pay.Request{
				w.rest(pay.SettlePayer, "https://api.example.com/rest", "40", "rest"), w.rest(pay.SettleSeller, "https://api.example.com/seller", "80", "seller"),
			} {
				a := w.mustBegin(r)
				if p := a.Payment(); p.State != pay.Settled || !p.Reconciled || p.Transaction == "" || a.Payload().Header() != "" {
					t.Errorf("%+v", p)
				}
				a.Finish(true)
				r.Challenge = challenge(t, "41")
				if _, err := w.payer.Pay(t.Context(), r); !errors.Is(err, pay.ErrIdempotencyReused) {
					t.Errorf("other terms: %v", err)
				}
			}
			if a, err := w.payer.Open(t.Context(), w.proxied("https://api.example.com/open", "3", "open")); err != nil || a.Payment().State != pay.Settled {
				t.Errorf("what the backup had open: %v", err)
			} else {
				a.Finish(true)
			}
			if w.chain.moves() != moves {
				t.Fatal("a repeat moved money")
			}
			for _, c := range []pay.Counter{pay.PlaceCounter("key/"+w.key.ID, restoredAt), pay.DailyCounter(w.key.ID, "USDC", restoredAt)} {
				n := must(w.store.Counter(t.Context(), c))
				want := money.New(8) // places
				if strings.HasPrefix(string(c), "day/") {
					want = money.New(1 + 3 + 10 + 20 + 40 + 80 + 160 + 320)
				}
				if n != want {
					t.Errorf("%s is %s, want %s", c, n, want)
				}
			}
			w.mustBuy("https://api.example.com/new", "5", "new", true)
		})
	}
}

// status is that of the only network.
func (w *world) status() (*pay.ReconcileStatus, pay.NetworkReconciling) {
	w.t.Helper()
	s, err := w.payer.Reconciling(context.Background())
	if err != nil || s == nil || len(s.Networks) != 1 {
		w.t.Fatalf("%+v, %v", s, err)
	}
	return s, s.Networks[0]
}

// An RPC that cannot be relied on ends nothing, however long it takes.
func TestReconcileWithABadRPC(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*world)
		mend  func(*world)
		says  string
	}{
		"down": {func(w *world) { w.chain.rpc(true, false) }, func(w *world) { w.chain.rpc(false, false) }, "rpc down"},
		"another genesis": {
			func(w *world) { w.chain.gen = "0x" + strings.Repeat("9", 64) }, func(w *world) { w.chain.gen = newTruth().gen }, "another chain",
		},
		"another block at the backup's": {
			func(w *world) {
				w.chain.past = map[uint64]string{w.store.restored().Block.Number: "0x" + strings.Repeat("7", 64)}
			},
			func(w *world) { w.chain.past = nil }, "the block of the backup",
		},
		"behind": {func(w *world) { w.chain.lag = time.Hour }, func(w *world) { w.chain.lag = 0 }, ""},
		"behind the backup": {
			func(w *world) { w.chain.lag = 24 * time.Hour }, func(w *world) { w.chain.lag = 0 }, "another chain than the backup",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.mustBuy("https://api.example.com/a", "1", "", true)
			w.chain.advance(10 * time.Minute)
			w.recoverAll()
			w.chain.advance(time.Hour)
			backup, taken := w.store.snapshot(), w.chain.clock()
			w.mustBuy("https://api.example.com/b", "1", "", true)
			w.chain.advance(10 * time.Minute)
			w.restore(backup, taken, true)
			w.chain.advance(time.Minute)
			c.spoil(w)
			for range 5 {
				w.chain.advance(10 * time.Minute)
				if !w.reconcile() {
					t.Fatal("reconciled")
				}
			}
			_, n := w.status()
			if c.says != "" && (n.Err == nil || !strings.Contains(n.Err.Error(), c.says)) {
				t.Errorf("error %v", n.Err)
			}
			c.mend(w)
			w.chain.advance(10 * time.Minute)
			if w.reconcile() {
				_, n := w.status()
				t.Fatalf("still pending: %+v", n)
			}
			w.booksAreTheChain()
		})
	}
}

// An answer counts by who gave it, and not by who was asked before.
func TestReconcileByAnotherMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.mustBuy("https://api.example.com/a", "1", "", true)
	w.chain.advance(time.Minute)
	w.restore(backup, taken, false)
	w.chain.other = "0x" + strings.Repeat("8", 64)
	w.chain.advance(time.Hour)
	if !w.reconcile() || w.store.restored().Booked != 0 {
		t.Fatal("the word of another chain counts")
	}
	w.chain.other = ""
	w.mustReconcile()
	w.booksAreTheChain()
}

// A safe block that goes back by much is not where reading ends.
func TestReconcileWhenTheSafeBlockGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.chain.advance(time.Hour)
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.chain.advance(time.Minute)
	w.restore(backup, taken, true)
	w.chain.advance(6 * time.Minute)
	if !w.reconcile() {
		t.Fatal("reconciled before what was under way is over")
	}
	_, n := w.status()
	w.chain.advance(10 * time.Minute)
	w.chain.lag = 18 * time.Minute
	r := w.store.restored()
	r.At = r.At.Add(-30 * time.Minute) // the time that must be reached is long past
	w.store.Restore(r)
	if !w.reconcile() {
		t.Fatal("reconciled by an RPC that is further back than before")
	}
	if _, is := w.status(); is.Next != n.Next || is.Done {
		t.Errorf("%+v, before %+v", is, n)
	}
	w.chain.lag = 0
	w.mustReconcile()
}

// The newest blocks are read again, for an RPC whose machines do not all have them yet.
func TestReconcileReadsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.mustBuy("https://api.example.com/a", "1", "", true)
	w.chain.advance(2 * time.Minute)
	w.restore(backup, taken, true)
	hidden := w.chain.log
	w.chain.log = nil
	w.chain.advance(time.Minute)
	w.reconcile()
	w.chain.log = hidden
	w.chain.advance(10 * time.Minute)
	w.mustReconcile()
	w.booksAreTheChain()
}

// What is stopped in the middle goes on from there.
func TestReconcileAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	backup, taken := w.store.snapshot(), w.chain.clock()
	for range 20 {
		w.mustBuy("https://api.example.com/a", "1", "", true)
		w.chain.advance(time.Hour)
	}
	w.restore(backup, taken, true)
	for range 4 { // an RPC that breaks down again and again
		ctx, cancel := context.WithCancel(t.Context())
		var breaks sync.WaitGroup
		breaks.Go(func() {
			for range 1000 {
				if len(w.asked()) > 2 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			cancel()
		})
		_, _, _ = w.payer.ReconcileOnce(ctx)
		breaks.Wait()
		w.restart()
	}
	first := w.store.restored().Scans["base"].First
	if w.store.restored().Scans["base"].Next <= first {
		t.Fatalf("%+v", w.store.restored())
	}
	w.chain.advance(10 * time.Minute)
	w.mustReconcile()
	w.booksAreTheChain()
}

func (w *world) asked() []pay.UsedQuery {
	w.chain.mu.Lock()
	defer w.chain.mu.Unlock()
	return slices.Clone(w.chain.asks)
}

// Without an RPC it takes an operator's word, and the same wait.
func TestReconcileWithoutAnRPC(t *testing.T) {
	t.Parallel()
	for _, rpc := range []bool{false, true} {
		w := newWorld(t, func(o *pay.Options) {
			if !rpc {
				o.Chain = nil
			}
		})
		backup, taken := w.store.snapshot(), w.chain.clock()
		w.restore(backup, taken, false)
		w.chain.down = rpc
		for range 4 {
			if !w.reconcile() {
				t.Fatal("reconciled by nobody")
			}
			if s, n := w.status(); n.Err == nil || s.Operator == rpc {
				t.Fatalf("%+v, %+v", s, n)
			}
			w.chain.advance(10 * time.Minute)
		}
		w.restart()
		r := w.store.restored()
		r.At = w.chain.clock().Add(1000 * time.Hour) // by a clock that has been set right since
		w.store.Restore(r)
		w.reconcile()
		if err := w.payer.AcceptRisk(t.Context(), "ops"); err != nil {
			t.Fatal(err)
		}
		if !w.reconcile() {
			t.Fatal("payments that are under way were not waited for")
		}
		if s, _ := w.status(); s.Accepted == nil || s.Accepted.By != "ops" || s.Operator {
			t.Errorf("%+v", s)
		}
		w.chain.advance(299*time.Second + pay.RepeatGrace)
		if !w.reconcile() {
			t.Fatal("too early")
		}
		w.chain.advance(time.Second)
		w.mustReconcile()
		if err := w.payer.AcceptRisk(t.Context(), "ops"); !errors.Is(err, pay.ErrNotReconciling) {
			t.Errorf("error %v", err)
		}
		w.chain.down = false
		w.mustBuy("https://api.example.com/new", "5", "new", true)
	}
}

// What the chain tells of a wallet is booked for its owner, also when another key has paid, and after it was
// deleted as well. An authorization without a transfer is not booked, but is visible.
func TestReconcileOddities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first := w.store.wallet()
	second, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		w.store.ShareWallet(t.Context(), pay.Share{WalletID: first.ID, KeyIDs: []string{second.ID}, At: w.chain.clock()}),
		w.store.DeleteWallet(t.Context(), w.key.ID, first.ID, w.chain.clock().Add(time.Hour)),
	); err != nil {
		t.Fatal(err)
	}
	backup, taken := w.store.snapshot(), w.chain.clock()
	at := func(n byte, to x402.Address) {
		w.chain.log = append(w.chain.log, moved{
			auth: x402.Authorization{From: *first.Address, To: to, Value: money.New(uint64(n)), Nonce: x402.Nonce{n}},
			at:   w.chain.clock(), tx: fmt.Sprintf("0x%064x", n),
		})
	}
	w.chain.advance(time.Minute)
	at(1, x402.EVMAddress([20]byte{7})) // the wallet is there
	at(2, x402.Address{})               // no transfer
	w.chain.plain = map[string]bool{fmt.Sprintf("0x%064x", 70): true}
	w.chain.log = append(w.chain.log, moved{ // without an authorization
		auth: x402.Authorization{From: *first.Address, To: x402.EVMAddress([20]byte{8}), Value: money.New(70_000)}, at: w.chain.clock(), tx: fmt.Sprintf("0x%064x", 70),
	})
	w.chain.advance(2 * time.Hour)
	at(3, x402.EVMAddress([20]byte{7})) // it was deleted
	w.chain.advance(10 * time.Minute)
	w.restore(backup, taken, true)
	w.chain.advance(time.Minute)
	for range 3 {
		w.reconcile()
	}
	s, _ := w.status()
	if len(s.Strange) != 2 || !strings.Contains(s.Strange[0], x402.Nonce{2}.String()) || !strings.Contains(s.Strange[1], "0.07") ||
		s.StrangeCount != 2 || s.Booked != 2 {
		t.Errorf("%+v", s.Restore)
	}
	events, err := w.store.SpendEvents(t.Context(), w.key.ID, pay.SpendQuery{Limit: 9})
	if err != nil || len(events) != 2 || events[0].Amount != money.New(3) || events[1].Amount != money.New(1) {
		t.Errorf("%+v, %v", events, err)
	}
}

// A wallet whose network has no RPC is an operator's affair, whatever is known of the others.
func TestReconcileOfTwoNetworks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Networks = x402.Networks() })
	must(w.books.CreateWallet(t.Context(), w.key, "base-sepolia"))
	base, _ := x402.NetworkByWire("base")
	w.chain.id = base.ChainID
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.mustBuy("https://api.example.com/a", "1", "", true)
	w.chain.advance(time.Minute)
	w.restore(backup, taken, true)
	w.chain.advance(time.Hour)
	if !w.reconcile() {
		t.Fatal("reconciled without a word about one of the networks")
	}
	s, err := w.payer.Reconciling(t.Context())
	if err != nil || len(s.Networks) != 2 || !s.Networks[0].Done || !s.Networks[1].Unheard || !s.Operator {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := w.payer.AcceptRisk(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile()
	w.booksAreTheChain()
}

// The repeat of a keyed request has the nonce of the lost payment, even when the loss of books is
// unknown. The token then refuses to move the money twice.
func TestRolledBackByHand(t *testing.T) {
	t.Parallel()
	for _, r := range []string{"proxy", "rest"} {
		w := newWorld(t, nil)
		backup := w.store.snapshot()
		url := "https://api.example.com/x"
		call := func() error {
			if r == "proxy" {
				_, err := w.buy(url, "20", "order", true)
				return err
			}
			a, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, url, "20", "order"))
			if err == nil {
				a.Finish(true)
				w.idle()
			}
			return err
		}
		if err := call(); err != nil {
			t.Fatal(err)
		}
		w.store, w.opts.Store, w.payer = backup, backup, nil
		w.restart()
		for range 3 {
			if err := call(); err != nil && r == "proxy" {
				t.Log(err)
			}
			w.chain.advance(time.Minute)
			w.recoverAll()
		}
		if w.chain.moves() != 1 {
			t.Fatalf("%s: moved %d times", r, w.chain.moves())
		}
		w.booksAreTheChain()
	}
}

// headed is an RPC that tells its newest block, too.
type headed struct{ *truth }

func (h headed) Head(context.Context, x402.Network) (pay.ChainBlock, error) {
	return h.block(h.blockAt(h.clock())), nil
}

// A clock that was an hour behind notes the restore, and is right again soon. A payment from before the restore, which
// the seller settles after it, is found all the same.
func TestRestoreNotedByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.opts.Chain = headed{w.chain}
	w.restart()
	w.chain.lag = time.Minute
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.chain.advance(time.Minute)
	bought := w.mustOpen(w.proxied("https://api.example.com/keyed", "20", "keyed"))
	backup.Restore(pay.Restore{Taken: taken, At: w.chain.clock().Add(-time.Hour)})
	w.store, w.opts.Store = backup, backup
	w.payer = nil
	behind := time.Hour
	w.opts.Clock = func() time.Time { return w.chain.clock().Add(-behind) }
	w.restart()
	if !w.reconcile() {
		t.Fatal("it is reconciled by a clock that is wrong")
	}
	behind = 0
	if !w.reconcile() {
		t.Fatal("it is reconciled before a payment of before can be seen")
	}
	w.sellerMoves(bought.Payload())
	bought.Finish(true)
	w.chain.advance(2 * time.Minute)
	if s := must(w.payer.Reconciling(t.Context())); !w.reconcile() || s == nil || s.Target.Before(taken.Add(pay.MaxValidity)) {
		t.Fatalf("it is reconciled while a payment of before may settle: %+v", s)
	}
	w.chain.advance(10 * time.Minute)
	w.mustReconcile()
	w.booksAreTheChain()
}
