package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// Restorer is an opener that can turn its closed store into one that was restored from a backup.
// Without it the tests of reconciling are skipped.
type Restorer interface {
	Restore(t testing.TB, taken time.Time)
	// Snapshot keeps the closed store as it is; back restores it.
	Snapshot(t testing.TB) (back func())
}

// restored opens the store again as a restored one.
func (f *fixture) restored(taken time.Time) {
	f.Helper()
	r, ok := f.open.(Restorer)
	if !ok {
		f.Skip("the store is not restored from files")
	}
	f.check()
	f.open.Close(f)
	r.Restore(f, taken)
	f.Store = f.open.Open(f)
}

// onChain makes a payment as reconciling finds it.
func onChain(k pay.Key, seed string, nonce x402.Nonce) *pay.Payment {
	five := money.New(5)
	id := newID()
	p := &pay.Payment{
		ID: id, KeyID: k.ID, Created: noon, Closed: noon, State: pay.Settled, Confirmed: true, Reconciled: true, Answered: true,
		Terms:    pay.Terms{Network: "base", Scheme: "exact", Asset: x402.EVMAddress([20]byte{0xa5}), PayTo: x402.EVMAddress([20]byte{0x70}), Amount: five},
		Currency: "USDC", WalletID: "wallet-of-" + k.ID, Transaction: transaction(seed), EventID: newID(),
		Authorization: x402.Authorization{From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{0x70}), Value: five, ValidBefore: uint64(noon.Unix()), Nonce: nonce},
		Check:         noon.Add(pay.RetainPayload),
	}
	for c, n := range map[pay.Counter]uint64{placeOf(k): 1, budgetOf(k): 5} {
		p.Reservations = append(p.Reservations, pay.Reservation{Counter: c, Amount: money.New(n), Release: pay.ReleaseBudget})
	}
	return p
}

func nonceOf(seed string) x402.Nonce { return x402.Nonce(pay.HashOf(seed)) }

// finds reads more blocks and demands how many payments were new.
func (f *fixture) finds(n int, list ...*pay.Payment) {
	f.Helper()
	f.same("booked", len(must(f.Reconcile(f.ctx, pay.ReconcileStep{Network: "base", Scan: pay.Scan{First: 1, Next: 9}, Found: list}))), n)
}

// ended ends reconciling.
func (f *fixture) ended() {
	f.Helper()
	f.must(f.EndReconciling(f.ctx, noon.Add(time.Hour)))
	f.same("to reconcile", must(f.Restored(f.ctx)), nil)
}

// refuses demands that a restored store refuses a call.
func (f *fixture) refuses(b *pay.Begin) {
	f.Helper()
	_, err := f.Begin(f.ctx, b)
	var restored *pay.ReconcilingError
	if !errors.As(err, &restored) || !errors.Is(err, pay.ErrUnavailable) {
		f.Fatalf("error is %v", err)
	}
}

// attempt makes one more attempt of a call and voids it.
func (f *fixture) attempt(b *pay.Begin, at time.Duration) *pay.Payment {
	f.Helper()
	p := f.begin(again(b, noon.Add(at)), pay.Created)
	o := outcome(p, pay.VerdictVoid)
	o.Release = true
	return f.record(o)
}

