package pay_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// invented names a transaction that is on no chain.
func invented(n int) string { return fmt.Sprintf("0x%064x", n) }

// receipt posts a receipt that names a transaction.
func (w *world) receipt(k pay.Key, id, tx string) *pay.Payment {
	w.t.Helper()
	return must(w.payer.PostReceipt(context.Background(), k, id, x402.Receipt{Success: true, Network: "base", Transaction: tx}))
}

// sharing makes a key that draws from the world's wallet, too.
func (w *world) sharing() pay.Key {
	w.t.Helper()
	k, _, err := w.books.CreateKey(context.Background(), books.KeyRequest{Label: "sharing"})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.books.ShareWallet(context.Background(), w.store.wallet().ID, k.ID); err != nil {
		w.t.Fatal(err)
	}
	return k
}

// fundless reports whether a payment was declined for want of money.
func fundless(err error) bool {
	failed, is := errors.AsType[*pay.FailedError](err)
	return is && failed.Funds
}

// Whichever party claims a settlement, the wallet keeps the amount until the chain agrees: another key that shares
// the wallet cannot spend it as well.
func TestClaimKeepsTheHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim func(w *world) *pay.Payment
	}{
		"a posted receipt, proxy": {func(w *world) *pay.Payment {
			a := w.mustOpen(w.proxied("https://one.example/", "9", ""))
			a.Finish(false)
			w.quiet()
			return w.receipt(w.key, a.Payment().ID, invented(1))
		}},
		"a posted receipt, REST": {func(w *world) *pay.Payment {
			a := w.mustBegin(w.rest(pay.SettleSeller, "https://one.example/", "9", ""))
			a.Finish(true)
			w.quiet()
			return w.receipt(w.key, a.Payment().ID, invented(1))
		}},
		"the seller's receipt, transport": {func(w *world) *pay.Payment {
			r := w.proxied("https://one.example/", "9", "")
			r.Door = policy.DoorTransport
			a := w.mustOpen(r)
			a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: invented(1)})
			a.Finish(true)
			w.quiet()
			return w.payment(a.Payment().ID)
		}},
		"the facilitator's word": {func(w *world) *pay.Payment {
			w.fac.mode("", "lie")
			a := w.mustBegin(w.rest(pay.SettlePayer, "https://one.example/", "9", ""))
			a.Finish(true)
			w.quiet()
			return w.payment(a.Payment().ID)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPurse(t, 10, nil)
			other := w.sharing()
			p := c.claim(w)
			if p.State != pay.Settled || !p.Claimed() {
				t.Fatalf("%v, claimed %v", p.Labels(), p.Claimed())
			}
			theirs := func() error {
				r := w.proxied("https://two.example/", "9", "")
				r.Key = other
				a, err := w.payer.Open(context.Background(), r)
				if err == nil {
					a.Abandon("enough")
				}
				return err
			}
			for range 5 { // remembered and read afresh
				if err := theirs(); !fundless(err) {
					t.Fatalf("the wallet has 10, 9 of it may still leave, and 9 more: %v", err)
				}
				w.chain.advance(6 * time.Second)
			}
			w.restart()
			if err := theirs(); !fundless(err) {
				t.Fatalf("after a restart: %v", err)
			}
			w.checkBooks()
			w.recoverAll() // the chain disputes it
			if p := w.payment(p.ID); !p.Disputed || p.Claimed() {
				t.Fatalf("%v, claimed %v", p.Labels(), p.Claimed())
			}
			if err := theirs(); err != nil {
				t.Errorf("what the chain disproved is still held: %v", err)
			}
			w.checkBooks()
		})
	}
}

// Without an RPC there is no better word: a claim ends the hold at once, also where the RPC has gone since.
func TestClaimWithoutAnRPC(t *testing.T) {
	t.Parallel()
	open := func(w *world) string {
		a := w.mustOpen(w.proxied("https://one.example/", "9", ""))
		a.Finish(false)
		w.quiet()
		return a.Payment().ID
	}
	held := func(w *world) string {
		return must(w.payer.WalletOpen(context.Background(), w.store.wallet())).String()
	}
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	if p := w.receipt(w.key, open(w), invented(1)); p.Claimed() || held(w) != "0" {
		t.Errorf("%v, %s held", p.Labels(), held(w))
	}
	w.checkBooks()

	w = newWorld(t, nil)
	settled, unresolved := open(w), w.mustOpen(w.proxied("https://two.example/", "9", ""))
	unresolved.Finish(false)
	w.quiet()
	w.receipt(w.key, settled, invented(1))
	if held(w) != "18" {
		t.Errorf("%s held", held(w))
	}
	w.opts.Chain = nil
	w.restart()
	w.recoverAll()
	if held(w) != "0" || !w.payment(unresolved.Payment().ID).Unresolved {
		t.Errorf("%s held for good: %v", held(w), w.payment(unresolved.Payment().ID).Labels())
	}
	w.checkBooks()
}

