package storetest

import (
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// late is after the payments of noon have retired; everything that closed before is removed.
const late = 70 * aDay

func everywhere(string) bool { return true }

func nowhere(string) bool { return false }

// removes removes all that a removal selects, and returns how many there were.
func (f *fixture) removes(r pay.Removal, limit int) (n int) {
	f.Helper()
	for r.Limit = limit; ; {
		done := must(f.RemovePayments(f.ctx, r))
		if n += done.Count; done.Count > limit {
			f.Fatalf("%d payments removed of %d", done.Count, limit)
		}
		if done.Next == "" {
			return n
		}
		r.After = done.Next
	}
}

// closed lists all closed payments.
func (f *fixture) closed(q pay.ClosedQuery) (all []pay.ClosedPayment) {
	f.Helper()
	for {
		page := must(f.ClosedPayments(f.ctx, q))
		if len(page.Payments) > q.Limit {
			f.Fatalf("%d payments on a page of %d", len(page.Payments), q.Limit)
		}
		all = append(all, page.Payments...)
		if page.Next == "" {
			return all
		}
		q.After = page.Next
	}
}

// made makes a payment of a time, whose id is of that time as well.
func made(k pay.Key, at time.Time) *pay.Begin {
	b := want(k, at)
	b.New.ID = eventID(at)
	return b
}

// retire retires a payment with a verdict, and ends its lease.
func (f *fixture) retire(p *pay.Payment, v pay.Verdict, at time.Time) *pay.Payment {
	f.Helper()
	o := outcome(p, v)
	o.At, o.EventID, o.Retire, o.Release, o.Answered = at, eventID(at), true, true, true
	if v == pay.VerdictSettled {
		o.Transaction = transaction(p.ID)
	}
	return f.record(o)
}

// confirm settles, confirms and retires a payment.
func (f *fixture) confirm(p *pay.Payment, at time.Time) *pay.Payment {
	f.Helper()
	o := outcome(p, pay.VerdictSettled)
	o.At, o.EventID, o.Transaction = at, eventID(at), transaction(p.ID)
	f.record(o)
	return f.retire(p, pay.VerdictConfirmed, at)
}

var retentionTests = map[string]func(*fixture){
	"removed with everything but its sums": func(f *fixture) {
		k := f.key()
		old := f.confirm(f.begin(made(k, noon), pay.Created), noon)
		void := f.retire(f.begin(made(k, noon), pay.Created), pay.VerdictVoid, noon)
		after := noon.Add(30 * aDay)
		kept := f.confirm(f.begin(made(k, after), pay.Created), after)
		summary := f.summary(noon, after, k)
		f.books(k, 1, 0, 10, 0, 3)

		f.same("too early", f.removes(pay.Removal{Before: noon, Unwatched: nowhere}, 10), 0)
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(aDay), Unwatched: nowhere}, 10), 2)
		for _, id := range []string{old.ID, void.ID} {
			_, err := f.Payment(f.ctx, id)
			f.fails(err, pay.ErrPaymentNotFound)
			_, err = f.Acquire(f.ctx, id, owner, after, after.Add(time.Minute))
			f.fails(err, pay.ErrPaymentNotFound)
		}
		_, _, err := f.Record(f.ctx, outcome(old, pay.VerdictSettled))
		f.fails(err, pay.ErrPaymentNotFound)
		f.same("the other one", f.find(kept.ID), kept)
		f.reopen(Opener.Close)
		f.same("payments", f.list(k, "", 10), []string{kept.ID})
		f.same("all payments", f.listAll("", nil, 10), []string{kept.ID})
		f.same("void ones", f.listAll("void", nil, 10), []string{})
		for label, n := range map[string]int{"settled": 1, "void": 0, "confirmed": 1, "open": 0} {
			f.same("number of "+label, must(f.CountOpen(f.ctx, label)), n)
		}
		f.same("summary", f.summary(noon, after, k), summary)
		f.books(k, 1, 0, 10, 0, 3)
		events := f.events(k)
		f.same("events", []any{len(events), events[0].PaymentID}, []any{1, kept.ID})
		for _, q := range []pay.OrganizationSpendQuery{{}, {Host: "api.example.com"}, {Task: "crawl"}} {
			f.lists("spend", q, []pay.Key{k}, events...)
		}
		_, err = f.SpendEvents(f.ctx, k.ID, pay.SpendQuery{Before: old.EventID, Limit: 1})
		f.fails(err, pay.ErrEventNotFound)
		f.same("once more", f.removes(pay.Removal{Before: noon.Add(aDay), Unwatched: nowhere}, 10), 0)
		f.same("the rest", f.removes(pay.Removal{Before: after.Add(aDay), Unwatched: nowhere}, 10), 1)
		f.same("summary of nothing left", f.summary(noon, after, k), summary)
	},
	"disputed long after it was closed": func(f *fixture) {
		k := f.key()
		p := f.begin(made(k, noon), pay.Created)
		f.record(pay.Outcome{PaymentID: p.ID, At: noon, Verdict: pay.VerdictSettled, EventID: eventID(noon)})
		f.retire(p, pay.VerdictDisputed, noon.Add(40*aDay))
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(aDay), Unwatched: nowhere}, 10), 1)
		f.check() // the day of the dispute has lost an event, too
	},
	"a transaction is free again": func(f *fixture) {
		k := f.key()
		old := f.confirm(f.begin(made(k, noon), pay.Created), noon)
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(late), Unwatched: nowhere}, 10), 1)
		o := outcome(f.begin(made(k, noon.Add(late)), pay.Created), pay.VerdictSettled)
		o.Transaction, o.ClaimedTransaction = old.Transaction, true
		f.record(o)
	},
	"what may still matter stays": func(f *fixture) {
		k := f.key()
		begun := func() *pay.Payment { return f.begin(made(k, noon), pay.Created) }
		doubted := outcome(begun(), pay.VerdictVoid)
		doubted.Doubted, doubted.Release = true, true
		refused := begun()
		f.record(outcome(refused, pay.VerdictRefused))
		unretired := outcome(begun(), pay.VerdictVoid)
		unretired.Release = true
		held := f.retire(begun(), pay.VerdictVoid, noon)
		due := f.retire(begun(), pay.VerdictVoid, noon)
		list := []*pay.Payment{
			f.release(begun(), false), f.record(doubted), f.record(outcome(refused, pay.VerdictRefusedExpired)), f.record(unretired),
			f.record(outcome(begun(), pay.VerdictUnresolved)), f.settle(begun(), false), f.retire(begun(), pay.VerdictSettled, noon),
			must(f.Acquire(f.ctx, held.ID, owner, noon, noon.Add(time.Minute))),
			f.record(pay.Outcome{PaymentID: due.ID, At: noon, Check: noon.Add(time.Hour)}),
		}
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(late), Unwatched: nowhere}, 10), 0)
		for _, p := range list {
			f.same("payment", f.find(p.ID), p)
		}
		settled := list[6]
		other := pay.Removal{Before: noon.Add(late), Unwatched: func(network string) bool { return network != settled.Terms.Network }}
		f.same("removed", f.removes(other, 10), 0)
		f.same("without an RPC", f.removes(pay.Removal{Before: noon.Add(late), Unwatched: everywhere}, 10), 1)
		_, err := f.Payment(f.ctx, settled.ID)
		f.fails(err, pay.ErrPaymentNotFound)
	},
	"unresolved, refused and disputed ones": func(f *fixture) {
		k := f.key()
		refused := f.begin(made(k, noon), pay.Created)
		f.record(outcome(refused, pay.VerdictRefused))
		f.retire(refused, pay.VerdictRefusedExpired, noon)
		unresolved := f.retire(f.begin(made(k, noon), pay.Created), pay.VerdictUnresolved, noon)
		f.same("unresolved", []any{unresolved.Retired, unresolved.State}, []any{true, pay.Open})
		disputed := f.begin(made(k, noon), pay.Created)
		f.record(pay.Outcome{PaymentID: disputed.ID, At: noon, Verdict: pay.VerdictSettled, EventID: eventID(noon)})
		f.retire(disputed, pay.VerdictDisputed, noon.Add(aDay))
		later := f.begin(made(k, noon.Add(late)), pay.Created)
		var archived []string
		for _, p := range f.closed(pay.ClosedQuery{Limit: 10}) {
			archived = append(archived, fmt.Sprint(p.ID, len(p.Events)))
		}
		f.same("archived before", archived, []string{refused.ID + "0", unresolved.ID + "0", disputed.ID + "2"})
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(late), Unwatched: nowhere}, 2), 3)
		f.same("events", len(f.events(k)), 0)
		f.same("left", f.listAll("", nil, 10), []string{later.ID})
		f.counts("pending", pendingOf(k), 1)
		for _, label := range []string{"open", "unresolved", "disputed", "refused", "settled"} {
			want := 0
			if label == "open" {
				want = 1
			}
			f.same("number of "+label, must(f.CountOpen(f.ctx, label)), want)
		}
	},
	"closed when the clock was set back": func(f *fixture) {
		f.retire(f.begin(made(f.key(), noon), pay.Created), pay.VerdictVoid, noon.Add(-late))
		f.same("removed", f.removes(pay.Removal{Before: noon, Unwatched: nowhere}, 10), 0)
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(1), Unwatched: nowhere}, 10), 1)
	},
	"in steps": func(f *fixture) {
		k := f.key()
		for i := range 250 {
			v := []pay.Verdict{pay.VerdictVoid, pay.VerdictSettled, pay.VerdictUnresolved}[i%3]
			f.retire(f.begin(made(k, noon), pay.Created), v, noon)
		}
		f.same("removed", f.removes(pay.Removal{Before: noon.Add(late), Unwatched: everywhere}, 7), 250)
		f.same("left", len(f.listAll("", nil, 1000)), 0)
	},
	"nonces outlive the payment": func(f *fixture) {
		k := f.key()
		seen := map[x402.Nonce]bool{}
		b := under(made(k, noon), "order 1")
		n := 0
		again := func() *pay.Payment {
			f.Helper()
			n++
			b := under(made(k, noon), "order 1")
			p := f.begin(b, pay.Created)
			f.same("attempt", p.Attempt, n)
			if seen[p.Authorization.Nonce] {
				f.Fatalf("attempt %d has the nonce of an earlier one", n)
			}
			seen[p.Authorization.Nonce] = true
			return p
		}
		remove := func(want int) {
			f.Helper()
			f.same("removed", f.removes(pay.Removal{Before: noon.Add(late), Unwatched: everywhere}, 1), want)
			f.reopen(Opener.Kill)
		}
		for range 3 {
			f.retire(again(), pay.VerdictVoid, noon)
		}
		remove(3)
		f.retire(again(), pay.VerdictSettled, noon)
		remove(1)
		unresolved := again()
		f.record(outcome(unresolved, pay.VerdictUnresolved))
		f.retire(unresolved, pay.VerdictVoid, noon)
		f.retire(again(), pay.VerdictVoid, noon)
		remove(2)
		again()
		b.Fingerprint = pay.HashOf("another request")
		_, err := f.Begin(f.ctx, b)
		f.fails(err, pay.ErrIdempotencyReused) // of the new attempt, not of a removed one
		other := f.begin(under(made(f.key(), noon), "order 1"), pay.Created)
		f.same("another key's first attempt", other.Attempt, 1)
	},
	"not while reconciling, and not what only the chain tells of": func(f *fixture) {
		k := f.key()
		b := under(made(k, noon), "order 1")
		lost := f.begin(b, pay.Created)
		f.retire(f.begin(made(k, noon), pay.Created), pay.VerdictVoid, noon)
		f.retire(lost, pay.VerdictVoid, noon)
		f.restored(noon)
		all := pay.Removal{Before: noon.Add(late), Unwatched: everywhere, Limit: 10}
		_, err := f.RemovePayments(f.ctx, all)
		f.fails(err, pay.ErrUnavailable)
		booked := onChain(k, "a", nonceOf("a"))
		booked.ID, booked.EventID = eventID(noon), eventID(noon)
		f.finds(1, booked)
		f.ended()
		f.retire(f.acquired(booked.ID), pay.Unclear, noon)
		f.same("removed", f.removes(all, 10), 2)
		f.same("flags", f.find(booked.ID).Flags(), []string{"confirmed", "reconciled"})
	},
	"closed payments": func(f *fixture) {
		k, other := f.key(), f.key()
		var want []string
		for i := range 250 {
			at := noon.Add(time.Duration(i) * time.Hour)
			p := f.begin(made([]pay.Key{k, other}[i%2], at), pay.Created)
			switch i % 5 {
			case 0: // stays open
			case 1:
				f.retire(p, pay.VerdictVoid, at)
				want = append(want, p.ID+" void")
			case 2:
				f.record(pay.Outcome{PaymentID: p.ID, At: at, Verdict: pay.VerdictSettled, EventID: eventID(at)})
				o := outcome(p, pay.VerdictDisputed)
				o.At, o.EventID = at.Add(late), eventID(at.Add(late))
				f.record(o)
				want = append(want, p.ID+" settled 5 -5")
			default:
				f.confirm(p, at)
				want = append(want, p.ID+" settled 5")
			}
		}
		shown := func(q pay.ClosedQuery) (list []string) {
			for _, p := range f.closed(q) {
				line := p.ID + " " + string(p.State)
				for _, e := range p.Events {
					if e.PaymentID != p.ID {
						f.Fatalf("event of another payment: %+v", e)
					}
					line += " " + e.SignedAmount()
				}
				list = append(list, line)
			}
			return list
		}
		for _, limit := range []int{1, 7, 1000} {
			f.same("all", shown(pay.ClosedQuery{Limit: limit}), want)
			f.same("some", shown(pay.ClosedQuery{Before: noon.Add(100 * time.Hour), Limit: limit}), want[:80])
		}
		f.same("none", shown(pay.ClosedQuery{Before: noon, Limit: 10}), []string(nil))
	},
}
