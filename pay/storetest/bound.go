package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// ofChallenge makes a call pay a challenge that chose the nonce.
func ofChallenge(b *pay.Begin, id string) *pay.Begin {
	b.New.Bound, b.New.Authorization.Nonce = true, x402.Nonce(pay.HashOf("challenge", id))
	return b
}

var boundTests = map[string]func(*fixture){
	"a nonce of the challenge's": func(f *fixture) {
		k, other, id := f.key(), f.key(), newID()
		b := ofChallenge(want(k, noon), id)
		p := f.begin(b, pay.Created)
		f.same("row", []any{p.Bound, p.Authorization.Nonce}, []any{true, b.New.Authorization.Nonce})
		f.same("stored", f.find(p.ID), p)
		for _, k := range []pay.Key{k, other} {
			for _, dry := range []bool{true, false} {
				taken := ofChallenge(want(k, noon), id)
				taken.Dry = dry
				_, err := f.Begin(f.ctx, taken)
				f.fails(err, pay.ErrChallengeTaken)
				_, err = f.Payment(f.ctx, taken.New.ID)
				f.fails(err, pay.ErrPaymentNotFound)
			}
		}
		f.counts("budget", budgetOf(k), 5)
		f.counts("the other's budget", budgetOf(other), 0)
		fresh := ofChallenge(want(other, noon), newID())
		fresh.Dry = true
		f.same("a dry call", must(f.Begin(f.ctx, fresh)).How, pay.Quoted)
		fresh.Dry = false
		f.begin(fresh, pay.Created)
		elsewhere := ofChallenge(want(other, noon), id)
		elsewhere.New.Authorization.From = x402.EVMAddress([20]byte{2})
		f.begin(elsewhere, pay.Created)
	},
	"taken for ever": func(f *fixture) {
		k, id := f.key(), newID()
		p := f.begin(ofChallenge(want(k, noon), id), pay.Created)
		f.same("state", f.record(outcome(p, pay.VerdictVoid)).State, pay.Void)
		f.open.Close(f)
		f.Store = f.open.Open(f)
		_, err := f.Begin(f.ctx, ofChallenge(want(k, noon.Add(time.Hour)), id))
		f.fails(err, pay.ErrChallengeTaken)
	},
	"under an idempotency key": func(f *fixture) {
		k, id := f.key(), newID()
		b := ofChallenge(want(k, noon), id)
		b.IdempotencyKey, b.New.IdempotencyKey = "order-1", "order-1"
		p := f.begin(b, pay.Created)
		f.same("row", []any{p.Attempt, p.Authorization.Nonce}, []any{uint64(1), b.New.Authorization.Nonce})
		again := *b
		f.release(p, false)
		repeat := must(f.Begin(f.ctx, &again))
		f.same("a repeat", []any{repeat.How, repeat.Payment.ID}, []any{pay.Driven, p.ID})
	},
	"many keys, one challenge": func(f *fixture) {
		id := newID()
		var made atomic.Int32
		var all sync.WaitGroup
		for range crowd / 4 {
			b := ofChallenge(want(f.key(), noon), id)
			all.Go(func() {
				switch _, err := f.Begin(f.ctx, b); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, pay.ErrChallengeTaken):
					f.Error(err)
				}
			})
		}
		all.Wait()
		f.same("payments", made.Load(), int32(1))
	},
}