// A wallet that is nearly empty goes on at once: before a payment is declined for want of money, the chain
// is asked about those that are settled by a claim.
func TestNearlyEmptyWalletGoesOn(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 40, nil)
	other := w.sharing()
	buy := func(n int) {
		t.Helper()
		r := w.proxied(fmt.Sprintf("https://one.example/%d", n), "1", "")
		if n%2 == 1 {
			r.Key = other
		}
		a, err := w.payer.Open(context.Background(), r)
		if err != nil {
			t.Fatalf("payment %d: %v", n, err)
		}
		tx := w.sellerMoves(a.Payload())
		a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
		a.Finish(true)
		w.quiet()
	}
	for n := range 39 {
		buy(n)
	}
	if n := w.chain.traces(); n > 80 {
		t.Errorf("%d questions for 39 payments", n)
	}
	buy(39)
	r := w.proxied("https://one.example/more", "1", "")
	if _, err := w.payer.Open(context.Background(), r); !fundless(err) {
		t.Errorf("the wallet is empty: %v", err)
	}
	w.checkBooks()
	w.recoverAll()
	w.checkBooks()
}

// Calls that come at once share the look, and none is declined for what has left already.
func TestNearlyEmptyWalletOfManyCalls(t *testing.T) {
	t.Parallel()
	w := newPurse(t, 20, nil)
	for n := range 10 {
		a := w.mustOpen(w.proxied(fmt.Sprintf("https://one.example/%d", n), "1", ""))
		tx := w.sellerMoves(a.Payload())
		a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
		a.Finish(true)
	}
	w.quiet()
	w.chain.advance(6 * time.Second) // 10 are left, and 10 are still held
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			a, err := w.payer.Open(context.Background(), w.proxied(fmt.Sprintf("https://two.example/%d", n), "1", ""))
			if err != nil {
				t.Errorf("call %d: %v", n, err)
				return
			}
			a.Finish(true)
		})
	}
	all.Wait()
	w.quiet()
	w.checkBooks()
}

// A posted receipt is the key's word: it frees no place among the unanswered payments of its host until the
// chain agrees. Those of which the chain knows are asked about before another one is declined.
func TestPostedReceiptsKeepTheirHost(t *testing.T) {
	t.Parallel()
	post := func(w *world, n int, honest bool) error {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, fmt.Sprintf("https://one.example/%d", n), "1", ""))
		if err != nil {
			return err
		}
		tx := invented(n + 1)
		if honest {
			tx = w.sellerMoves(a.Payload())
		}
		a.Finish(true)
		w.quiet()
		w.receipt(w.key, a.Payment().ID, tx)
		return nil
	}
	liar, honest := newWorld(t, nil), newWorld(t, nil)
	for n := range pay.MaxUnansweredPerHost + 1 {
		err := post(liar, n, false)
		if refused, is := errors.AsType[*pay.PolicyError](err); (n == pay.MaxUnansweredPerHost) != (is && refused.Rule == "unanswered") {
			t.Fatalf("payment %d: %v", n, err)
		}
	}
	for n := range 3 * pay.MaxUnansweredPerHost {
		if err := post(honest, n, true); err != nil {
			t.Fatalf("honest payment %d: %v", n, err)
		}
	}
	for _, w := range []*world{liar, honest} {
		w.checkBooks()
		w.recoverAll()
		w.checkBooks()
	}
	if err := post(liar, 1000, true); err != nil {
		t.Errorf("once the chain has spoken: %v", err)
	}
}

// alarms counts refused and void payments that have moved money.
type alarms struct {
	pay.Observer
	n atomic.Int64
}

func (c *alarms) Contradicted(*pay.Payment) { c.n.Add(1) }

