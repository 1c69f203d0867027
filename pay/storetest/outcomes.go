package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// books demands the five counters of a key.
func (f *fixture) books(k pay.Key, place, pending, budget, hold, rate uint64) {
	f.Helper()
	f.counts("place", placeOf(k), place)
	f.counts("pending", pendingOf(k), pending)
	f.counts("budget", budgetOf(k), budget)
	f.counts("hold", holdOf(k), hold)
	f.counts("rate", rateOf(k), rate)
}

// events lists a key's spend events.
func (f *fixture) events(k pay.Key) []pay.SpendEvent {
	f.Helper()
	return must(f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Limit: 100}))
}

var outcomeTests = map[string]func(*fixture){
	"settled": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		f.books(k, 1, 1, 5, 5, 1)
		o := outcome(p, pay.VerdictSettled)
		o.Transaction, o.Detail, o.Note = transaction("1"), json.RawMessage(`{"a":1}`), "seen"
		o.SellerSaid = "no \x1bfunds"
		got, fx, err := f.Record(f.ctx, o)
		f.must(err)
		f.same("effects", []any{fx.Was, fx.Event.ID}, []any{pay.Open, o.EventID})
		f.same("row", []any{got.State, got.Transaction, got.EventID, got.Closed, got.SellerSaid}, []any{pay.Settled, o.Transaction, o.EventID, o.At, "no funds"})
		f.same("stored", f.find(p.ID), got)
		f.books(k, 1, 0, 5, 0, 1)
		f.same("events", f.events(k), []pay.SpendEvent{{
			ID: o.EventID, KeyID: k.ID, PaymentID: p.ID, Amount: money.New(5), Currency: "USDC",
			RequestURL: p.RequestURL, Task: "crawl", Host: "api.example.com", Created: o.At,
		}})
		f.record(outcome(p, pay.VerdictSettled)) // once more
		f.same("number of events", len(f.events(k)), 1)
		f.books(k, 1, 0, 5, 0, 1)
	},
	"a hold ends on evidence": func(f *fixture) {
		k := f.key()
		wallet := pay.Counter("wallet-of-evidence/USDC")
		hold, moved := "hold/"+wallet, "moved/"+wallet
		begun := func() *pay.Payment {
			b := want(k, noon)
			b.Limits[3].Counter, b.Limits[3].Release = hold, pay.ReleaseWatchedHold
			return f.begin(b, pay.Created)
		}
		record := func(p *pay.Payment, v pay.Verdict, evident bool) *pay.Payment {
			f.Helper()
			o := outcome(p, v)
			o.Evident = evident
			return f.record(o)
		}
		counts := func(held, gone uint64) {
			f.Helper()
			f.counts("hold", hold, held)
			f.counts("moved", moved, gone)
		}
		claimed := begun()
		f.same("claimed", record(claimed, pay.VerdictSettled, false).Claimed(), true)
		counts(5, 0)
		seen := pay.Outcome{PaymentID: claimed.ID, At: noon, Evident: true}
		f.same("claimed", f.record(seen).Claimed(), false)
		counts(0, 5)
		f.record(seen) // once more
		record(claimed, pay.VerdictConfirmed, true)
		counts(0, 5)
		record(begun(), pay.VerdictSettled, true)
		counts(0, 10)
		record(begun(), pay.VerdictVoid, true)
		counts(0, 10)
		unresolved := begun()
		record(unresolved, pay.VerdictUnresolved, false)
		counts(5, 10)
		record(unresolved, pay.Unclear, true) // its time is over on the chain
		counts(0, 10)
		record(unresolved, pay.VerdictSettled, false) // and then a seller claims that it has settled
		counts(5, 10)
		record(unresolved, pay.VerdictDisputed, true)
		counts(0, 15) // a reading of the balance in between may have had it
		void := begun()
		record(void, pay.VerdictVoid, true)
		record(void, pay.VerdictSettled, true)
		counts(0, 20)
		retired := begun()
		record(retired, pay.VerdictSettled, false)
		f.retire(retired, pay.Unclear, noon)
		counts(0, 25)
	},
	"a claimed payment holds its host": func(f *fixture) {
		k := f.key()
		next := func() *pay.Begin {
			b := want(k, noon)
			b.MaxUnanswered, b.Limits[3].Release = 1, pay.ReleaseWatchedHold
			return b
		}
		p := f.release(f.begin(next(), pay.Created), false)
		o := outcome(p, pay.VerdictSettled)
		o.Fence, o.Receipted = 0, true
		f.record(o)
		_, err := f.Begin(f.ctx, next())
		if refused, is := errors.AsType[*pay.PolicyError](err); !is || refused.Rule != "unanswered" {
			f.Fatalf("error is %v", err)
		}
		f.reopen(Opener.Kill)
		_, err = f.Begin(f.ctx, next())
		if refused, is := errors.AsType[*pay.PolicyError](err); !is || refused.Rule != "unanswered" {
			f.Fatalf("error is %v", err)
		}
		f.record(pay.Outcome{PaymentID: p.ID, At: noon, Evident: true})
		f.begin(next(), pay.Created)
	},
	"what a wallet moved": func(f *fixture) {
		k, funds := f.key(), errors.New("too little")
		wallet := pay.Counter("wallet-of-two/USDC")
		hold, moved := "hold/"+wallet, "moved/"+wallet
		from := func(k pay.Key, balance, since uint64) *pay.Begin {
			b := want(k, noon)
			b.Limits[3].Counter = hold
			b.Limits[3].Release |= pay.CountsMoved
			b.Limits[3].Since = money.New(since)
			return bound(b, hold, balance, funds)
		}
		counts := func(held, gone uint64) {
			f.Helper()
			f.counts("hold", hold, held)
			f.counts("moved", moved, gone)
		}
		refuses := func(b *pay.Begin) {
			f.Helper()
			_, err := f.Begin(f.ctx, b)
			f.fails(err, funds)
		}
		p, late := f.begin(from(k, 10, 0), pay.Created), f.begin(from(f.key(), 10, 0), pay.Created)
		counts(10, 0)
		f.record(outcome(p, pay.VerdictSettled))
		f.record(outcome(p, pay.VerdictSettled)) // once more
		counts(5, 5)
		f.record(outcome(late, pay.VerdictVoid))
		counts(0, 5)
		// The balance was read before the settlement, or after it.
		refuses(from(f.key(), 9, 0))
		last := f.begin(from(f.key(), 5, 5), pay.Created)
		f.record(outcome(last, pay.VerdictSettled))
		refuses(from(f.key(), 14, 0))
		// A settlement comes after the hold was given back.
		late = f.find(late.ID)
		o := outcome(late, pay.VerdictSettled)
		o.Moved = money.New(2)
		f.record(o)
		counts(0, 15)
		refuses(from(f.key(), 9, 10))
		f.begin(from(f.key(), 20, 0), pay.Created)
		counts(5, 15)
	},
	"settled for less": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.Moved = money.New(2)
		got := f.record(o)
		f.same("row", []any{got.State, got.Terms.Amount, got.Moved()}, []any{pay.Settled, money.New(5), o.Moved})
		f.same("stored", f.find(p.ID), got)
		f.books(k, 1, 0, 5, 0, 1) // the chain may take that block back
		f.same("booked", f.events(k)[0].Amount, o.Moved)
		f.record(outcome(p, pay.VerdictSettled)) // once more, without the amount
		f.books(k, 1, 0, 5, 0, 1)
		f.same("state", f.record(outcome(p, pay.VerdictDisputed)).Moved(), o.Moved)
		f.same("taken back", f.events(k)[0].Amount, o.Moved)
	},
	"settled for less, for good": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.Moved = money.New(2)
		f.record(o)
		o.Verdict = pay.VerdictConfirmed
		f.same("moved", f.record(o).Moved(), o.Moved)
		f.books(k, 1, 0, 2, 0, 1)
		f.record(o)
		f.books(k, 1, 0, 2, 0, 1)
	},
	"settled for less after void": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		f.record(outcome(p, pay.VerdictVoid))
		o := outcome(p, pay.VerdictSettled)
		o.Moved = money.New(2)
		f.same("moved", f.record(o).Moved(), o.Moved)
		f.books(k, 1, 0, 5, 0, 1)
	},
	"void": func(f *fixture) {
		k := f.key()
		f.begin(want(k, noon), pay.Created) // another one, whose reservations stay
		p := f.begin(want(k, noon), pay.Created)
		f.books(k, 2, 2, 10, 10, 2)
		f.same("state", f.record(outcome(p, pay.VerdictVoid)).State, pay.Void)
		f.books(k, 1, 1, 5, 5, 2)
		f.record(outcome(p, pay.VerdictVoid))
		f.books(k, 1, 1, 5, 5, 2)
		f.same("events", len(f.events(k)), 0)
	},
	"settled after void": func(f *fixture) {
		k := f.key()
		p := f.begin(bound(want(k, noon), budgetOf(k), 5, errRefused), pay.Created)
		f.record(outcome(p, pay.VerdictVoid))
		f.begin(bound(want(k, noon), budgetOf(k), 5, errRefused), pay.Created) // takes what was given back
		got := f.record(outcome(p, pay.VerdictSettled))
		f.same("state", got.State, pay.Settled)
		f.books(k, 2, 1, 10, 5, 2) // past the limit
		f.same("number of events", len(f.events(k)), 1)
	},
	"refused": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		o := outcome(p, pay.VerdictRefused)
		o.Reason, o.Detail = "insufficient_funds", json.RawMessage(`{"isValid":false}`)
		got := f.record(o)
		f.same("row", []any{got.State, got.Refused, got.Reason}, []any{pay.Open, true, "insufficient_funds"})
		f.books(k, 0, 0, 5, 5, 1) // the money stays reserved
		f.record(outcome(p, pay.VerdictRefused))
		f.books(k, 0, 0, 5, 5, 1)
		f.record(outcome(p, pay.VerdictRefusedExpired))
		f.books(k, 0, 0, 0, 0, 1)
		f.record(outcome(p, pay.VerdictRefusedExpired))
		f.record(outcome(p, pay.VerdictVoid))
		f.books(k, 0, 0, 0, 0, 1)
		got = f.record(outcome(p, pay.VerdictSettled)) // found on chain after all
		f.same("row", []any{got.State, got.Refused}, []any{pay.Settled, false})
		f.books(k, 1, 0, 5, 0, 1)
	},
	"void by a word that the chain may contradict": func(f *fixture) {
		k := f.key()
		doubted := func(p *pay.Payment) pay.Outcome {
			o := outcome(p, pay.VerdictVoid)
			o.Doubted = true
			return o
		}
		p := f.begin(want(k, noon), pay.Created)
		got := f.record(doubted(p))
		f.same("row", []any{got.State, got.Doubted, got.Lives()}, []any{pay.Void, true, true})
		f.books(k, 0, 0, 5, 5, 1) // the money stays reserved
		f.record(doubted(p))
		f.books(k, 0, 0, 5, 5, 1)
		got = f.record(outcome(p, pay.VerdictVoid)) // the chain agrees
		f.same("row", []any{got.State, got.Doubted, got.Lives()}, []any{pay.Void, false, false})
		f.books(k, 0, 0, 0, 0, 1)
		other := f.begin(want(k, noon), pay.Created)
		f.record(doubted(other))
		f.same("doubted", f.record(outcome(other, pay.VerdictRefusedExpired)).Doubted, false) // no RPC to ask
		f.books(k, 0, 0, 0, 0, 2)
		f.record(outcome(other, pay.VerdictSettled))
		f.books(k, 1, 0, 5, 0, 2)
	},
	"being canceled": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		c := pay.Canceling{At: noon, HandedOut: true, Terms: pay.TransactionTerms{Nonce: 3, Gas: 75_000, MaxFee: money.New(22), Tip: money.New(2)}}
		order := pay.Outcome{PaymentID: p.ID, At: noon, Canceling: &c}
		f.same("row", *f.record(order).Canceling, c)
		f.reopen(Opener.Kill)
		f.same("after a crash", *f.find(p.ID).Canceling, c)
		said := outcome(p, pay.VerdictSettled)
		said.Hearsay = true
		f.same("said to be used", f.record(said).State, pay.Open)
		f.same("number of events", len(f.events(k)), 0)
		f.same("proved", f.record(outcome(p, pay.VerdictSettled)).State, pay.Settled)
		_, _, err := f.Record(f.ctx, order)
		f.same("too late", pay.Code(err), pay.CodeUncancelable)
		other := f.begin(want(k, noon), pay.Created)
		said.PaymentID, said.EventID = other.ID, newID()
		f.same("another one", f.record(said).State, pay.Settled)
	},
	"unresolved": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		f.same("unresolved", f.record(outcome(p, pay.VerdictUnresolved)).Unresolved, true)
		f.books(k, 0, 1, 5, 0, 1)
		f.record(outcome(p, pay.VerdictUnresolved))
		f.books(k, 0, 1, 5, 0, 1)
		f.record(outcome(p, pay.VerdictVoid))
		f.books(k, 0, 0, 0, 0, 1)
	},
	"resolved": func(f *fixture) {
		late := noon.Add(time.Hour)
		resolve := func(p *pay.Payment, as pay.State) pay.Outcome {
			o := outcome(p, pay.Verdict(as))
			o.At, o.Reason, o.Resolution = late, "resolved", &pay.Resolution{At: late, By: "ann", As: as, Reason: "seen on a statement"}
			return o
		}
		k := f.key()
		void, settled := f.begin(want(k, noon), pay.Created), f.begin(want(k, noon), pay.Created)
		f.record(outcome(void, pay.VerdictUnresolved))
		f.books(k, 1, 2, 10, 5, 2)
		early := resolve(void, pay.Void)
		early.At = noon
		var cannot *pay.UnresolvableError
		if _, _, err := f.Record(f.ctx, early); !errors.As(err, &cannot) {
			f.Fatalf("a valid payment was resolved: %v", err)
		}
		stale := resolve(settled, pay.Settled)
		stale.Fence = 9
		_, _, err := f.Record(f.ctx, stale)
		f.fails(err, pay.ErrLeaseLost)
		got := f.record(resolve(void, pay.Void))
		f.same("row", []any{got.State, got.Unresolved, got.Resolution}, []any{pay.Void, false, early.Resolution})
		f.same("stored", f.find(void.ID), got)
		f.books(k, 1, 1, 5, 5, 2)
		f.same("settled", f.record(resolve(settled, pay.Settled)).State, pay.Settled)
		f.books(k, 1, 0, 5, 0, 2)
		f.same("events", len(f.events(k)), 1)
		if _, _, err := f.Record(f.ctx, resolve(settled, pay.Void)); !errors.As(err, &cannot) {
			f.Fatalf("resolved twice: %v", err)
		}
		f.same("proven", f.record(outcome(void, pay.VerdictVoid)).Resolution.Proven, true)
		f.same("the chain wins", f.record(outcome(void, pay.VerdictSettled)).State, pay.Settled)
		f.books(k, 2, 0, 10, 0, 2)
		f.same("the word stays", f.find(void.ID).Resolution.Reason, "seen on a statement")
	},
	"unclear": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		o := outcome(p, pay.Unclear)
		o.Reason, o.Note, o.Check, o.Checked = "settlement_pending", "no answer", noon.Add(time.Hour), true
		got := f.record(o)
		f.same("row", []any{got.State, got.Reason, got.Checks, got.Check, len(got.Notes)}, []any{pay.Open, o.Reason, 1, o.Check, 1})
		f.same("stored", f.find(p.ID), got)
		f.books(k, 1, 1, 5, 5, 1)
		o.Fence = 0 // an observer may note, too
		f.same("notes", len(f.record(o).Notes), 2)
	},
	"signature": func(f *fixture) {
		p := f.begin(want(f.key(), noon), pay.Created)
		o := outcome(p, pay.Unclear)
		o.Signature = &x402.Signature{1, 2, 3}
		got := f.record(o)
		f.same("signature", got.Signature, o.Signature)
		f.same("stored", f.find(p.ID), got)
		other := o
		other.Signature = &x402.Signature{9}
		f.same("the first stays", f.record(other).Signature, o.Signature)
	},
	"confirmed": func(f *fixture) {
		p := f.settle(f.begin(want(f.key(), noon), pay.Created), true)
		held := must(f.Acquire(f.ctx, p.ID, owner, noon, noon.Add(time.Minute)))
		f.same("flags", f.record(outcome(held, pay.VerdictConfirmed)).Flags(), []string{"confirmed"})
	},
	"disputed": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		settled := f.record(outcome(p, pay.VerdictSettled))
		o := outcome(p, pay.VerdictDisputed)
		f.same("flags", f.record(o).Flags(), []string{"disputed"})
		events := f.events(k)
		f.same("events", []any{len(events), events[0].ID, events[0].Corrects, events[0].SignedAmount()},
			[]any{2, o.EventID, settled.EventID, "-5"})
		f.record(outcome(p, pay.VerdictDisputed))
		f.same("number of events", len(f.events(k)), 2)
	},
	"retired": func(f *fixture) {
		p := f.begin(want(f.key(), noon), pay.Created)
		o := outcome(p, pay.VerdictSettled)
		o.Signature, o.Check = &x402.Signature{1}, noon.Add(time.Hour)
		f.record(o)
		end := outcome(p, pay.Unclear)
		end.Retire = true
		got := f.record(end)
		f.same("payload", []any{got.Retired, got.Signature, got.Check.IsZero(), got.Offer.Version}, []any{true, nil, true, 0})
		f.same("stored", f.find(p.ID), got)
		f.same("due", len(must(f.Due(f.ctx, noon.Add(24*time.Hour), 10))), 0)
	},
	"unknown payment": func(f *fixture) {
		_, _, err := f.Record(f.ctx, pay.Outcome{PaymentID: newID(), At: noon, Verdict: pay.VerdictSettled, EventID: newID()})
		f.fails(err, pay.ErrPaymentNotFound)
	},
	"an event needs an id of its own": func(f *fixture) {
		k := f.key()
		first := f.settle(f.begin(want(k, noon), pay.Created), true)
		p := f.begin(want(k, noon), pay.Created)
		for _, id := range []string{"", first.EventID} {
			o := outcome(p, pay.VerdictSettled)
			o.EventID = id
			if _, _, err := f.Record(f.ctx, o); err == nil {
				f.Fatalf("settled with event id %q", id)
			}
		}
		f.same("the row", f.find(p.ID), p)
	},
	"a claimed transaction settles one payment": func(f *fixture) {
		k := f.key()
		a, b := f.begin(want(k, noon), pay.Created), f.begin(want(k, noon), pay.Created)
		claim := func(p *pay.Payment, hash string) pay.Outcome {
			o := outcome(p, pay.VerdictSettled)
			o.Transaction, o.ClaimedTransaction = hash, true
			return o
		}
		hash := transaction("1")
		f.record(claim(a, hash))
		f.record(claim(a, hash)) // the same claim again is no news
		for _, h := range []string{hash, "0x" + strings.ToUpper(hash[2:])} {
			_, _, err := f.Record(f.ctx, claim(b, h))
			f.fails(err, pay.ErrTransactionKnown)
		}
		f.same("the other row", f.find(b.ID), b)
		f.same("number of events", len(f.events(k)), 1)
		empty := claim(b, "")
		f.same("state", f.record(empty).State, pay.Settled)
		// Evidence of our own counts although a receipt claimed the transaction before.
		c := f.begin(want(k, noon), pay.Created)
		own := claim(c, hash)
		own.ClaimedTransaction = false
		f.same("state", f.record(own).State, pay.Settled)
		f.record(claim(a, hash)) // which stays that of the first
	},
	"a transaction that several payments have": func(f *fixture) {
		// A false claim, the payment it belongs to, and the end of the false claim: a third one
		// must not get it.
		k := f.key()
		hash := transaction("1")
		settle := func(claimed bool) (*pay.Payment, error) {
			o := outcome(f.begin(want(k, noon), pay.Created), pay.VerdictSettled)
			o.Transaction, o.ClaimedTransaction = hash, claimed
			p, _, err := f.Record(f.ctx, o)
			return p, err
		}
		liar := must(settle(true))
		honest := must(settle(false))
		own := outcome(liar, pay.VerdictConfirmed)
		own.Transaction = transaction("2")
		f.same("corrected", f.record(own).Transaction, own.Transaction)
		_, err := settle(true)
		f.fails(err, pay.ErrTransactionKnown)
		f.same("the owner", f.find(honest.ID).Transaction, hash)
		second := must(settle(false))
		with := func(hash string, limit int) (ids []string) {
			for _, p := range must(f.PaymentsByTransaction(f.ctx, hash, limit)) {
				ids = append(ids, p.ID)
			}
			return ids
		}
		both := []string{honest.ID, second.ID}
		slices.Sort(both)
		f.reopen(Opener.Kill)
		f.same("those with it", with(hash, 10), both)
		f.same("in upper case", with("0x"+strings.ToUpper(hash[2:]), 10), both)
		f.same("the first of them", with(hash, 1), both[:1])
		f.same("with another", with(transaction("2"), 10), []string{liar.ID})
		f.same("with none", len(with(transaction("3"), 10))+len(with("", 10)), 0)
	},
	"a transaction claimed at once": func(f *fixture) {
		k := f.key()
		payments := make([]*pay.Payment, crowd)
		for i := range payments {
			payments[i] = f.begin(want(k, noon), pay.Created)
		}
		errs := together(crowd, func(i int) error {
			o := outcome(payments[i], pay.VerdictSettled)
			o.Transaction, o.ClaimedTransaction = transaction("1"), true
			_, _, err := f.Record(f.ctx, o)
			return err
		})
		f.same("settled", f.succeeded(errs, pay.ErrTransactionKnown), 1)
		f.same("number of events", len(f.events(k)), 1)
	},
	"settled at once": func(f *fixture) {
		k := f.key()
		p := f.begin(want(k, noon), pay.Created)
		f.must(firstOf(together(crowd, func(int) error {
			_, _, err := f.Record(f.ctx, outcome(p, pay.VerdictSettled))
			return err
		})))
		f.same("number of events", len(f.events(k)), 1)
		f.books(k, 1, 0, 5, 0, 1)
	},
}
