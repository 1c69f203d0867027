package storetest

import (
	"context"
	"fmt"
	"strings"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// entries lists the audit page by page, oldest first, as "action old new".
func (f *fixture) entries(q pay.AuditQuery, page int) (list []pay.AuditEntry) {
	f.Helper()
	q.Limit = page
	for {
		part := must(f.AuditEntries(f.ctx, q))
		if len(part) > page {
			f.Fatalf("%d entries on a page of %d", len(part), page)
		}
		for _, e := range part {
			if len(list) > 0 && e.Number >= list[0].Number {
				f.Fatalf("entry %d is listed behind %d", e.Number, list[0].Number)
			}
			list = append([]pay.AuditEntry{e}, list...)
		}
		if len(part) == 0 {
			return list
		}
		q.Before = part[len(part)-1].Number
	}
}

func told(list []pay.AuditEntry) (lines []string) {
	for _, e := range list {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Action, e.Old, e.New))
	}
	return lines
}

var auditTests = map[string]func(*fixture){
	"an RPC that is trusted anew": func(f *fixture) {
		ctx := pay.WithActor(f.ctx, operator)
		f.must(f.ForgetSafeBlock(ctx, "base")) // none is kept: no change
		f.must(f.KeepSafeBlock(f.ctx, "base", nil, pay.ChainBlock{Number: 7, Hash: "0x07", Time: noon}))
		f.must(f.ForgetSafeBlock(ctx, "base"))
		f.same("entries", told(f.entries(pay.AuditQuery{}, 10)), []string{`rpc.trust {"block":7,"hash":"0x07","network":"base"} `})
	},
	"each change, and who": func(f *fixture) {
		ctx := pay.WithActor(f.ctx, operator)
		n := newKey("")
		n.Label = "shop"
		k := must(f.CreateKey(ctx, n))
		pol := &policy.Policy{DailyBudget: policy.CapOf(money.New(7))}
		must(f.SetPolicy(ctx, k.ID, pol))
		must(f.SetPolicy(ctx, k.ID, pol)) // changes nothing
		w := newWallet(k)
		f.must(f.CreateWallet(ctx, w, 10))
		f.must(f.DeleteWallet(ctx, k.ID, w.ID, noon))
		org := newKey("org")
		must(f.CreateKey(f.ctx, org))
		must(f.LinkKey(pay.WithActor(f.ctx, account), pay.Link{Secret: n.Secret, OrganizationID: "org"}))
		must(f.SetPlan(ctx, "org", pay.PlanAgency))
		must(f.SetPlan(ctx, "org", pay.PlanAgency)) // changes nothing
		for _, do := range []pay.Stop{pay.StopPause, pay.StopResume, pay.StopResume, pay.StopRevoke, pay.StopRevoke} {
			must(f.StopKey(ctx, k.ID, stop(do, operator)))
		}
		f.must(f.SetPause(ctx, &pay.Pause{At: noon, Reason: "why", By: operator}))
		f.must(f.SetPause(ctx, nil))
		f.must(f.SetPause(ctx, nil)) // changes nothing

		const day, at = `"2026-11-15T12:00:00Z"`, `"at":"2026-11-15T12:00:00Z"`
		wallet := `{"address":"` + w.Address.String() + `","network":"base"}`
		want := []string{
			`key.create  {"label":"shop","organization_id":"","policy":null}`,
			`key.policy {"policy":null} {"policy":{"daily_budget":"7"}}`,
			`wallet.create  ` + wallet,
			`wallet.delete ` + wallet + ` `,
			`key.link {"organization_id":""} {"organization_id":"org"}`,
			`organization.plan {"plan":"FREE"} {"plan":"AGENCY"}`,
			`key.pause  {"paused":{` + at + `,"reason":"why"}}`,
			`key.resume {"paused":{` + at + `,"reason":"why"}} `,
			`key.revoke  {"revoked_at":` + day + `}`,
			`pause {"paused":null} {"paused":{` + at + `,"reason":"why"}}`,
			`resume {"paused":{` + at + `,"reason":"why"}} {"paused":null}`,
		}
		all := f.entries(pay.AuditQuery{}, 3)
		f.same("entries", told(all), want)
		f.same("number by number", all, f.entries(pay.AuditQuery{}, 1))
		f.same("of the key", told(f.entries(pay.AuditQuery{KeyID: k.ID}, 2)), append(append([]string{}, want[:5]...), want[6:9]...))
		f.same("of the organization", told(f.entries(pay.AuditQuery{OrganizationID: "org"}, 2)), want[4:9])
		f.same("of another", len(f.entries(pay.AuditQuery{OrganizationID: "or"}, 2)), 0)
		for _, e := range all {
			by := operator
			if e.Action == pay.ActionKeyLink {
				by = account
			}
			f.same("actor of "+string(e.Action), e.By, by)
			if e.At.IsZero() {
				f.Errorf("entry %d has no time", e.Number)
			}
		}
		for _, secret := range []string{n.Secret, org.Secret, string(w.Secret)} {
			if secret != "" && strings.Contains(text(all), secret) {
				f.Errorf("the audit has a secret: %s", text(all))
			}
		}
		f.reopen(Opener.Kill)
		f.same("after a crash", f.entries(pay.AuditQuery{}, 100), all)
	},
	"without an actor, or without a change": func(f *fixture) {
		n := newKey("org")
		k := must(f.CreateKey(f.ctx, n))
		f.must(f.CreateWallet(f.ctx, newWallet(k), 10))
		must(f.SetPolicy(f.ctx, k.ID, &policy.Policy{}))

		ctx := pay.WithActor(f.ctx, operator)
		_, err := f.CreateKey(ctx, n)
		f.fails(err, pay.ErrKeyExists)
		_, err = f.SetPolicy(ctx, newID(), nil)
		f.fails(err, pay.ErrKeyNotFound)
		_, err = f.StopKey(ctx, newID(), stop(pay.StopRevoke, operator))
		f.fails(err, pay.ErrKeyNotFound)
		f.fails(f.CreateWallet(ctx, newWallet(k), 1), pay.ErrWalletLimit)
		f.fails(f.DeleteWallet(ctx, k.ID, newID(), noon), pay.ErrWalletNotFound)
		_, err = f.LinkKey(ctx, pay.Link{Secret: n.Secret, OrganizationID: "another"})
		f.fails(err, pay.ErrKeyClaimed)
		_, err = f.SetPlan(ctx, "unknown", pay.PlanAgency)
		f.fails(err, pay.ErrOrganizationNotFound)
		_, _, err = f.Record(ctx, pay.Outcome{PaymentID: newID(), Resolution: &pay.Resolution{At: noon}})
		f.fails(err, pay.ErrPaymentNotFound)
		ended, end := context.WithCancel(ctx)
		end()
		_, err = f.SetPolicy(ended, k.ID, nil)
		f.fails(err, context.Canceled)
		f.same("entries", len(f.entries(pay.AuditQuery{}, 10)), 0)
	},
	"an operator's word on a payment": func(f *fixture) {
		k := f.key()
		open := f.begin(want(k, noon), pay.Created)
		o := pay.Outcome{
			PaymentID: open.ID, Fence: open.Lease.Fence, At: open.ValidBefore().Add(pay.RepeatGrace), Release: true, Verdict: pay.VerdictVoid, Reason: "said",
			Resolution: &pay.Resolution{At: noon, By: "ann", As: pay.Void, Reason: "nothing came"},
		}
		_, _, err := f.Record(pay.WithActor(f.ctx, operator), o)
		f.must(err)
		list := f.entries(pay.AuditQuery{KeyID: k.ID}, 10)
		f.same("entries", told(list), []string{`payment.resolve {"state":"open"} {"reason":"nothing came","state":"void"}`})
		f.same("payment", list[0].PaymentID, open.ID)
	},
	"a cancellation, once": func(f *fixture) {
		k := f.key()
		open := f.begin(want(k, noon), pay.Created)
		ctx := pay.WithActor(f.ctx, operator)
		for _, c := range []pay.Canceling{{At: noon}, {At: noon, Terms: pay.TransactionTerms{Gas: 1}}, {At: noon, HandedOut: true}} {
			_, _, err := f.Record(ctx, pay.Outcome{PaymentID: open.ID, At: noon, Canceling: &c})
			f.must(err)
		}
		list := f.entries(pay.AuditQuery{KeyID: k.ID}, 10)
		f.same("entries", told(list), []string{
			`payment.cancel {"canceling":false} {"canceling":true}`, `payment.cancel {"handed_out":false} {"handed_out":true}`,
		})
		f.same("payment and wallet", [2]string{list[0].PaymentID, list[0].WalletID}, [2]string{open.ID, open.WalletID})
	},
	"an approval, once": func(f *fixture) {
		k := f.key()
		w := newWallet(k)
		f.must(f.CreateWallet(f.ctx, w, 10))
		ctx := pay.WithActor(f.ctx, operator)
		a := pay.Approving{At: noon, Amount: money.New(7), Terms: pay.TransactionTerms{Nonce: 3, Gas: 1, MaxFee: money.New(1)}}
		for _, fee := range []uint64{1, 2} {
			a.Terms.MaxFee = money.New(fee)
			f.same("kept", *must(f.KeepApproving(ctx, w.ID, a)).Approving, a)
		}
		f.reopen(Opener.Kill)
		f.same("after a crash", *must(f.Wallet(f.ctx, w.ID)).Approving, a)
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon))
		a.Amount = money.New(0)
		must(f.KeepApproving(ctx, w.ID, a))
		_, err := f.KeepApproving(ctx, newID(), a)
		f.fails(err, pay.ErrWalletNotFound)
		list := f.entries(pay.AuditQuery{KeyID: k.ID}, 10)
		f.same("entries", len(list), 2)
		f.same("action and wallet", [2]string{string(list[0].Action), list[0].WalletID}, [2]string{string(pay.ActionWalletApprove), w.ID})
	},
	"a withdrawal, once": func(f *fixture) {
		k := f.key()
		b := want(k, noon)
		b.New.Door, b.New.WalletID = policy.DoorOperator, newID()
		ctx := pay.WithActor(f.ctx, operator)
		begun := must(f.Begin(ctx, b))
		f.same("how", begun.How, pay.Created)
		made := begun.Payment
		_, _, err := f.Record(ctx, pay.Outcome{PaymentID: made.ID, Fence: made.Lease.Fence, At: noon, Release: true})
		f.must(err)
		// A person repeats later than an agent.
		b.Now = made.ValidBefore().Add(pay.RepeatGrace)
		begun = must(f.Begin(ctx, b))
		f.same("the repeat", begun.How, pay.Expired)
		f.same("its payment", begun.Payment.ID, made.ID)
		b.Now, b.New = made.AwaitedUntil(), want(k, noon).New
		begun = must(f.Begin(ctx, b))
		f.same("much later", begun.How, pay.Created)
		list := f.entries(pay.AuditQuery{KeyID: k.ID}, 10)
		f.same("entries", len(list), 1)
		f.same("action", list[0].Action, pay.ActionWalletWithdraw)
		f.same("payment and wallet", [2]string{list[0].PaymentID, list[0].WalletID}, [2]string{made.ID, made.WalletID})
	},
	"at once": func(f *fixture) {
		ctx := pay.WithActor(f.ctx, operator)
		errs := together(crowd, func(int) error {
			_, err := f.CreateKey(ctx, newKey(""))
			return err
		})
		f.same("created", f.succeeded(errs, nil), crowd)
		f.same("entries", len(f.entries(pay.AuditQuery{}, 7)), crowd)
	},
}