// With an RPC, a receipt reopens no payment that is void or refused, and raises no alarm. The chain does both.
// Junk fills no story: purser's own findings have room.
func TestJunkReceipts(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} {
		alarm := &alarms{Observer: newEars()}
		w := newWorld(t, func(o *pay.Options) {
			o.Observer = alarm
			if !watched {
				o.Chain = nil
			}
		})
		a := w.mustOpen(w.proxied("https://one.example/", "9", ""))
		payload := a.Payload()
		a.Abandon("no connection")
		w.quiet()
		id := a.Payment().ID
		for n := range 60 {
			bad := x402.Receipt{Success: n%2 == 0, Network: "polygon", ErrorReason: fmt.Sprint("no ", n), Transaction: invented(n)}
			must(w.payer.PostReceipt(context.Background(), w.key, id, bad))
		}
		got := w.receipt(w.key, id, invented(1))
		if (got.State == pay.Void) != watched || alarm.n.Load() != 0 || len(got.Notes) >= 20 {
			t.Errorf("watched %v: %v, %d alarms, %d notes", watched, got.Labels(), alarm.n.Load(), len(got.Notes))
		}
		if !watched {
			continue
		}
		if got.Receipted || !got.Doubted {
			t.Error("the repeat would get another authorization")
		}
		tx := w.sellerMoves(payload)
		w.chain.advance(2 * time.Second) // the chain's word is remembered for one
		got = w.receipt(w.key, id, tx)
		last := got.Notes[len(got.Notes)-1].Text
		if got.State != pay.Settled || got.Claimed() || alarm.n.Load() != 1 || last != "settled after it was void" {
			t.Errorf("%v, %d alarms, last note %q", got.Labels(), alarm.n.Load(), last)
		}
		w.checkBooks()
	}
}

// Payments that end disputed or unresolved are failures of their key, whatever it says of them.
func TestClaimsAreBounded(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} {
		w := newWorld(t, func(o *pay.Options) {
			o.Failures = pay.FailureBounds{PerMinute: 20, PerDay: 50}
			if !watched {
				o.Chain = nil
			}
		})
		w.key = must(w.store.SetPolicy(context.Background(), w.key.ID, &policy.Policy{MaxPayment: policy.NoCap()}))
		made := 0
		for round := range 10 {
			for n := range 15 {
				a, err := w.payer.Open(context.Background(), w.proxied(fmt.Sprintf("https://h%d.example/%d", round, n), "1", ""))
				if err != nil {
					if _, is := errors.AsType[*pay.FailuresError](err); !is {
						t.Fatal(err)
					}
					break
				}
				made++
				a.Finish(true)
				w.quiet()
				if watched {
					w.receipt(w.key, a.Payment().ID, invented(made))
				}
			}
			w.chain.advance(2 * time.Minute)
			w.recoverOnce()
		}
		if made < 50 || made > 50+15 {
			t.Errorf("watched %v: %d payments of which none moved money, with at most 50 a day", watched, made)
		}
		w.checkBooks()
	}
}

// A key begins so many payments in a minute at most, at each door, also where they move money.
func TestNewPaymentsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Failures = pay.FailureBounds{PerMinute: -1, PerDay: -1} })
	hundred, none := 100, 0
	for name, c := range map[string]struct {
		own, most *int
		door      policy.Door
		operator  bool
		want      uint64
	}{
		"REST":                                {door: policy.DoorAPI, want: 3000},
		"REST, the operator's key":            {door: policy.DoorAPI, operator: true, want: 3000},
		"proxy":                               {door: policy.DoorProxy, want: 3000},
		"REST, with a lower default":          {door: policy.DoorAPI, most: &hundred, want: 3000}, // it is no limit there
		"REST, switched off":                  {door: policy.DoorAPI, most: &none},
		"proxy, switched off":                 {door: policy.DoorProxy, most: &none},
		"REST, with a limit of the key's own": {door: policy.DoorAPI, own: &hundred},
	} {
		k := w.key
		k.Operator = c.operator
		if c.own != nil {
			k.Policy = &policy.Policy{PerMinute: c.own}
		}
		w.opts.DefaultPolicy = policy.Policy{PerMinute: c.most}
		w.restart()
		if got := pay.PaceOf(w.payer, k, c.door); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
