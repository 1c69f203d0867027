package storetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// later comes ten seconds after noon.
var later = noon.Add(soon)

// asking makes a call for 5 units that needs an approval for an hour.
func asking(k pay.Key, purchase string, now time.Time) *pay.Begin {
	return askingOnce(want(k, now), purchase, now)
}

// askingOnce has a call ask for an approval.
func askingOnce(b *pay.Begin, purchase string, now time.Time) *pay.Begin {
	b.Policy = &policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(4))}
	p := b.New
	b.Approval = &pay.Approval{
		ID: newID(), KeyID: p.KeyID, OrganizationID: p.OrganizationID, Door: p.Door, Task: p.Task, Method: "GET", Host: p.Host, URL: p.RequestURL,
		Terms: p.Terms, Currency: p.Currency, Purchase: pay.HashOf(purchase), Created: now, Expires: now.Add(time.Hour),
	}
	return b
}

// held demands that a call is held, and returns its approval.
func (f *fixture) held(b *pay.Begin) pay.Approval {
	f.Helper()
	begun := must(f.Begin(f.ctx, b))
	if begun.How != pay.Unapproved || begun.Payment != nil || begun.Approval == nil {
		f.Fatalf("begin: got %d with %s, want a held payment", begun.How, text(begun.Payment))
	}
	f.notBegun(b)
	f.same("the approval", must(f.Approval(f.ctx, begun.Approval.ID)), begun.Approval)
	return *begun.Approval
}

// answer answers an approval a minute after noon.
func (f *fixture) answer(a pay.Approval, answer pay.ApprovalAnswer) pay.Approval {
	f.Helper()
	return must(f.AnswerApproval(pay.WithActor(f.ctx, operator), pay.ApprovalAnswering{ID: a.ID, Answer: answer, Reason: "too dear", At: noon.Add(time.Minute)}))
}

// declined demands the rule by which a call is declined.
func (f *fixture) declined(b *pay.Begin, rule string) *pay.ApprovalError {
	f.Helper()
	_, err := f.Begin(f.ctx, b)
	var held *pay.ApprovalError
	if !errors.As(err, &held) || held.Rule() != rule {
		f.Fatalf("error is %v, want %s", err, rule)
	}
	f.notBegun(b)
	return held
}

// notBegun demands that a call has made no payment.
func (f *fixture) notBegun(b *pay.Begin) {
	f.Helper()
	_, err := f.Payment(f.ctx, b.New.ID)
	f.fails(err, pay.ErrPaymentNotFound)
}

// approvals lists ids, page by page.
func (f *fixture) approvals(q pay.ApprovalQuery, page int) (list []string) {
	f.Helper()
	q.Limit = page
	for {
		part := must(f.Approvals(f.ctx, q))
		for _, a := range part {
			list = append(list, a.ID)
		}
		if len(part) < page {
			return list
		}
		q.Before = part[len(part)-1].ID
	}
}

