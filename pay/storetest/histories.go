package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// histories drives a store and the model, which is pay/memory, through the same random calls. It
// compares every answer, and at the end all that can be read. Nonces are not compared, because
// each store derives them with its own secret.
func histories(t *testing.T, fresh func(t testing.TB) Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		opener := fresh(t)
		h := &history{
			fixture: newFixture(t, opener), rt: rt, now: noon,
			model:  &fixture{TB: t, ctx: context.Background(), Store: memory.New(memory.Options{})},
			nonces: map[x402.Nonce]bool{},
		}
		defer opener.Close(t)
		for _, org := range []string{"", "org"} {
			k := newKey(org)
			for _, s := range []pay.Store{h, h.model} {
				must(s.CreateKey(h.ctx, k))
			}
			h.keys = append(h.keys, k.Key)
		}
		// Failures must reach rapid, which then looks for a shorter history.
		h.TB = failing{t, rt}
		rt.Repeat(map[string]func(*rapid.T){
			"begin": h.beginAny, "repeat": h.repeatAny, "record": h.recordAny, "record more": h.recordAny,
			"acquire": h.acquireAny, "renew": h.renewAny, "lapse": h.lapseAny, "wait": h.wait, "wait long": h.waitLong, "reopen": h.reopenAny,
			"policy": h.policyAny, "remove": h.removeAny,
		})
		h.compare()
	})
}

// failing is a test whose failures end one history of rapid.
type failing struct {
	testing.TB
	rt *rapid.T
}

func (f failing) Helper()                         { f.rt.Helper() }
func (f failing) Fatal(args ...any)               { f.rt.Fatal(args...) }
func (f failing) Fatalf(form string, args ...any) { f.rt.Fatalf(form, args...) }
func (f failing) Errorf(form string, args ...any) { f.rt.Errorf(form, args...) }

type history struct {
	*fixture
	rt     *rapid.T
	model  *fixture
	now    time.Time
	keys   []pay.Key
	calls  []*pay.Begin        // made so far
	ids    []string            // of the payments, in their order
	gone   []string            // of the removed ones
	nonces map[x402.Nonce]bool // of the payments
}

// answer compares the two answers to a call.
func (h *history) answer(what string, got any, err error, want any, wanted error) {
	h.Helper()
	if !alike(err, wanted) {
		h.Fatalf("%s: error is %v, the model has %v", what, err, wanted)
	}
	if err == nil {
		h.same(what, got, want)
	}
}

// alike reports whether two errors mean the same to a caller.
func alike(got, want error) bool {
	for _, class := range []error{pay.ErrLeaseLost, pay.ErrLeaseHeld, pay.ErrTransactionKnown, pay.ErrPaymentNotFound} {
		if errors.Is(want, class) {
			return errors.Is(got, class)
		}
	}
	return (got == nil) == (want == nil) && (got == nil || got.Error() == want.Error())
}

// plain copies a payment without its nonce.
func plain(p *pay.Payment) *pay.Payment {
	if p != nil {
		p = p.Clone()
		p.Authorization.Nonce = x402.Nonce{}
	}
	return p
}

func (h *history) call(b *pay.Begin) {
	h.calls = append(h.calls, b)
	wanted, wantErr := h.model.Begin(h.ctx, b)
	got, err := h.Begin(h.ctx, b)
	if err == nil && got.How == pay.Created {
		h.ids = append(h.ids, got.Payment.ID)
		if n := got.Payment.Authorization.Nonce; b.IdempotencyKey != "" && h.nonces[n] {
			h.Fatalf("another payment has the nonce %s of a new attempt", n)
		}
		h.nonces[got.Payment.Authorization.Nonce] = true
	}
	got.Payment, wanted.Payment = plain(got.Payment), plain(wanted.Payment)
	h.answer("begin", got, err, wanted, wantErr)
}

func (h *history) beginAny(rt *rapid.T) {
	k := rapid.SampledFrom(h.keys).Draw(rt, "key")
	b := want(k, h.now)
	b.New.ID = eventID(h.now)
	what := rapid.IntRange(0, 3).Draw(rt, "what")
	b.New.Identity = pay.HashOf("identity", fmt.Sprint(what))
	b.Identity = b.New.Identity
	b.New.Fingerprint = pay.HashOf("fingerprint", fmt.Sprint(what))
	b.Fingerprint = b.New.Fingerprint
	b.New.Host = rapid.SampledFrom([]string{"", "a.example", "b.example"}).Draw(rt, "host")
	b.New.Door = rapid.SampledFrom([]policy.Door{policy.DoorAPI, policy.DoorProxy}).Draw(rt, "door")
	b.Resend = b.New.Door == policy.DoorProxy
	if rapid.Bool().Draw(rt, "with key") {
		under(b, rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "idempotency key"))
	}
	if rapid.Bool().Draw(rt, "checked") {
		b.New.Check = h.now.Add(time.Minute)
	}
	b.New.Task = rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "task")
	if rapid.Bool().Draw(rt, "guarded") {
		two := 2
		now := must(h.model.Key(h.ctx, k.ID))
		revision := now.PolicyRevision
		revision -= min(revision, rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(rt, "revision"))
		judged(b, policy.Policy{PriceGuard: &two}, revision, rapid.Uint64Range(0, 9).Draw(rt, "amount"))
		b.New.Price = priceOf(k)
	}
	bound(b, placeOf(k), rapid.Uint64Range(0, 6).Draw(rt, "places"), pay.ErrQuota)
	bound(b, budgetOf(k), rapid.Uint64Range(5, 30).Draw(rt, "budget"), &pay.PolicyError{Rule: "daily-budget"})
	b.MaxUnanswered = rapid.IntRange(0, 2).Draw(rt, "unanswered")
	h.call(b)
}

