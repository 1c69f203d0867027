package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

var errRefused = errors.New("refused by the test's limit")

// nothingBegun demands that a refused call left no trace.
func (f *fixture) nothingBegun(b *pay.Begin) {
	f.Helper()
	if b.New != nil {
		_, err := f.Payment(f.ctx, b.New.ID)
		f.fails(err, pay.ErrPaymentNotFound)
	}
	f.same("payments", len(must(f.Payments(f.ctx, pay.PaymentQuery{KeyID: b.KeyID, Limit: 10}))), 0)
	k := pay.Key{ID: b.KeyID}
	for _, c := range []pay.Counter{placeOf(k), pendingOf(k), budgetOf(k), holdOf(k), rateOf(k)} {
		f.counts(string(c), c, 0)
	}
}

var beginTests = map[string]func(*fixture){
	"a new payment": func(f *fixture) {
		k := f.key()
		b := want(k, noon)
		p := f.begin(b, pay.Created)
		f.same("lease", p.Lease, pay.Lease{Owner: owner, Fence: 1, Until: noon.Add(pay.LeaseTime)})
		f.same("reservations", len(p.Reservations), 1+len(b.Limits))
		f.same("stored", f.find(p.ID), p)
		f.same("proposed row", len(b.New.Reservations), 0)
		f.counts("place", placeOf(k), 1)
		f.counts("pending", pendingOf(k), 1)
		f.counts("budget", budgetOf(k), 5)
		f.counts("hold", holdOf(k), 5)
		f.counts("rate", rateOf(k), 1)
	},
	"a dry call": func(f *fixture) {
		k := f.key()
		dry := bound(want(k, noon), budgetOf(k), 5, errRefused)
		dry.Dry = true
		begun := must(f.Begin(f.ctx, dry))
		f.same("begun", []any{begun.How, begun.Payment.ID, begun.Leased()}, []any{pay.Quoted, dry.New.ID, false})
		f.nothingBegun(dry)
		p := f.begin(bound(want(k, noon), budgetOf(k), 5, errRefused), pay.Created)
		_, err := f.Begin(f.ctx, dry)
		f.fails(err, errRefused)
		var names []pay.Counter
		if err := f.VisitCounters(f.ctx, budgetOf(k), func(c pay.Counter, amount money.Amount) bool {
			names = append(names, c)
			return amount == money.New(5)
		}); err != nil {
			f.Fatal(err)
		}
		f.same("counters", names, []pay.Counter{budgetOf(k)})
		f.same("the payment", f.find(p.ID), p)
	},
	"the row is its own": func(f *fixture) {
		p := f.begin(want(f.key(), noon), pay.Created)
		p.State, p.Lease.Fence, p.Reservations[0].Released = pay.Void, 99, true
		q := f.find(p.ID)
		f.same("stored", []any{q.State, q.Lease.Fence, q.Reservations[0].Released}, []any{pay.Open, 1, false})
		f.release(q, true)
	},
	"unknown payment": func(f *fixture) {
		_, err := f.Payment(f.ctx, newID())
		f.fails(err, pay.ErrPaymentNotFound)
	},
	"an id twice": func(f *fixture) {
		k := f.key()
		b := want(k, noon)
		p := f.release(f.begin(b, pay.Created), true)
		if _, err := f.Begin(f.ctx, b); err == nil {
			f.Fatal("a second payment got the id of the first")
		}
		f.same("the first", f.find(p.ID), p)
		f.counts("place", placeOf(k), 1)
	},
	"a limit at its bound and above": func(f *fixture) {
		k := f.key()
		f.begin(bound(want(k, noon), budgetOf(k), 15, errRefused), pay.Created)
		f.begin(bound(want(k, noon), budgetOf(k), 10, errRefused), pay.Created)
		for _, most := range []uint64{14, 10, 1, 0} {
			_, err := f.Begin(f.ctx, bound(want(k, noon), budgetOf(k), most, errRefused))
			f.fails(err, errRefused)
		}
		f.counts("budget", budgetOf(k), 10)
		f.counts("place", placeOf(k), 2)
		f.begin(bound(want(k, noon), budgetOf(k), 15, errRefused), pay.Created)
		f.counts("budget", budgetOf(k), 15)
	},
	"a refusal leaves nothing": func(f *fixture) {
		k := f.key()
		for _, c := range []pay.Counter{placeOf(k), budgetOf(k), rateOf(k)} { // first, in the middle, last
			b := bound(want(k, noon), c, 0, errRefused)
			_, err := f.Begin(f.ctx, b)
			f.fails(err, errRefused)
			f.nothingBegun(b)
		}
	},
	"declined": func(f *fixture) {
		k := f.key()
		declined := &pay.PolicyError{Rule: "per-payment"}
		b := want(k, noon)
		b.Declined = declined
		_, err := f.Begin(f.ctx, b)
		f.fails(err, declined)
		bound(b, placeOf(k), 0, pay.ErrQuota) // which comes first
		_, err = f.Begin(f.ctx, b)
		f.fails(err, pay.ErrQuota)
		b = want(k, noon)
		b.New, b.Declined = nil, declined
		_, err = f.Begin(f.ctx, b)
		f.fails(err, declined)
		f.nothingBegun(b)
	},
	"amounts up to 2^256-1": func(f *fixture) {
		k := f.key()
		most := must(money.Parse("115792089237316195423570985008687907853269984665640564039457584007913129639935"))
		b := want(k, noon)
		b.Limits = []pay.Limit{{Reservation: pay.Reservation{Counter: budgetOf(k), Amount: most, Release: pay.ReleaseBudget}}}
		f.begin(b, pay.Created)
		f.same("counter", must(f.Counter(f.ctx, budgetOf(k))), most)
		next := bound(want(k, noon), budgetOf(k), 1, errRefused)
		next.Limits[2].Max = &most // the sum would overflow
		_, err := f.Begin(f.ctx, next)
		f.fails(err, errRefused)
	},
	"unanswered payments of a host": func(f *fixture) {
		k := f.key()
		next := func(now time.Time) *pay.Begin {
			b := want(k, now)
			b.MaxUnanswered = 2
			return b
		}
		first := f.release(f.begin(next(noon), pay.Created), false)
		f.begin(next(noon), pay.Created) // still leased: it has no answer yet
		f.release(f.begin(next(noon), pay.Created), false)
		_, err := f.Begin(f.ctx, next(noon))
		var policy *pay.PolicyError
		if !errors.As(err, &policy) || policy.Rule != "unanswered" {
			f.Fatalf("error is %v", err)
		}
		elsewhere := next(noon)
		elsewhere.New.Host = "b.example.com"
		f.begin(elsewhere, pay.Created)
		f.begin(want(k, noon), pay.Created)               // without a bound
		f.begin(next(noon.Add(time.Minute)), pay.Created) // the first ones have expired
		f.settle(first, true)                             // one of the two is no longer open
		f.begin(next(noon), pay.Created)
	},
	"a place limit at once": func(f *fixture) {
		k := f.key()
		errs := together(crowd, func(int) error {
			_, err := f.Begin(f.ctx, bound(want(k, noon), placeOf(k), 10, pay.ErrQuota))
			return err
		})
		f.same("begun", f.succeeded(errs, pay.ErrQuota), 10)
		f.counts("place", placeOf(k), 10)
	},
	"a budget at once": func(f *fixture) {
		k := f.key()
		errs := together(crowd, func(int) error {
			_, err := f.Begin(f.ctx, bound(want(k, noon), budgetOf(k), 104, errRefused))
			return err
		})
		f.same("begun", f.succeeded(errs, errRefused), 20)
		f.counts("budget", budgetOf(k), 100)
	},
	"begun and closed at once": func(f *fixture) {
		k := f.key()
		var refused atomic.Int64
		errs := together(crowd, func(i int) error {
			for range 3 {
				begun, err := f.Begin(f.ctx, bound(want(k, noon), pendingOf(k), 8, errRefused))
				if errors.Is(err, errRefused) {
					refused.Add(1)
					continue
				}
				if err != nil {
					return err
				}
				n, err := f.Counter(f.ctx, pendingOf(k))
				if err == nil && n.Cmp(money.New(8)) > 0 {
					err = errors.New("more than 8 are pending: " + n.String())
				}
				o := outcome(begun.Payment, pay.VerdictVoid)
				if i%2 == 0 {
					o.Verdict = pay.VerdictSettled
				}
				o.Release = true
				_, _, failed := f.Record(f.ctx, o)
				if err = errors.Join(err, failed); err != nil {
					return err
				}
			}
			return nil
		})
		f.must(errors.Join(errs...))
		f.counts("pending", pendingOf(k), 0)
		f.counts("rate", rateOf(k), uint64(3*crowd-refused.Load()))
	},
	"a caller that left": func(f *fixture) {
		k := f.key()
		ctx, leave := context.WithCancel(f.ctx)
		leave()
		b := want(k, noon)
		_, err := f.Begin(ctx, b)
		f.fails(err, context.Canceled)
		f.nothingBegun(b)
	},
	"callers that leave": func(f *fixture) {
		// A caller that hears of an error has begun nothing, whenever its context ended.
		k := f.key()
		var begun atomic.Int64
		errs := together(crowd, func(i int) error {
			ctx, leave := context.WithTimeout(f.ctx, time.Duration(i)*100*time.Microsecond)
			defer leave()
			b := want(k, noon)
			_, err := f.Begin(ctx, b)
			if err == nil {
				begun.Add(1)
				return nil
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			if _, err := f.Payment(f.ctx, b.New.ID); !errors.Is(err, pay.ErrPaymentNotFound) {
				return errors.New("a caller that left has begun a payment")
			}
			return nil
		})
		f.must(errors.Join(errs...))
		f.counts("place", placeOf(k), uint64(begun.Load()))
	},
}