var approvalTests = map[string]func(*fixture){
	"held, approved and used once": func(f *fixture) {
		k := f.key()
		a := f.held(asking(k, "a", noon))
		f.same("rule and state", []any{a.Rule, a.State(noon)}, []any{"approval-above", "pending"})
		f.same("the same request", f.held(asking(k, "a", later)).ID, a.ID)
		if b := f.held(asking(k, "b", noon)); b.ID == a.ID {
			f.Fatal("two purchases have one approval")
		}
		f.answer(a, pay.Approved)
		b := asking(k, "a", noon.Add(2*time.Minute))
		p := f.begin(b, pay.Created)
		got := must(f.Approval(f.ctx, a.ID))
		f.same("used", []any{got.PaymentID, got.State(noon), got.By, got.Answer}, []any{p.ID, "used", operator, "approved"})
		if again := f.held(asking(k, "a", noon.Add(3*time.Minute))); again.ID == a.ID {
			f.Fatal("an approval was used twice")
		}
		f.reopen(Opener.Kill)
		f.same("after a crash", must(f.Approval(f.ctx, a.ID)), got)
	},
	"pending and approved ones survive a crash": func(f *fixture) {
		k := f.key()
		a, b := f.held(asking(k, "a", noon)), f.held(asking(k, "b", noon))
		f.answer(b, pay.Approved)
		f.reopen(Opener.Kill)
		f.same("the pending one", f.held(asking(k, "a", later)).ID, a.ID)
		f.begin(asking(k, "b", later), pay.Created)
	},
	"people are told once": func(f *fixture) {
		k := f.key()
		named := func(now time.Time) *pay.Begin {
			b := asking(k, "a", now)
			b.KeyName = "crawler"
			return b
		}
		a := f.held(named(noon))
		f.held(named(later))
		told := must(f.Notices(f.ctx, pay.NoticeQuery{Limit: 10}))
		if len(told) != 1 || told[0].Kind != pay.NoticeApproval || told[0].ApprovalID != a.ID {
			f.Fatalf("notices: %s", text(told))
		}
	},
	"below the threshold": func(f *fixture) {
		b := asking(f.key(), "a", noon)
		b.Policy.RequireApprovalAbove = policy.CapOf(money.New(5))
		f.begin(b, pay.Created)
		f.same("approvals", len(f.approvals(pay.ApprovalQuery{}, 10)), 0)
	},
	"denied until it expires": func(f *fixture) {
		k := f.key()
		a := f.answer(f.held(asking(k, "a", noon)), pay.Denied)
		held := f.declined(asking(k, "a", later), "approval-denied")
		f.same("approval", held.Approval, a)
		next := f.held(asking(k, "a", noon.Add(time.Hour)))
		if next.ID == a.ID {
			f.Fatal("an expired approval is asked for again")
		}
	},
	"expired": func(f *fixture) {
		k := f.key()
		a, b := f.held(asking(k, "a", noon)), f.held(asking(k, "b", noon))
		f.answer(b, pay.Approved)
		f.begin(asking(k, "b", noon.Add(time.Hour-1)), pay.Created)
		c := f.held(asking(k, "c", noon))
		f.answer(c, pay.Approved)
		if f.held(asking(k, "c", noon.Add(time.Hour))).ID == c.ID {
			f.Fatal("an approval is used after its time")
		}
		_, err := f.AnswerApproval(pay.WithActor(f.ctx, operator), pay.ApprovalAnswering{ID: a.ID, Answer: pay.Approved, At: noon.Add(time.Hour)})
		f.fails(err, pay.ErrApprovalClosed)
	},
	"limits hold for approved payments": func(f *fixture) {
		k := f.key()
		a := f.held(asking(k, "a", noon))
		f.answer(a, pay.Approved)
		b := bound(asking(k, "a", later), budgetOf(k), 4, errRefused)
		_, err := f.Begin(f.ctx, b)
		f.fails(err, errRefused)
		f.notBegun(b)
		f.same("not used", must(f.Approval(f.ctx, a.ID)).State(later), "approved")
		_, err = f.Begin(f.ctx, bound(asking(k, "b", later), budgetOf(k), 4, errRefused))
		f.fails(err, errRefused) // a person is not asked about what a rule refuses
		f.same("approvals", f.approvals(pay.ApprovalQuery{}, 10), []string{a.ID})
	},
	"dry calls ask nobody": func(f *fixture) {
		k := f.key()
		dry := func(want string) {
			f.Helper()
			b := asking(k, "a", later)
			b.Dry = true
			f.same("id", f.declined(b, "approval-needed").Approval.ID, want)
		}
		dry("")
		f.same("approvals", len(f.approvals(pay.ApprovalQuery{}, 10)), 0)
		a := f.held(asking(k, "a", noon))
		dry(a.ID)
		f.answer(a, pay.Approved)
		b := asking(k, "a", later)
		b.Dry = true
		f.same("approved", must(f.Begin(f.ctx, b)).How, pay.Quoted)
		f.same("state", must(f.Approval(f.ctx, a.ID)).State(later), "approved")
	},
	"answers": func(f *fixture) {
		a := f.held(asking(f.key(), "a", noon))
		answer := func(by string, answer pay.ApprovalAnswer, at time.Time) error {
			_, err := f.AnswerApproval(pay.WithActor(f.ctx, pay.Actor{Kind: pay.ActorAccount, ID: by}), pay.ApprovalAnswering{ID: a.ID, Answer: answer, At: at})
			return err
		}
		if _, err := f.AnswerApproval(f.ctx, pay.ApprovalAnswering{ID: a.ID, Answer: pay.Approved, At: later}); err == nil {
			f.Fatal("an answer without a person")
		}
		var input *pay.InputError
		if err := answer("ada", "maybe", later); !errors.As(err, &input) {
			f.Fatalf("error is %v", err)
		}
		f.must(answer("ada", pay.Approved, later))
		f.must(answer("ada", pay.Approved, noon.Add(2*time.Hour))) // a repeat
		f.fails(answer("bob", pay.Approved, later), pay.ErrApprovalClosed)
		f.fails(answer("ada", pay.Denied, later), pay.ErrApprovalClosed)
		got := must(f.Approval(f.ctx, a.ID))
		f.same("answer", []any{got.Answer, got.By.ID, got.Answered}, []any{"approved", "ada", later})
		entries := f.entries(pay.AuditQuery{KeyID: a.KeyID}, 10)
		f.same("audit", []any{len(entries), entries[0].Action, entries[0].By.ID}, []any{1, "approval.approve", "ada"})
		_, err := f.Approval(f.ctx, newID())
		f.fails(err, pay.ErrApprovalNotFound)
		_, err = f.AnswerApproval(pay.WithActor(f.ctx, operator), pay.ApprovalAnswering{ID: newID(), Answer: pay.Denied, At: later})
		f.fails(err, pay.ErrApprovalNotFound)
	},
	"two answers at once": func(f *fixture) {
		a := f.held(asking(f.key(), "a", noon))
		errs := together(crowd, func(i int) error {
			answer := []pay.ApprovalAnswer{pay.Approved, pay.Denied}[i%2]
			ctx := pay.WithActor(f.ctx, pay.Actor{Kind: pay.ActorAccount, ID: string(rune('A' + i))})
			_, err := f.AnswerApproval(ctx, pay.ApprovalAnswering{ID: a.ID, Answer: answer, At: later})
			return err
		})
		f.same("answers", f.succeeded(errs, pay.ErrApprovalClosed), 1)
	},
	"used once by many at once": func(f *fixture) {
		k := f.key()
		f.answer(f.held(asking(k, "a", noon)), pay.Approved)
		var created atomic.Int64
		f.must(firstOf(together(crowd, func(int) error {
			begun, err := f.Begin(f.ctx, asking(k, "a", later))
			if err == nil && begun.How == pay.Created {
				created.Add(1)
			}
			return err
		})))
		f.same("payments", created.Load(), 1)
		f.same("approvals", len(f.approvals(pay.ApprovalQuery{KeyID: k.ID}, 10)), 2) // the others have asked again, together
	},
	"bounded for each key": func(f *fixture) {
		k, other := f.key(), f.key()
		for range pay.MaxPendingApprovals {
			f.held(asking(k, newID(), noon))
		}
		held := f.declined(asking(k, "a", later), "approval-needed")
		f.same("id", held.Approval.ID, "")
		f.held(asking(other, "a", later))
		f.held(asking(k, "a", noon.Add(time.Hour))) // the others have expired
	},
	"old ones are dropped": func(f *fixture) {
		k := f.key()
		at := noon
		kept := f.held(asking(k, "kept", noon))
		for range pay.KeptApprovals + 5 {
			b := asking(k, newID(), at)
			b.Approval.Expires = at.Add(time.Second)
			if begun := must(f.Begin(f.ctx, b)); begun.How != pay.Unapproved {
				f.Fatalf("begin: got %d", begun.How)
			}
			at = at.Add(time.Second)
		}
		f.same("approvals", len(f.approvals(pay.ApprovalQuery{KeyID: k.ID}, 999)), pay.KeptApprovals)
		f.same("pending", f.approvals(pay.ApprovalQuery{KeyID: k.ID, State: pay.ApprovalPending, Now: at}, 10), []string{kept.ID})
	},
	"lists": func(f *fixture) {
		k, other := must(f.CreateKey(f.ctx, newKey("org"))), f.key()
		second := must(f.CreateKey(f.ctx, newKey("org")))
		var all []pay.Approval
		for i, of := range []pay.Key{k, other, second, k, other, k} {
			all = append(all, f.held(asking(of, newID(), noon.Add(time.Duration(i)*time.Second))))
		}
		listed := func(what string, q pay.ApprovalQuery, want ...int) {
			f.Helper()
			var ids []string
			for _, i := range want {
				ids = append(ids, all[i].ID)
			}
			q.Now = noon.Add(2 * time.Minute)
			for _, page := range []int{1, 2, 100} {
				f.same(what, f.approvals(q, page), ids)
			}
		}
		listed("all", pay.ApprovalQuery{}, 5, 4, 3, 2, 1, 0)
		listed("all pending", pay.ApprovalQuery{State: pay.ApprovalPending}, 0, 1, 2, 3, 4, 5)
		f.answer(all[3], pay.Approved)
		f.answer(all[4], pay.Denied)
		f.answer(all[0], pay.Approved)
		listed("pending", pay.ApprovalQuery{State: pay.ApprovalPending}, 1, 2, 5)
		listed("pending of a key", pay.ApprovalQuery{KeyID: k.ID, State: pay.ApprovalPending}, 5)
		listed("approved", pay.ApprovalQuery{State: pay.ApprovalApproved}, 3, 0)
		listed("denied", pay.ApprovalQuery{KeyID: other.ID, State: pay.ApprovalDenied}, 4)
		listed("of an organization", pay.ApprovalQuery{OrganizationID: "org"}, 5, 3, 2, 0)
		listed("pending of an organization", pay.ApprovalQuery{OrganizationID: "org", State: pay.ApprovalPending}, 2, 5)
		listed("of no organization", pay.ApprovalQuery{OrganizationID: "another"})
		listed("expired", pay.ApprovalQuery{State: pay.ApprovalExpired})
		q := pay.ApprovalQuery{State: pay.ApprovalPending, Now: noon.Add(time.Hour + 2*time.Second), Limit: 10}
		f.same("later", len(must(f.Approvals(f.ctx, q))), 1)
		q.State = pay.ApprovalExpired
		f.same("expired later", len(must(f.Approvals(f.ctx, q))), 3)
		_, err := f.Approvals(f.ctx, pay.ApprovalQuery{Before: newID(), Limit: 1})
		f.fails(err, pay.ErrApprovalNotFound)
	},
	"hosts that were never paid": func(f *fixture) {
		k := f.key()
		news := func(door policy.Door) *pay.Begin {
			b := asking(k, newID(), noon)
			on := true
			b.Policy, b.New.Door = &policy.Policy{RequireApprovalNewHosts: &on}, door
			return b
		}
		f.same("rule", f.held(news(policy.DoorProxy)).Rule, "approval-new-host")
		said := want(k, noon)
		said.New.Door = policy.DoorAPI
		f.settle(f.begin(said, pay.Created), true)
		f.held(news(policy.DoorTransport)) // purser has sent no request there
		disproved := f.begin(want(k, noon), pay.Created)
		f.record(outcome(disproved, pay.VerdictSettled))
		f.record(outcome(disproved, pay.VerdictDisputed))
		f.held(news(policy.DoorProxy))
		f.settle(f.begin(want(k, noon), pay.Created), true)
		f.begin(news(policy.DoorProxy), pay.Created)
		f.begin(news(policy.DoorTransport), pay.Created)
		f.held(news(policy.DoorAPI)) // there, the host is the caller's word
		b := news(policy.DoorAPI)
		b.Policy.AllowPayees = []x402.Address{b.New.Terms.PayTo}
		f.begin(b, pay.Created)
		b = news(policy.DoorProxy)
		b.New.Host = "b.example.com"
		f.held(b)
		b = news(policy.DoorProxy)
		b.New.Host = ""
		f.held(b)
	},
	"a caller that left asks nobody": func(f *fixture) {
		ctx, leave := context.WithCancel(f.ctx)
		leave()
		_, err := f.Begin(ctx, asking(f.key(), "a", noon))
		f.fails(err, context.Canceled)
		f.same("approvals", slices.Clone(f.approvals(pay.ApprovalQuery{}, 10)), []string(nil))
	},
}