func (h *history) policyAny(rt *rapid.T) {
	k := rapid.SampledFrom(h.keys).Draw(rt, "key")
	wanted, wantErr := h.model.SetPolicy(h.ctx, k.ID, &policy.Policy{})
	got, err := h.SetPolicy(h.ctx, k.ID, &policy.Policy{})
	h.answer("policy", got, err, wanted, wantErr)
}

func (h *history) repeatAny(rt *rapid.T) {
	if len(h.calls) == 0 {
		rt.Skip()
	}
	b := again(rapid.SampledFrom(h.calls).Draw(rt, "call"), h.now)
	b.New.ID = eventID(h.now)
	h.call(b)
}

// row draws a payment.
func (h *history) row(rt *rapid.T) *pay.Payment {
	if len(h.ids) == 0 {
		rt.Skip()
	}
	return h.model.find(rapid.SampledFrom(h.ids).Draw(rt, "payment"))
}

func (h *history) recordAny(rt *rapid.T) {
	p := h.row(rt)
	o := outcome(p, rapid.SampledFrom([]pay.Verdict{
		pay.Unclear, pay.VerdictSettled, pay.VerdictVoid, pay.VerdictRefused, pay.VerdictRefusedExpired,
		pay.VerdictUnresolved, pay.VerdictConfirmed, pay.VerdictDisputed,
	}).Draw(rt, "verdict"))
	o.At, o.EventID = h.now, eventID(h.now)
	o.Fence -= min(o.Fence, rapid.SampledFrom([]uint64{0, 0, 0, 0, 1, 9}).Draw(rt, "stale"))
	if tx := rapid.IntRange(0, 4).Draw(rt, "transaction"); tx > 0 {
		o.Transaction = transaction(fmt.Sprint(tx))
		o.ClaimedTransaction = rapid.Bool().Draw(rt, "claimed")
	}
	o.Release, o.Answered = rapid.Bool().Draw(rt, "release"), rapid.Bool().Draw(rt, "answered")
	o.Receipted, o.Checked = rapid.Bool().Draw(rt, "receipted"), rapid.Bool().Draw(rt, "looked")
	o.Retire = rapid.IntRange(0, 5).Draw(rt, "retire") == 0
	if rapid.Bool().Draw(rt, "check again") {
		o.Check = h.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(rt, "in")) * time.Second)
	}
	if (o.Verdict == pay.VerdictSettled || o.Verdict == pay.VerdictVoid) && rapid.IntRange(0, 2).Draw(rt, "resolved") == 0 {
		o.Resolution = &pay.Resolution{At: h.now, By: "someone", As: pay.State(o.Verdict), Reason: "told so"}
	}
	o.Doubted = o.Verdict == pay.VerdictVoid && o.Resolution == nil && rapid.Bool().Draw(rt, "doubted")
	if rapid.Bool().Draw(rt, "signed") {
		o.Signature = &x402.Signature{1}
	}
	wanted, _, wantErr := h.model.Record(h.ctx, o)
	got, _, err := h.Record(h.ctx, o)
	h.answer("record", plain(got), err, plain(wanted), wantErr)
}

// removeAny removes what was closed before a time.
func (h *history) removeAny(rt *rapid.T) {
	before := h.now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(rt, "hours ago")) * time.Hour)
	unwatched := rapid.Bool().Draw(rt, "no RPC")
	limit := rapid.IntRange(1, 3).Draw(rt, "at once")
	r := pay.Removal{Before: before, Unwatched: func(string) bool { return unwatched }}
	h.same("removed", h.removes(r, limit), h.model.removes(r, limit))
	h.ids = slices.DeleteFunc(h.ids, func(id string) bool {
		_, err := h.model.Payment(h.ctx, id)
		if err != nil {
			h.gone = append(h.gone, id)
		}
		return err != nil
	})
	h.check()
}

// compareClosed compares the listing of closed payments.
func (h *history) compareClosed() {
	for _, before := range []time.Time{{}, h.now.Add(-aDay)} {
		all := func(f *fixture, limit int) (list []pay.ClosedPayment) {
			for _, p := range f.closed(pay.ClosedQuery{Before: before, Limit: limit}) {
				list = append(list, pay.ClosedPayment{Payment: plain(p.Payment), Events: p.Events})
			}
			return list
		}
		h.same("closed payments", all(h.fixture, 2), all(h.model, 1000))
	}
}

