package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// notice makes a notice about a key.
func notice(kind pay.NoticeKind, keyID, once string, at time.Time) pay.Notice {
	return pay.Notice{At: at, Kind: kind, KeyID: keyID, Once: once, Title: "title", Text: "text", Figures: map[string]string{"used": "8.00 USDC"}}
}

// kinds lists the kinds of the notices behind a number, oldest first.
func (f *fixture) kinds(after uint64) (kinds []pay.NoticeKind) {
	f.Helper()
	for _, n := range must(f.NoticesAfter(f.ctx, after, 1000)) {
		kinds = append(kinds, n.Kind)
	}
	return kinds
}

var noticeTests = map[string]func(*fixture){
	"kept in order, also after a crash": func(f *fixture) {
		f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticePaused, "", "", noon), notice(pay.NoticeResumed, "", "", noon)}))
		f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeNewHost, "k1", "", noon)}))
		all := must(f.NoticesAfter(f.ctx, 0, 10))
		f.same("notices", len(all), 3)
		for i, n := range all {
			f.same("number", n.Number, all[0].Number+uint64(i))
			if n.ID == "" || i > 0 && n.ID == all[i-1].ID {
				f.Errorf("notice %d has the id %q", n.Number, n.ID)
			}
		}
		f.same("row", all[2].Figures["used"]+all[2].KeyID, "8.00 USDCk1")
		f.same("behind the first", must(f.NoticesAfter(f.ctx, all[0].Number, 1)), all[1:2])
		f.same("newest first", must(f.Notices(f.ctx, pay.NoticeQuery{Limit: 1})), all[2:])
		f.same("page after page", must(f.Notices(f.ctx, pay.NoticeQuery{Before: all[2].Number, Limit: 10})), []pay.Notice{all[1], all[0]})
		f.reopen(Opener.Kill)
		f.same("after a crash", must(f.NoticesAfter(f.ctx, 0, 10)), all)
	},
	"once": func(f *fixture) {
		add := func(at time.Time) {
			f.Helper()
			f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeLowBalance, "k1", "low/w1", at)}))
		}
		add(noon)
		add(noon.Add(time.Hour))
		f.reopen(Opener.Kill)
		add(noon.Add(2 * time.Hour))
		f.same("told", len(f.kinds(0)), 1)
		f.must(f.ForgetNotice(f.ctx, "low/w1"))
		f.must(f.ForgetNotice(f.ctx, "unknown"))
		add(noon.Add(3 * time.Hour))
		f.same("told again once it is forgotten", len(f.kinds(0)), 2)
		add(noon.Add(3*time.Hour + pay.NoticeOnceKept))
		f.same("told again after its time", len(f.kinds(0)), 3)
	},
	"marks of any length": func(f *fixture) {
		long := callersTexts()["long"]
		for i := range 2 {
			n := notice(pay.NoticeNewHost, "k1", "host/"+long, noon)
			n.Marks = []string{"payees/" + long}
			f.must(f.AddNotices(f.ctx, []pay.Notice{n, {At: noon, Kind: pay.NoticeUnansweredRun, Run: "run/" + long, RunOf: 2}}))
			f.same("told", len(f.kinds(0)), 1+i)
		}
		f.reopen(Opener.Kill)
		f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeNewHost, "k1", "payees/"+long, noon)}))
		f.same("a further mark", len(f.kinds(0)), 2)
		f.must(f.ForgetNotice(f.ctx, "host/"+long))
		f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeNewHost, "k1", "host/"+long, noon), notice(pay.NoticeNewHost, "k1", "host/"+long+"x", noon)}))
		f.same("told again, and of another", len(f.kinds(0)), 4)
	},
	"twenty of a kind and key in an hour": func(f *fixture) {
		for i := range pay.NoticesPerHour + 5 {
			f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeNewHost, "k1", fmt.Sprint(i), noon)}))
		}
		kinds := f.kinds(0)
		f.same("told", len(kinds), pay.NoticesPerHour+1)
		f.same("the last one", kinds[pay.NoticesPerHour], pay.NoticeHeldBack)
		f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeNewHost, "k2", "", noon), notice(pay.NoticeNewPayee, "k1", "", noon)}))
		f.must(f.AddNotices(f.ctx, []pay.Notice{notice(pay.NoticeNewHost, "k1", "", noon.Add(time.Hour))}))
		f.same("another key, kind and hour", f.kinds(0)[pay.NoticesPerHour+1:], []pay.NoticeKind{pay.NoticeNewHost, pay.NoticeNewPayee, pay.NoticeNewHost})
	},
	"a row of events": func(f *fixture) {
		count := func(kind pay.NoticeKind, at time.Time) {
			f.Helper()
			f.must(f.AddNotices(f.ctx, []pay.Notice{{At: at, Kind: kind, Run: "run/k1/h", RunOf: 3}}))
		}
		for range 2 {
			count(pay.NoticeUnansweredRun, noon)
		}
		count("", noon)
		for range 2 {
			count(pay.NoticeUnansweredRun, noon)
		}
		f.same("two, an end, and two more", len(f.kinds(0)), 0)
		f.reopen(Opener.Kill)
		for range 4 {
			count(pay.NoticeUnansweredRun, noon)
		}
		f.same("the third tells, also after a crash, and those behind it do not", len(f.kinds(0)), 1)
		count("", noon)
		for range 2 {
			count(pay.NoticeUnansweredRun, noon)
		}
		count(pay.NoticeUnansweredRun, noon.Add(pay.NoticeRunKept))
		f.same("after a long time the row begins anew", len(f.kinds(0)), 1)
	},
	"deliveries": func(f *fixture) {
		d := pay.Delivery{Destination: "b", Cursor: 7, Tries: 2, First: noon, Next: noon.Add(time.Second), Failed: noon, Error: "no", GivenUp: 1, Stopped: true}
		f.must(f.SetDelivery(f.ctx, pay.Delivery{Destination: "b"}))
		d.Version = 1
		f.must(f.SetDelivery(f.ctx, d))
		f.must(f.SetDelivery(f.ctx, pay.Delivery{Destination: "a", Cursor: 1}))
		f.reopen(Opener.Kill)
		d.Version = 2
		a := pay.Delivery{Destination: "a", Cursor: 1, Version: 1}
		f.same("deliveries", must(f.Deliveries(f.ctx)), []pay.Delivery{a, d})
		f.must(f.ForgetDelivery(f.ctx, "b"))
		f.must(f.ForgetDelivery(f.ctx, "c"))
		f.same("left", must(f.Deliveries(f.ctx)), []pay.Delivery{a})
	},
	"a delivery is replaced only as it was read": func(f *fixture) {
		f.must(f.SetDelivery(f.ctx, pay.Delivery{Destination: "a", Cursor: 1}))
		f.must(f.SetDelivery(f.ctx, pay.Delivery{Destination: "a", Cursor: 9, Version: 1}))
		for _, old := range []pay.Delivery{{Destination: "a"}, {Destination: "a", Version: 1}, {Destination: "a", Version: 3}, {Destination: "unknown", Version: 2}} {
			f.fails(f.SetDelivery(f.ctx, old), pay.ErrDeliveryChanged)
		}
		f.same("kept", must(f.Deliveries(f.ctx)), []pay.Delivery{{Destination: "a", Cursor: 9, Version: 2}})
		f.must(f.ForgetDelivery(f.ctx, "a"))
		f.fails(f.SetDelivery(f.ctx, pay.Delivery{Destination: "a", Version: 2}), pay.ErrDeliveryChanged)
		f.same("forgotten", len(must(f.Deliveries(f.ctx))), 0)
	},
	"one sender claims a destination": func(f *fixture) {
		a := pay.Delivery{Destination: "a"}
		f.must(f.SetDelivery(f.ctx, a))
		f.must(f.SetDelivery(f.ctx, pay.Delivery{Destination: "b"}))
		f.same("a claim of what has changed", must(f.ClaimDelivery(f.ctx, a)), false)
		a.Version = 1
		f.same("the first", must(f.ClaimDelivery(f.ctx, a)), true)
		f.same("the second", must(f.ClaimDelivery(f.ctx, a)), false)
		f.same("of another destination", must(f.ClaimDelivery(f.ctx, pay.Delivery{Destination: "b", Version: 1})), true)
		f.fails(f.SetDelivery(f.ctx, pay.Delivery{Destination: "a"}), pay.ErrDeliveryChanged)
		f.same("after a write that was refused", must(f.ClaimDelivery(f.ctx, a)), false)
		f.must(f.SetDelivery(f.ctx, a))
		f.same("the version before", must(f.ClaimDelivery(f.ctx, a)), false)
		a.Version = 2
		f.same("after the write", must(f.ClaimDelivery(f.ctx, a)), true)
		f.same("deliveries", must(f.Deliveries(f.ctx))[0], a)
	},
	"many claim a destination at once": func(f *fixture) {
		a := pay.Delivery{Destination: "a"}
		f.must(f.SetDelivery(f.ctx, a))
		a.Version = 1
		var mine atomic.Int64
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() {
				if is, err := f.ClaimDelivery(f.ctx, a); err != nil {
					f.Error(err)
				} else if is {
					mine.Add(1)
				}
			})
		}
		all.Wait()
		f.same("claims", mine.Load(), int64(1))
	},
	"of a new payment, in its transaction": func(f *fixture) {
		k := f.key()
		limit := money.New(10)
		begin := func(payee byte, change func(*pay.Begin)) {
			f.Helper()
			b := want(k, noon)
			b.Policy, b.KeyName = &policy.Policy{DailyBudget: policy.CapOf(limit)}, "shop"
			b.New.Terms.Amount, b.New.Authorization.Value = money.New(4), money.New(4)
			b.New.Terms.PayTo = x402.EVMAddress([20]byte{payee})
			b.New.Identity, b.Identity = pay.HashOf(b.New.ID), pay.HashOf(b.New.ID)
			if change != nil {
				change(b)
			}
			_, _ = f.Begin(f.ctx, b)
		}
		begin(1, func(b *pay.Begin) { b.Dry = true })
		f.same("a dry call", f.kinds(0), nil)
		begin(1, nil) // 4 of 10
		f.same("the first", f.kinds(0), []pay.NoticeKind{pay.NoticeNewHost})
		begin(1, nil) // 8 of 10
		f.same("the second", f.kinds(0)[1:], []pay.NoticeKind{pay.NoticeBudget80})
		begin(2, func(b *pay.Begin) {
			b.New.Terms.Amount, b.New.Authorization.Value = money.New(2), money.New(2)
		})
		f.same("another payee, all spent", f.kinds(0)[2:], []pay.NoticeKind{pay.NoticeBudget100, pay.NoticeNewPayee})
		begin(3, nil)
		begin(3, func(b *pay.Begin) { b.KeyName, b.Policy = "", nil })
		f.same("a decline, and a silent payment", len(f.kinds(0)), 4)
		list := must(f.NoticesAfter(f.ctx, 0, 10))
		f.same("of its payment", must(f.Payment(f.ctx, list[0].PaymentID)).KeyID, k.ID)
		f.reopen(Opener.Kill)
		f.same("after a crash", must(f.NoticesAfter(f.ctx, 0, 10)), list)
	},
	"of an outcome, in its transaction": func(f *fixture) {
		open := f.begin(want(f.key(), noon), pay.Created)
		o := pay.Outcome{PaymentID: open.ID, Fence: open.Lease.Fence, At: noon, Verdict: pay.VerdictUnresolved, KeyName: "shop"}
		for range 2 {
			_, _, err := f.Record(f.ctx, o)
			f.must(err)
		}
		f.same("told", f.kinds(0), []pay.NoticeKind{pay.NoticeUnresolved})
		_, _, err := f.Record(f.ctx, pay.Outcome{PaymentID: open.ID, Fence: open.Lease.Fence + 1, At: noon, Verdict: pay.VerdictVoid, KeyName: "shop"})
		f.fails(err, pay.ErrLeaseLost)
		o.Verdict, o.EventID = pay.VerdictSettled, newID()
		_, _, err = f.Record(f.ctx, o)
		f.must(err)
		o.Verdict, o.EventID = pay.VerdictDisputed, newID()
		_, _, err = f.Record(f.ctx, o)
		f.must(err)
		f.same("told", f.kinds(0), []pay.NoticeKind{pay.NoticeUnresolved, pay.NoticeDisputed})
	},
	"of the pause": func(f *fixture) {
		ctx := pay.WithActor(f.ctx, operator)
		for range 2 {
			f.must(f.SetPause(ctx, &pay.Pause{At: noon, Reason: "why", By: operator}))
		}
		for range 2 {
			f.must(f.SetPause(ctx, nil))
		}
		f.same("told", f.kinds(0), []pay.NoticeKind{pay.NoticePaused, pay.NoticeResumed})
	},
}
