package storetest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/pay"
)

// patient makes a call of a key that may fail a few times only.
func patient(k pay.Key, now time.Time) *pay.Begin {
	b := want(k, now)
	b.Failures = pay.FailureBounds{PerMinute: 3, PerDay: 5}
	return b
}

// ends begins a payment and ends it by a verdict at once.
func (f *fixture) ends(k pay.Key, now time.Time, v pay.Verdict) *pay.Payment {
	f.Helper()
	o := outcome(f.begin(patient(k, now), pay.Created), v)
	o.At, o.Release = now, true
	return f.record(o)
}

// tooMany demands that no payment begins until a wait is over.
func (f *fixture) tooMany(k pay.Key, now time.Time, wait time.Duration) {
	f.Helper()
	b := patient(k, now)
	_, err := f.Begin(f.ctx, b)
	var failures *pay.FailuresError
	if !errors.As(err, &failures) || failures.RetryAfter != wait {
		f.Fatalf("error is %v, want a wait of %s", err, wait)
	}
	_, err = f.Payment(f.ctx, b.New.ID)
	f.fails(err, pay.ErrPaymentNotFound)
}

var failureTests = map[string]func(*fixture){
	"bounded in a minute and in a day": func(f *fixture) {
		k, other := f.key(), f.key()
		f.ends(k, noon, pay.VerdictVoid)
		f.ends(k, noon, pay.VerdictRefused)
		f.ends(k, noon.Add(time.Second), pay.VerdictVoid)
		f.tooMany(k, noon.Add(50*time.Second), 10*time.Second)
		f.ends(other, noon.Add(50*time.Second), pay.VerdictVoid) // others are not concerned
		f.ends(k, noon.Add(time.Minute), pay.VerdictVoid)
		f.ends(k, noon.Add(time.Minute), pay.VerdictVoid)
		f.tooMany(k, noon.Add(time.Minute), 12*time.Hour-time.Minute)
		f.tooMany(k, noon.Add(2*time.Hour), 10*time.Hour)
		f.ends(k, noon.Add(12*time.Hour), pay.VerdictVoid)
	},
	"payments that succeed are not": func(f *fixture) {
		k := f.key()
		f.ends(k, noon, pay.VerdictVoid)
		f.ends(k, noon, pay.VerdictVoid)
		for range 10 {
			f.ends(k, noon, pay.VerdictSettled)
		}
		f.begin(patient(k, noon), pay.Created) // nor those that are open
	},
	"unresolved and disputed ones are": func(f *fixture) {
		k := f.key()
		f.ends(k, noon, pay.VerdictUnresolved)
		claimed := f.begin(patient(k, noon), pay.Created)
		f.record(outcome(claimed, pay.VerdictSettled))
		f.same("failed", f.record(outcome(claimed, pay.VerdictDisputed)).Failed, true)
		late := outcome(f.ends(k, noon, pay.VerdictUnresolved), pay.VerdictSettled)
		f.same("failed", f.record(late).Failed, true)
		f.tooMany(k, noon.Add(50*time.Second), 10*time.Second)
	},
	"payments that begin are bounded, too": func(f *fixture) {
		k, other := f.key(), f.key()
		from := func(k pay.Key, now time.Time) *pay.Begin {
			b := want(k, now)
			b.PerMinute = 3
			return b
		}
		again := under(from(k, noon), "order 1")
		first := f.release(f.begin(again, pay.Created), false)
		f.settle(f.begin(from(k, noon), pay.Created), true)
		f.begin(from(k, noon.Add(20*time.Second)), pay.Created)
		b := from(k, noon.Add(50*time.Second))
		_, err := f.Begin(f.ctx, b)
		var failures *pay.FailuresError
		if !errors.As(err, &failures) || !failures.Begun || failures.Most != 3 || failures.RetryAfter != 10*time.Second {
			f.Fatalf("error is %v", err)
		}
		_, err = f.Payment(f.ctx, b.New.ID)
		f.fails(err, pay.ErrPaymentNotFound)
		f.repeats(again, soon, pay.Driven, first) // a repeat is no new payment
		f.begin(from(other, noon.Add(50*time.Second)), pay.Created)
		f.begin(want(k, noon.Add(50*time.Second)), pay.Created) // without a bound
		f.begin(from(k, noon.Add(time.Minute)), pay.Created)
	},
	"a payment fails once": func(f *fixture) {
		k := f.key()
		p := f.begin(patient(k, noon), pay.Created)
		f.record(outcome(p, pay.VerdictRefused))
		f.record(outcome(p, pay.VerdictRefusedExpired))
		f.same("failed", f.record(outcome(p, pay.VerdictVoid)).Failed, true)
		f.ends(k, noon, pay.VerdictVoid)
		f.ends(k, noon, pay.VerdictVoid)
		f.tooMany(k, noon, time.Minute)
	},
	"repeats are served": func(f *fixture) {
		k := f.key()
		b := under(patient(k, noon), "order 1")
		p := f.release(f.begin(b, pay.Created), false)
		for range 3 {
			f.ends(k, noon, pay.VerdictVoid)
		}
		f.tooMany(k, noon, time.Minute)
		f.settle(f.repeats(b, soon, pay.Driven, p), true)
		f.repeats(b, soon, pay.Stored, p)
	},
	"attempts under one idempotency key": func(f *fixture) {
		b := under(patient(f.key(), noon), "order 1")
		for range 3 {
			o := outcome(f.begin(again(b, noon), pay.Created), pay.VerdictVoid)
			o.Release = true
			f.record(o)
		}
		_, err := f.Begin(f.ctx, again(b, noon))
		var failures *pay.FailuresError
		if !errors.As(err, &failures) {
			f.Fatalf("error is %v", err)
		}
	},
	"at once": func(f *fixture) {
		k := f.key()
		var begun atomic.Int64
		f.must(firstOf(together(crowd, func(int) error {
			for range 10 {
				var failures *pay.FailuresError
				got, err := f.Begin(f.ctx, patient(k, noon))
				if errors.As(err, &failures) {
					return nil
				} else if err != nil {
					return err
				}
				begun.Add(1)
				o := outcome(got.Payment, pay.VerdictVoid)
				o.Release = true
				if _, _, err := f.Record(f.ctx, o); err != nil {
					return err
				}
			}
			return nil
		})))
		if n := begun.Load(); n < 3 || n > crowd+3 { // those that had begun before the third one failed
			f.Fatalf("%d payments have begun", n)
		}
		f.tooMany(k, noon, time.Minute)
	},
}
