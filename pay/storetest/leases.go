package storetest

import (
	"time"

	"github.com/purserpay/purser/pay"
)

var leaseTests = map[string]func(*fixture){
	"acquire": func(f *fixture) {
		p := f.begin(want(f.key(), noon), pay.Created)
		until := noon.Add(time.Hour)
		_, err := f.Acquire(f.ctx, p.ID, "node-2", noon.Add(soon), until)
		f.fails(err, pay.ErrLeaseHeld)
		_, err = f.Acquire(f.ctx, p.ID, owner, noon.Add(soon), until) // not even its owner, once more
		f.fails(err, pay.ErrLeaseHeld)
		f.same("the held row", f.find(p.ID), p)
		f.release(p, true)
		got := must(f.Acquire(f.ctx, p.ID, "node-2", noon.Add(soon), until))
		f.same("lease", got.Lease, pay.Lease{Owner: "node-2", Fence: 2, Until: until})
		f.same("answered", []bool{got.Answered, got.Unanswered}, []bool{true, false})
		f.same("stored", f.find(p.ID), got)
		_, err = f.Acquire(f.ctx, newID(), owner, noon, until)
		f.fails(err, pay.ErrPaymentNotFound)
	},
	"acquire what ran out": func(f *fixture) {
		p := f.begin(want(f.key(), noon), pay.Created)
		_, err := f.Acquire(f.ctx, p.ID, "node-2", p.Lease.Until.Add(-1), noon.Add(time.Hour))
		f.fails(err, pay.ErrLeaseHeld)
		got := must(f.Acquire(f.ctx, p.ID, "node-2", p.Lease.Until, noon.Add(time.Hour)))
		f.same("fence", got.Lease.Fence, 2)
		f.same("unanswered", got.Unanswered, true)
		f.fails(f.Renew(f.ctx, p.ID, p.Lease.Fence, noon.Add(time.Hour)), pay.ErrLeaseLost)
	},
	"acquire at once": func(f *fixture) {
		p := f.release(f.begin(want(f.key(), noon), pay.Created), false)
		errs := together(crowd, func(int) error {
			_, err := f.Acquire(f.ctx, p.ID, owner, noon, noon.Add(time.Minute))
			return err
		})
		f.same("winners", f.succeeded(errs, pay.ErrLeaseHeld), 1)
	},
	"renew": func(f *fixture) {
		p := f.begin(want(f.key(), noon), pay.Created)
		until := noon.Add(time.Hour)
		f.must(f.Renew(f.ctx, p.ID, p.Lease.Fence, until))
		got := f.find(p.ID)
		f.same("lease", got.Lease, pay.Lease{Owner: owner, Fence: 1, Until: until})
		for _, fence := range []uint64{0, 2} {
			f.fails(f.Renew(f.ctx, p.ID, fence, until), pay.ErrLeaseLost)
		}
		f.same("lapsed although renewed", must(f.Lapse(f.ctx, noon.Add(lapsed), nil)), 0)
		f.release(p, true)
		f.fails(f.Renew(f.ctx, p.ID, p.Lease.Fence, until), pay.ErrLeaseLost)
	},
	"a stale fence": func(f *fixture) {
		p := f.release(f.begin(want(f.key(), noon), pay.Created), false)
		held := must(f.Acquire(f.ctx, p.ID, "node-2", noon, noon.Add(time.Minute)))
		for _, v := range []pay.Verdict{pay.VerdictVoid, pay.VerdictRefused, pay.VerdictUnresolved, pay.VerdictRefusedExpired, pay.VerdictConfirmed, pay.VerdictDisputed} {
			_, _, err := f.Record(f.ctx, outcome(p, v))
			f.fails(err, pay.ErrLeaseLost)
		}
		end := outcome(p, pay.Unclear)
		end.Release, end.Fence = true, 1
		_, _, err := f.Record(f.ctx, end)
		f.fails(err, pay.ErrLeaseLost)
		f.same("the row", f.find(p.ID), held)
	},
	"a settled outcome wins all the same": func(f *fixture) {
		k := f.key()
		p := f.release(f.begin(want(k, noon), pay.Created), false)
		held := must(f.Acquire(f.ctx, p.ID, "node-2", noon, noon.Add(time.Minute)))
		late := outcome(p, pay.VerdictSettled)
		late.Release, late.Fence = true, 1
		got := f.record(late)
		f.same("state", got.State, pay.Settled)
		f.same("the other's lease", got.Lease, held.Lease)
		// What its holder learned meanwhile comes too late.
		f.same("state", f.record(outcome(held, pay.VerdictVoid)).State, pay.Settled)
		f.same("events", len(must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: 10}))), 1)
	},
	"a released lease has no owner": func(f *fixture) {
		p := f.release(f.begin(want(f.key(), noon), pay.Created), true)
		_, _, err := f.Record(f.ctx, outcome(p, pay.VerdictVoid))
		f.fails(err, pay.ErrLeaseLost)
	},
	"lapse": func(f *fixture) {
		k := f.key()
		stays := f.begin(want(k, noon.Add(time.Minute)), pay.Created)
		released := f.release(f.begin(want(k, noon), pay.Created), true)
		var all []*pay.Payment
		for range 3 {
			all = append(all, f.begin(want(k, noon), pay.Created))
		}
		lapse := func(now time.Time, want int) {
			f.Helper()
			f.same("lapsed", must(f.Lapse(f.ctx, now, nil)), want)
		}
		lapse(noon.Add(pay.LeaseTime-1), 0)
		lapse(noon.Add(pay.LeaseTime), 3)
		lapse(noon.Add(pay.LeaseTime), 0)
		for _, p := range all {
			got := f.find(p.ID)
			f.same("lease", []any{got.Lease.Owner, got.Lease.Fence, got.Unanswered}, []any{"", 1, true})
			f.fails(f.Renew(f.ctx, p.ID, 1, noon.Add(time.Hour)), pay.ErrLeaseLost)
		}
		f.same("another lease", f.find(stays.ID), stays)
		f.same("a released one", f.find(released.ID), released)
	},
	"fences only grow": func(f *fixture) {
		p := f.release(f.begin(want(f.key(), noon), pay.Created), false)
		for fence := uint64(2); fence < 6; fence++ {
			got := must(f.Acquire(f.ctx, p.ID, owner, noon, noon.Add(time.Minute)))
			f.same("fence", got.Lease.Fence, fence)
			if fence%2 == 0 {
				f.release(got, false)
			} else if _, err := f.Lapse(f.ctx, noon.Add(time.Hour), nil); err != nil {
				f.Fatal(err)
			}
		}
	},
}
