package storetest

import (
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Moments of a repeat, after noon: the validity of the tests' payments is a minute.
const (
	soon    = 10 * time.Second
	tooLate = 55 * time.Second                // less than ResendMargin is left
	expired = 2 * time.Minute                 // but within RepeatGrace
	over    = time.Minute + pay.RepeatGrace   // the first moment out of the window
	lapsed  = pay.LeaseTime + time.Nanosecond // an unreleased lease is over
)

// repeats demands the way in which a repeat is served, and the payment that serves it.
func (f *fixture) repeats(b *pay.Begin, after time.Duration, how pay.How, p *pay.Payment) *pay.Payment {
	f.Helper()
	got := f.begin(again(b, noon.Add(after)), how)
	if (how == pay.Created) == (got.ID == p.ID) {
		f.Fatalf("served by payment %s; the first is %s", got.ID, p.ID)
	}
	return got
}

var repeatTests = map[string]func(*fixture){
	"key: busy, driven on, stored": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		p := f.begin(b, pay.Created)
		f.repeats(b, soon, pay.Busy, p)
		f.same("a busy payment", f.find(p.ID), p)
		f.release(p, false)
		driven := f.repeats(b, soon, pay.Driven, p)
		f.same("fence", driven.Lease.Fence, 2)
		f.same("lease", driven.Lease.Until, noon.Add(soon).Add(pay.LeaseTime))
		f.counts("place", placeOf(k), 1)
		f.settle(driven, true)
		f.repeats(b, soon, pay.Stored, p)
		f.repeats(b, over, pay.Stored, p)
		b.Resend = true
		resent := f.repeats(b, soon, pay.Resent, p)
		f.same("fence", resent.Lease.Fence, 3)
		f.repeats(b, soon, pay.Busy, p)
		f.counts("place", placeOf(k), 1)
	},
	"key: expired": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.release(f.begin(b, pay.Created), false)
		f.repeats(b, tooLate, pay.Expired, p)
		f.repeats(b, over+time.Hour, pay.Expired, p)
		f.same("an expired payment", f.find(p.ID), p)
	},
	"key: a lease that ran out": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.begin(b, pay.Created)
		driven := f.repeats(b, lapsed, pay.Driven, p)
		f.same("unanswered", driven.Unanswered, true)
		_, _, err := f.Record(f.ctx, outcome(p, pay.VerdictVoid))
		f.fails(err, pay.ErrLeaseLost)
	},
	"key: another request": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		p := f.begin(b, pay.Created)
		other := under(want(k, noon), "order 1")
		_, err := f.Begin(f.ctx, other)
		f.fails(err, pay.ErrIdempotencyReused)
		f.settle(p, true)
		_, err = f.Begin(f.ctx, other)
		f.fails(err, pay.ErrIdempotencyReused)
		_, err = f.Payment(f.ctx, other.New.ID)
		f.fails(err, pay.ErrPaymentNotFound)
	},
	"key: of other API keys, and others": func(f *fixture) {
		f.begin(under(want(f.key(), noon), "order 1"), pay.Created)
		k := f.key()
		f.begin(under(want(k, noon), "order 1"), pay.Created)
		f.begin(under(want(k, noon), "order 1\x00"), pay.Created)
		f.begin(under(want(k, noon), "Order 1"), pay.Created)
	},
	"key: a new attempt after void": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.begin(b, pay.Created)
		o := outcome(p, pay.VerdictVoid)
		o.Release = true
		f.record(o)
		second := f.repeats(b, soon, pay.Created, p)
		f.repeats(b, soon, pay.Busy, second)
		f.settle(second, true)
		f.repeats(b, soon, pay.Stored, second)
	},
	"key: a new attempt after refusal": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.begin(b, pay.Created)
		f.record(outcome(p, pay.VerdictRefused))
		o := outcome(p, pay.VerdictRefusedExpired)
		o.Release = true
		f.record(o)
		f.repeats(b, soon, pay.Created, p)
	},
	"key: forgotten when retired": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.begin(b, pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.Retire, o.Release, o.Answered = true, true, true
		f.same("retired", f.record(o).Retired, true)
		second := f.repeats(b, soon, pay.Created, p)
		f.repeats(b, soon, pay.Busy, second)
	},
	"key: an older attempt is retired": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.begin(b, pay.Created)
		f.record(outcome(p, pay.VerdictVoid))
		second := f.settle(f.repeats(b, soon, pay.Created, p), true)
		o := outcome(p, pay.Unclear)
		o.Retire = true
		f.record(o)
		f.repeats(b, soon, pay.Stored, second)
	},
	"key: at once": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		f.oneCreated(b)
		f.counts("place", placeOf(k), 1)
		f.counts("budget", budgetOf(k), 5)
	},
	"key: refused at a limit, then served": func(f *fixture) {
		k := f.key()
		b := bound(under(want(k, noon), "order 1"), placeOf(k), 1, pay.ErrQuota)
		p := f.release(f.begin(b, pay.Created), false)
		f.repeats(b, soon, pay.Driven, p) // although the month is full
		_, err := f.Begin(f.ctx, bound(under(want(k, noon), "order 2"), placeOf(k), 1, pay.ErrQuota))
		f.fails(err, pay.ErrQuota)
	},
	"key: served although declined now": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.settle(f.begin(b, pay.Created), true)
		b = again(b, noon)
		b.New, b.Declined = nil, errRefused
		f.same("payment", f.begin(b, pay.Stored).ID, p.ID)
	},

	"no key: unanswered": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.begin(b, pay.Created)
		f.repeats(b, soon, pay.Busy, p)
		f.release(p, false)
		driven := f.repeats(b, soon, pay.Driven, p)
		f.settle(driven, false)
		resent := f.repeats(b, soon, pay.Resent, p)
		f.release(resent, true)
		f.repeats(b, soon, pay.Created, p)
	},
	"no key: answered": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.release(f.begin(b, pay.Created), true)
		f.repeats(b, soon, pay.Created, p)
	},
	"no key: another identity": func(f *fixture) {
		k := f.key()
		b := want(k, noon)
		f.release(f.begin(b, pay.Created), false)
		f.begin(want(k, noon), pay.Created)
		other := want(f.key(), noon)
		other.Identity, other.New.Identity = b.Identity, b.Identity
		f.begin(other, pay.Created)
	},
	"no key: the first caller is still here": func(f *fixture) {
		b := want(f.key(), noon)
		first := f.begin(b, pay.Created)
		b.Attended = func(id string) bool { return id == first.ID }
		second := f.release(f.repeats(b, soon, pay.Created, first), false)
		f.repeats(b, soon, pay.Driven, second)
	},
	"doubted payments are driven on, with a place": func(f *fixture) {
		for _, doubted := range []struct {
			key     string
			verdict pay.Verdict
		}{{"", pay.VerdictRefused}, {"order 1", pay.VerdictRefused}, {"", pay.VerdictVoid}, {"order 1", pay.VerdictVoid}} {
			k := f.key()
			b := bound(under(want(k, noon), doubted.key), placeOf(k), 1, pay.ErrQuota)
			p := f.begin(b, pay.Created)
			o := outcome(p, doubted.verdict)
			o.Doubted = o.Verdict == pay.VerdictVoid
			f.record(o)
			f.release(p, false)
			f.books(k, 0, 0, 5, 5, 1) // the place is free again
			other := f.begin(bound(want(k, noon), placeOf(k), 1, pay.ErrQuota), pay.Created)
			_, err := f.Begin(f.ctx, again(b, noon.Add(soon)))
			f.fails(err, pay.ErrQuota)
			f.record(outcome(other, pay.VerdictVoid))
			driven := f.repeats(b, soon, pay.Driven, p)
			f.same("row", []any{driven.State, driven.Refused, driven.Doubted, driven.ID}, []any{pay.Open, false, false, p.ID})
			f.books(k, 1, 1, 5, 5, 2)
			f.record(outcome(driven, pay.VerdictVoid))
			f.books(k, 0, 0, 0, 0, 2)
		}
	},
	"no key: void and, once it is over, refused are not awaited": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.begin(b, pay.Created)
		o := outcome(p, pay.VerdictVoid)
		o.Release = true
		f.record(o)
		second := f.repeats(b, soon, pay.Created, p)
		f.record(outcome(second, pay.VerdictRefused))
		o = outcome(second, pay.VerdictRefusedExpired)
		o.Release = true
		f.record(o)
		f.repeats(b, soon, pay.Created, second)
	},
	"no key: the window": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.release(f.begin(b, pay.Created), false)
		f.repeats(b, tooLate, pay.Expired, p)
		f.repeats(b, expired, pay.Expired, p)
		f.repeats(b, over-time.Nanosecond, pay.Expired, p)
		f.repeats(b, over, pay.Created, p)
	},
	"no key: settled in the window": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.settle(f.begin(b, pay.Created), false)
		f.release(f.repeats(b, expired, pay.Resent, p), false)
		f.repeats(b, over, pay.Created, p)
	},
	"no key: a send that takes longer than the window": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.begin(b, pay.Created)
		for end := lapsed; end < 2*over; end += pay.LeaseRenewal {
			f.must(f.Renew(f.ctx, p.ID, p.Lease.Fence, noon.Add(end)))
		}
		f.repeats(b, over+time.Second, pay.Busy, p)
		p = f.settle(f.find(p.ID), false)
		until := f.find(p.ID).CalledUntil.Sub(noon) + pay.RepeatGrace
		f.release(f.repeats(b, until-time.Second, pay.Resent, p), false)
		f.repeats(b, until+time.Second, pay.Created, p)
	},
	"no key: a retired payment serves no repeat": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.begin(b, pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.Retire, o.Release = true, true
		f.record(o)
		f.repeats(b, soon, pay.Created, p)
	},
	"no key: a payment with one serves no other repeat": func(f *fixture) {
		k := f.key()
		b := under(want(k, noon), "order 1")
		p := f.release(f.begin(b, pay.Created), false)
		b.IdempotencyKey, b.New.IdempotencyKey = "", ""
		f.repeats(b, soon, pay.Created, p)
	},
	"no key: a posted receipt is an answer": func(f *fixture) {
		b := want(f.key(), noon)
		b.New.Door = policy.DoorAPI
		p := f.release(f.begin(b, pay.Created), true)
		f.same("unanswered", p.Unanswered, true) // in seller mode the client still has to buy
		o := outcome(p, pay.VerdictSettled)
		o.Fence, o.Receipted = 0, true
		f.record(o)
		f.repeats(b, soon, pay.Created, p)
	},
	"no key: of many the oldest": func(f *fixture) {
		b := want(f.key(), noon)
		b.Attended = func(string) bool { return true }
		var all []*pay.Payment
		for i := range 5 {
			all = append(all, f.begin(again(b, noon.Add(time.Duration(i)*time.Second)), pay.Created))
		}
		b.Attended = nil
		for _, p := range all {
			f.release(p, false)
		}
		for _, p := range all { // one after the other
			f.settle(f.repeats(b, soon, pay.Driven, p), true)
		}
		f.repeats(b, soon, pay.Created, all[0])
	},
	"no key: at once": func(f *fixture) {
		k := f.key()
		f.oneCreated(want(k, noon))
		f.counts("place", placeOf(k), 1)
	},
	"no key: driven at once": func(f *fixture) {
		b := want(f.key(), noon)
		p := f.release(f.begin(b, pay.Created), false)
		var driven atomic.Int64
		f.must(firstOf(together(crowd, func(int) error {
			begun, err := f.Begin(f.ctx, again(b, noon))
			if err == nil && begun.How == pay.Driven {
				driven.Add(1)
			}
			return err
		})))
		f.same("driven", driven.Load(), 1)
		f.same("fence", f.find(p.ID).Lease.Fence, 2)
	},
	"terms of the first attempt stay": func(f *fixture) {
		b := under(want(f.key(), noon), "order 1")
		p := f.release(f.begin(b, pay.Created), false)
		next := again(b, noon)
		next.New.Terms.Amount, next.New.Authorization.Nonce = money.New(9), x402.Nonce{9}
		driven := f.begin(next, pay.Driven)
		f.same("terms", driven.Terms, p.Terms)
		f.same("authorization", driven.Authorization, p.Authorization)
	},
}

// oneCreated makes a crowd call the same thing at once: one call creates a payment, and all
// others find it busy.
func (f *fixture) oneCreated(b *pay.Begin) {
	f.Helper()
	var created, busy atomic.Int64
	f.must(firstOf(together(crowd, func(int) error {
		begun, err := f.Begin(f.ctx, again(b, noon))
		if err != nil {
			return err
		}
		switch begun.How {
		case pay.Created:
			created.Add(1)
		case pay.Busy:
			busy.Add(1)
		default: // told by the sums below
		}
		return nil
	})))
	f.same("created and busy", []int64{created.Load(), busy.Load()}, []int64{1, crowd - 1})
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