func (h *history) acquireAny(rt *rapid.T) {
	p := h.row(rt)
	wanted, wantErr := h.model.Acquire(h.ctx, p.ID, "node-2", h.now, h.now.Add(pay.LeaseTime))
	got, err := h.Acquire(h.ctx, p.ID, "node-2", h.now, h.now.Add(pay.LeaseTime))
	h.answer("acquire", plain(got), err, plain(wanted), wantErr)
}

func (h *history) renewAny(rt *rapid.T) {
	p := h.row(rt)
	fence := p.Lease.Fence - min(p.Lease.Fence, rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(rt, "stale"))
	wantErr := h.model.Renew(h.ctx, p.ID, fence, h.now.Add(pay.LeaseTime))
	h.answer("renew", nil, h.Renew(h.ctx, p.ID, fence, h.now.Add(pay.LeaseTime)), nil, wantErr)
}

func (h *history) lapseAny(*rapid.T) {
	wanted, wantErr := h.model.Lapse(h.ctx, h.now, nil)
	n, err := h.Lapse(h.ctx, h.now, nil)
	h.answer("lapse", n, err, wanted, wantErr)
}

func (h *history) wait(rt *rapid.T) {
	h.now = h.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(rt, "seconds")) * time.Second)
}

func (h *history) waitLong(rt *rapid.T) {
	h.now = h.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(rt, "hours")) * time.Hour)
}

// reopenAny first ends all leases, because some stores do and some don't.
func (h *history) reopenAny(rt *rapid.T) {
	h.now = h.now.Add(time.Minute)
	h.lapseAny(rt)
	h.reopen(rapid.SampledFrom([]func(Opener, testing.TB){Opener.Close, Opener.Kill}).Draw(rt, "end"))
}

// compare compares all that can be read.
func (h *history) compare() {
	h.check()
	counters := map[pay.Counter]bool{}
	for _, id := range h.ids {
		p := h.find(id)
		h.same("payment", plain(p), plain(h.model.find(id)))
		for _, r := range p.Reservations {
			counters[r.Counter] = true
		}
		counters[p.Price] = p.Price != ""
	}
	for c, known := range counters {
		if known {
			h.both(string(c), func(f *fixture) (any, error) { return f.Counter(h.ctx, c) })
		}
	}
	for _, k := range h.keys {
		for _, label := range []string{"", "open", "settled", "void", "refused", "unresolved", "confirmed", "disputed"} {
			h.same("payments with label "+label, h.list(k, label, 3), h.model.list(k, label, 1000))
		}
		for _, task := range []string{"", "a", "b"} {
			h.compareEvents(k, task)
		}
	}
	h.compareSpend()
	h.compareClosed()
	for _, label := range []string{"", "open", "settled", "unresolved", "disputed"} {
		for _, without := range [][]string{nil, {"confirmed", "disputed"}} {
			h.same("all payments with label "+label, h.listAll(label, without, 3), h.model.listAll(label, without, 1000))
		}
		h.both("number of "+label, func(f *fixture) (any, error) {
			if label == "" {
				return 0, nil
			}
			return f.CountOpen(h.ctx, label)
		})
	}
	h.both("due", func(f *fixture) (any, error) {
		due, err := f.Due(h.ctx, h.now, 1000)
		return ids(due), err
	})
	for _, id := range append(h.gone, newID()) {
		if _, err := h.Payment(h.ctx, id); !errors.Is(err, pay.ErrPaymentNotFound) {
			h.Fatalf("a payment that no call made, or that was removed: %v", err)
		}
	}
}

// both compares a reading of the store with that of the model.
func (h *history) both(what string, read func(f *fixture) (any, error)) {
	h.Helper()
	want := must(read(h.model))
	got := must(read(h.fixture))
	h.same(what, got, want)
}

// compareEvents compares the spend events of a task; "" is any.
func (h *history) compareEvents(k pay.Key, task string) {
	events, before := []pay.SpendEvent{}, ""
	for {
		page := must(h.SpendEvents(h.ctx, k.ID, pay.SpendQuery{Task: task, Before: before, Limit: 2}))
		if len(page) == 0 {
			break
		}
		events = append(events, page...)
		before = page[len(page)-1].ID
	}
	wanted := must(h.model.SpendEvents(h.ctx, k.ID, pay.SpendQuery{Task: task, Limit: 1000}))
	h.same("events of task "+task, events, append([]pay.SpendEvent{}, wanted...))
}

// compareSpend compares the spend of all keys together.
func (h *history) compareSpend() {
	until := h.now.Add(aDay)
	for _, keys := range [][]pay.Key{h.keys, h.keys[:1]} {
		h.same("summary", h.summary(noon, until, keys...), h.model.summary(noon, until, keys...))
		for _, q := range []pay.OrganizationSpendQuery{
			{}, {Host: "a.example"}, {Task: "b"}, {Host: "b.example", Task: "a"}, {From: noon.Add(aDay)}, {Host: "a.example", To: noon.Add(aDay)},
		} {
			all := q
			all.Limit = 1000
			wanted := []pay.SpendEvent{}
			for _, e := range h.model.listed(all, 1, keys...) {
				wanted = append(wanted, e.SpendEvent)
			}
			h.lists("spend", q, keys, wanted...)
		}
	}
}