var reconcileTests = map[string]func(*fixture){
	"nothing to reconcile": func(f *fixture) {
		f.same("to reconcile", must(f.Restored(f.ctx)), nil)
		_, err := f.Reconcile(f.ctx, pay.ReconcileStep{Network: "base", Found: []*pay.Payment{onChain(f.key(), "a", nonceOf("a"))}})
		f.fails(err, pay.ErrNotReconciling)
		f.fails(f.EndReconciling(f.ctx, noon), pay.ErrNotReconciling)
		f.fails(f.AcceptRisk(f.ctx, pay.Acceptance{At: noon}), pay.ErrNotReconciling)
	},
	"nonces of attempts": func(f *fixture) {
		k := f.key()
		seen := map[x402.Nonce]string{}
		differs := func(p *pay.Payment, what string) {
			f.Helper()
			if was := seen[p.Authorization.Nonce]; was != "" {
				f.Fatalf("%s and %s have one nonce", was, what)
			}
			seen[p.Authorization.Nonce] = what
		}
		b := under(want(k, noon), "order 1")
		for n := range 5 {
			p := f.attempt(b, 0)
			f.same("attempt", p.Attempt, n+1)
			differs(p, fmt.Sprint("attempt ", n+1))
		}
		for _, other := range []*pay.Begin{under(want(k, noon), "order 2"), under(want(f.key(), noon), "order 1"), under(want(k, noon), "order 11")} {
			differs(f.attempt(other, 0), "another key")
		}
		keyless := want(k, noon)
		p := f.begin(keyless, pay.Created)
		f.same("a nonce of its own", p.Authorization.Nonce, keyless.New.Authorization.Nonce)
		f.same("attempt", p.Attempt, 0)
	},
	"nonces outlive the idempotency key": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		p := f.begin(b, pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.Retire, o.Release, o.Answered = true, true, true
		f.record(o)
		f.reopen(Opener.Close)
		second := f.repeats(b, soon, pay.Created, p)
		f.same("attempt", second.Attempt, 2)
		if second.Authorization.Nonce == p.Authorization.Nonce {
			f.Fatal("a nonce that is used on the chain")
		}
	},
	"restored: nothing begins": func(f *fixture) {
		k := f.key()
		settled, open, keyless := under(want(k, noon), "order 1"), under(want(k, noon), "order 2"), want(k, noon)
		paid := f.settle(f.begin(settled, pay.Created), true)
		f.release(f.begin(open, pay.Created), false)
		unanswered := f.settle(f.begin(keyless, pay.Created), false)
		waiting := want(k, noon)
		f.release(f.begin(waiting, pay.Created), false)
		f.restored(noon)
		r := must(f.Restored(f.ctx))
		f.same("taken", r.Taken, noon)
		f.refuses(want(k, noon))
		f.refuses(under(want(k, noon), "order 3"))
		// Another attempt may have taken the place of one that is open here.
		f.refuses(again(open, noon.Add(soon)))
		f.refuses(again(waiting, noon.Add(soon)))
		f.repeats(settled, soon, pay.Stored, paid)
		f.release(f.repeats(keyless, soon, pay.Resent, unanswered), false)
		f.counts("place", placeOf(k), 4)
		f.reopen(Opener.Kill)
		f.refuses(want(k, noon))
		f.ended()
		f.release(f.begin(want(k, noon), pay.Created), true)
		f.begin(again(open, noon.Add(soon)), pay.Driven)
		f.fails(f.EndReconciling(f.ctx, noon), pay.ErrNotReconciling)
		f.reopen(Opener.Kill)
		f.begin(want(k, noon), pay.Created)
	},
	"restored: booked once": func(f *fixture) {
		k := f.key()
		b := want(k, noon)
		ours := f.settle(f.begin(b, pay.Created), true)
		open := f.release(f.begin(want(k, noon), pay.Created), false)
		refused := f.begin(want(k, noon), pay.Created)
		o := outcome(refused, pay.VerdictRefused)
		o.Release = true
		f.record(o)
		f.restored(noon)
		known := []*pay.Payment{}
		for _, p := range []*pay.Payment{ours, open, refused} {
			q := onChain(k, p.ID, p.Authorization.Nonce)
			known = append(known, q)
		}
		lost := onChain(k, "lost", nonceOf("lost"))
		f.finds(1, append(known, lost)...)
		again := *lost
		again.ID, again.EventID = newID(), newID()
		f.finds(0, lost, &again)
		again.Transaction = transaction("a reorganization")
		f.finds(0, &again)
		f.reopen(Opener.Kill)
		f.finds(0, append(known, lost, &again)...)
		f.same("booked", f.find(lost.ID), lost)
		f.same("events", len(f.events(k)), 2)
		f.counts("place", placeOf(k), 3) // the refused one gave its own back
		f.counts("budget", budgetOf(k), 20)
		f.same("by its flag", f.list(k, "reconciled", 10), []string{lost.ID})
		f.same("number", must(f.CountOpen(f.ctx, "reconciled")), 1)
		r := must(f.Restored(f.ctx))
		f.same("progress", []any{r.Booked, r.Scans["base"]}, []any{1, pay.Scan{First: 1, Next: 9}})
		// The nonce of another wallet is another authorization.
		elsewhere := onChain(k, "elsewhere", lost.Authorization.Nonce)
		elsewhere.Authorization.From = x402.EVMAddress([20]byte{2})
		f.finds(1, elsewhere)
		// What the backup has open is settled by recovery, and counted once.
		f.settle(f.acquired(open.ID), true)
		f.same("events", len(f.events(k)), 4)
		f.ended()
	},
	"restored: the strange": func(f *fixture) {
		f.restored(noon)
		for range 2 {
			for i := range 30 {
				must(f.Reconcile(f.ctx, pay.ReconcileStep{Network: "base", Scan: pay.Scan{First: 1, Next: 2}, Strange: []string{fmt.Sprint(i % 25)}}))
			}
		}
		r := must(f.Restored(f.ctx))
		f.same("kept", len(r.Strange), 20)
		if r.StrangeCount < 20 {
			f.Fatalf("%d", r.StrangeCount)
		}
		f.must(f.AcceptRisk(f.ctx, pay.Acceptance{At: noon, By: "ops"}))
		f.reopen(Opener.Kill)
		r = must(f.Restored(f.ctx))
		f.same("accepted", r.Accepted, &pay.Acceptance{At: noon, By: "ops"})
	},
	"restored: repeats of what is found after many attempts": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		f.attempt(b, 0)
		lost := f.lostAttempts(b, 150)
		f.finds(2, onChain(k, "lost", lost[140]), onChain(k, "before", lost[9]))
		f.ended()
		repeat := again(b, noon.Add(soon))
		repeat.Terms = repeat.New.Terms
		if p := f.begin(repeat, pay.Stored); p.Authorization.Nonce != lost[140] {
			f.Fatalf("served by %s", text(p))
		}
		for _, other := range []*pay.Begin{under(want(k, noon), "order 2"), under(want(f.key(), noon), "order 1")} {
			f.same("attempt", f.begin(other, pay.Created).Attempt, 1)
		}
	},
	"restored: repeats of what is found": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		first := f.attempt(b, 0) // in the backup, void
		lost := f.lostAttempts(b, 4)
		f.finds(1, onChain(k, "lost", lost[2])) // the second and third moved nothing, the fifth neither
		f.ended()
		same := func(how pay.How, resend bool) {
			f.Helper()
			repeat := again(b, noon.Add(soon))
			repeat.Resend, repeat.Terms = resend, repeat.New.Terms
			p := f.begin(repeat, how)
			if !p.Reconciled || p.ID == first.ID {
				f.Fatalf("served by %s", text(p))
			}
		}
		same(pay.Stored, false)
		same(pay.Spent, true)
		other := again(b, noon.Add(soon))
		other.Terms = other.New.Terms
		other.Terms.Amount = money.New(6)
		_, err := f.Begin(f.ctx, other)
		f.fails(err, pay.ErrIdempotencyReused)
		unknown := again(b, noon.Add(soon))
		unknown.New, unknown.Declined = nil, errRefused
		f.begin(unknown, pay.Stored)
		f.counts("place", placeOf(k), 1) // of the one found; the void one gave its own back

		// Once it is forgotten, the next attempt is behind it.
		held := f.acquired(f.list(k, "reconciled", 1)[0])
		o := outcome(held, pay.Unclear)
		o.Retire, o.Release = true, true
		f.record(o)
		next := f.begin(again(b, noon.Add(soon)), pay.Created)
		f.same("attempt", next.Attempt, 5)
		f.same("nonce", next.Authorization.Nonce, lost[3])
	},
	"restored: repeats of an order whose challenge chose the nonce": func(f *fixture) {
		k := f.key()
		marked := func(order uint64, at time.Duration) *pay.Begin {
			b := under(want(k, noon.Add(at)), fmt.Sprint("order ", order))
			b.Order, b.Terms = order, b.New.Terms
			return ofChallenge(b, newID())
		}
		void := f.attempt(marked(7, 0), 0) // in the backup
		f.restored(noon)
		lost := onChain(k, "lost", nonceOf("chosen by a challenge"))
		lost.Authorization.ValidAfter = 7
		f.finds(2, lost, onChain(k, "of no order", nonceOf("another")))
		f.ended()
		served := func() {
			f.Helper()
			f.same("served by", f.begin(marked(7, soon), pay.Stored).ID, lost.ID)
			resent := marked(7, soon)
			resent.Resend = true
			f.same("sent again", f.begin(resent, pay.Spent).ID, lost.ID)
			dearer := marked(7, soon)
			dearer.Terms.Amount = money.New(6)
			_, err := f.Begin(f.ctx, dearer)
			f.fails(err, pay.ErrIdempotencyReused)
		}
		served()
		f.reopen(Opener.Kill)
		served()
		f.same("attempt of another order", f.begin(marked(8, soon), pay.Created).Attempt, 1)
		held := f.acquired(lost.ID)
		o := outcome(held, pay.Unclear)
		o.Retire, o.Release = true, true
		f.record(o)
		next := f.begin(marked(7, soon), pay.Created)
		f.same("attempt", next.Attempt, void.Attempt+1)
	},
	"restored: of many attempts": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		const many = 50
		for range many {
			f.attempt(b, 0)
		}
		lost := f.lostAttempts(b, 70)
		f.finds(2, onChain(k, "a", lost[40]), onChain(k, "b", lost[69]))
		f.ended()
		p := f.begin(again(b, noon.Add(soon)), pay.Stored)
		f.same("nonce", p.Authorization.Nonce, lost[69])
	},
}

// acquired takes the lease of a payment.
func (f *fixture) acquired(id string) *pay.Payment {
	f.Helper()
	return must(f.Acquire(f.ctx, id, owner, noon, noon.Add(pay.LeaseTime)))
}

// lostAttempts makes attempts after a backup, restores the backup, and returns the nonces of the
// attempts.
func (f *fixture) lostAttempts(b *pay.Begin, n int) (nonces []x402.Nonce) {
	f.Helper()
	files, ok := f.open.(Restorer)
	if !ok {
		f.Skip("the store is not restored from files")
	}
	f.open.Close(f)
	back := files.Snapshot(f)
	f.Store = f.open.Open(f)
	for range n {
		nonces = append(nonces, f.attempt(b, 0).Authorization.Nonce)
	}
	f.open.Close(f)
	back()
	files.Restore(f, noon)
	f.Store = f.open.Open(f)
	return nonces
}
