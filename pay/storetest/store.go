package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

var storeTests = map[string]func(*fixture){
	"world": func(f *fixture) {
		world := func(base, polygon string) {
			f.Helper()
			f.same("world of base", must(f.World(f.ctx, "base")), base)
			f.same("world of polygon", must(f.World(f.ctx, "polygon")), polygon)
		}
		world("", "")
		for _, genesis := range []string{transaction("genesis"), transaction("another")} {
			f.same("world in force", must(f.SetWorld(f.ctx, "base", genesis)), transaction("genesis"))
		}
		world(transaction("genesis"), "")
		f.same("world in force", must(f.SetWorld(f.ctx, "polygon", transaction("another"))), transaction("another"))
		f.reopen(Opener.Close)
		world(transaction("genesis"), transaction("another"))
	},
	"safe blocks": func(f *fixture) {
		block := func(n uint64, what string) pay.ChainBlock {
			return pay.ChainBlock{Number: n, Hash: transaction(what), Time: noon.Add(time.Duration(n) * time.Second)}
		}
		kept := func(network string, want *pay.ChainBlock) {
			f.Helper()
			f.same("safe block of "+network, must(f.SafeBlock(f.ctx, network)), want)
		}
		first, second, other := block(10, "ten"), block(20, "twenty"), block(30, "thirty")
		kept("base", nil)
		f.must(f.KeepSafeBlock(f.ctx, "base", &second, other)) // there is none to replace
		kept("base", nil)
		f.must(f.KeepSafeBlock(f.ctx, "base", nil, first))
		kept("base", &first)
		f.must(f.KeepSafeBlock(f.ctx, "base", nil, other)) // another node was first
		f.must(f.KeepSafeBlock(f.ctx, "base", &other, second))
		kept("base", &first)
		f.must(f.KeepSafeBlock(f.ctx, "base", &first, second))
		f.must(f.KeepSafeBlock(f.ctx, "base", &second, block(19, "back")))
		f.must(f.KeepSafeBlock(f.ctx, "base", &second, block(20, "same height")))
		kept("base", &second)
		kept("polygon", nil)
		f.must(f.KeepSafeBlock(f.ctx, "polygon", nil, first))
		f.reopen(Opener.Close)
		kept("base", &second)
		f.must(f.ForgetSafeBlock(f.ctx, "base"))
		kept("base", nil)
		kept("polygon", &first)
	},
	"healthy": func(f *fixture) {
		f.must(f.Health(f.ctx))
		if f.Kind() == "" {
			f.Fatal("an engine without a name")
		}
	},
	"a context that ended": func(f *fixture) {
		k := f.key()
		ctx, end := context.WithCancel(f.ctx)
		end()
		_, err := f.CreateKey(ctx, newKey(""))
		f.fails(err, context.Canceled)
		_, err = f.Key(ctx, k.ID)
		f.fails(err, context.Canceled)
		_, err = f.Payments(ctx, pay.PaymentQuery{KeyID: k.ID, Limit: 1})
		f.fails(err, context.Canceled)
		_, err = f.SpendEvents(ctx, k.ID, pay.SpendQuery{Limit: 1})
		f.fails(err, context.Canceled)
		_, err = f.Lapse(ctx, noon, nil)
		f.fails(err, context.Canceled)
	},
	"reopened": func(f *fixture) { f.survives(Opener.Close) },
	"crashed":  func(f *fixture) { f.survives(Opener.Kill) },
}

// reopen ends the store and opens it again.
func (f *fixture) reopen(end func(Opener, testing.TB)) {
	f.Helper()
	f.check()
	end(f.open, f)
	f.Store = f.open.Open(f)
}

// survives demands everything after the store was opened again.
func (f *fixture) survives(end func(Opener, testing.TB)) {
	newClaimed := newKey("org")
	newClaimed.Plan = pay.PlanDeveloper
	k := must(f.CreateKey(f.ctx, newClaimed))
	w := newWallet(k)
	f.must(f.CreateWallet(f.ctx, w, 10))

	b := under(want(k, noon), "order 1")
	settled := f.settle(f.begin(b, pay.Created), true)
	unanswered := want(k, noon)
	open := f.release(f.begin(unanswered, pay.Created), false)
	held := f.begin(want(k, noon), pay.Created)
	o := outcome(held, pay.Unclear)
	o.Check = noon
	f.record(o)

	f.reopen(end)

	f.same("key", must(f.KeyBySecret(f.ctx, newClaimed.Secret)), k)
	org := must(f.Organization(f.ctx, "org"))
	f.same("plan", org.Plan, pay.PlanDeveloper)
	f.same("wallets", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{w.Wallet})
	secret := must(f.WalletSecret(f.ctx, w.ID))
	f.same("wallet secret", secret, w.Secret)

	f.same("settled payment", f.find(settled.ID), settled)
	f.same("open payment", f.find(open.ID), open)
	f.books(k, 3, 2, 15, 10, 3)
	f.same("number of events", len(f.events(k)), 1)
	f.same("open payments", f.list(k, "open", 10), newestFirst(open, held))
	f.same("due", ids(must(f.Due(f.ctx, noon, 10))), []string{held.ID})

	f.repeats(b, soon, pay.Stored, settled)
	f.repeats(unanswered, soon, pay.Driven, open)

	// A lease of before is over now or will be.
	if _, err := f.Lapse(f.ctx, noon.Add(lapsed), nil); err != nil {
		f.Fatal(err)
	}
	got := f.find(held.ID)
	f.same("an earlier lease", []any{got.Lease.Owner, got.Lease.Fence, got.Unanswered}, []any{"", 1, true})
	next := must(f.Acquire(f.ctx, held.ID, "node-2", noon.Add(lapsed), noon.Add(time.Hour)))
	f.same("fence", next.Lease.Fence, 2)
}
