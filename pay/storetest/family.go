package storetest

import (
	"errors"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// child makes a key with a parent.
func (f *fixture) child(parent pay.Key) pay.Key {
	f.Helper()
	n := newKey(parent.OrganizationID)
	n.Parent = parent.ID
	return must(f.CreateKey(f.ctx, n))
}

// spends makes a call of a child that is judged by its own policy and its parent's.
func spends(k, parent pay.Key, own, shared policy.Policy, at time.Time, host, task string, amount uint64) *pay.Begin {
	b := judged(want(k, at), own, k.PolicyRevision, amount)
	b.New.RequestURL, b.New.Host, b.New.Task = "https://"+host+"/"+b.New.ID, host, task
	if k.Parent != "" {
		b.Parent = &pay.Parent{KeyID: parent.ID, Name: "parent", Policy: shared, PolicyRevision: parent.PolicyRevision, Paused: parent.Paused}
	}
	return b
}

func daily(most uint64) policy.Policy {
	return policy.Policy{DailyBudget: policy.CapOf(money.New(most))}
}

var familyTests = map[string]func(*fixture){
	"who may be a parent": func(f *fixture) {
		parent, stranger, gone := f.key(), must(f.CreateKey(f.ctx, newKey("org-"+newID()))), f.key()
		must(f.StopKey(f.ctx, gone.ID, stop(pay.StopRevoke, operator)))
		k := f.child(parent)
		f.same("parent", must(f.Key(f.ctx, k.ID)).Parent, parent.ID)
		f.reopen(Opener.Kill)
		f.same("parent", must(f.Key(f.ctx, k.ID)).Parent, parent.ID)
		f.same("has children", must(f.Key(f.ctx, parent.ID)).HasChildren, true)
		f.same("the parent's revision", must(f.Key(f.ctx, parent.ID)).PolicyRevision, parent.PolicyRevision)
		for name, id := range map[string]string{"a child": k.ID, "of another organization": stranger.ID, "revoked": gone.ID, "unknown": newID()} {
			n := newKey("")
			n.Parent = id
			_, err := f.CreateKey(f.ctx, n)
			if wrong, is := errors.AsType[*pay.InputError](err); !is || wrong.Field != "parent" {
				f.Errorf("%s: %v", name, err)
			}
			_, err = f.Key(f.ctx, n.ID)
			f.fails(err, pay.ErrKeyNotFound)
		}
		// Neither leaves the family for an organization.
		org := must(f.CreateKey(f.ctx, newKey("org-"+newID()))).OrganizationID
		n := newKey("")
		n.Parent = parent.ID
		must(f.CreateKey(f.ctx, n))
		_, err := f.LinkKey(f.ctx, pay.Link{Secret: n.Secret, OrganizationID: org})
		if _, is := errors.AsType[*pay.InputError](err); !is {
			f.Errorf("a child was linked: %v", err)
		}
	},
	"budgets are shared": func(f *fixture) {
		// Children and parent spend at once: each amount counts exactly for all, and one that does not fit leaves no trace.
		parent := f.key()
		a, b := f.child(parent), f.child(parent)
		parent = must(f.Key(f.ctx, parent.ID))
		shared := daily(103)
		shared.Hosts = map[string]policy.Budget{"*.example.com": {DailyBudget: policy.CapOf(money.New(60))}}
		shared.Tasks = map[string]policy.Budget{"crawl": {Total: &policy.Total{Amount: money.New(41), Begin: noon}}}
		family := []pay.Key{a, b, parent}
		own := []policy.Policy{daily(43), daily(1000), shared}
		errs := together(crowd, func(i int) error {
			who := i % 3
			_, err := f.Begin(f.ctx, spends(family[who], parent, own[who], shared, noon, []string{"api.example.com", "other.org"}[i/3%2], []string{"", "crawl"}[i/6%2], 5))
			return err
		})
		spent, crawled, hosts := [3]uint64{}, uint64(0), uint64(0)
		all := uint64(0)
		for i, err := range errs {
			if err != nil {
				continue
			}
			spent[i%3] += 5
			all += 5
			if i/6%2 == 1 {
				crawled += 5
			}
			if i/3%2 == 0 {
				hosts += 5
			}
		}
		if all > 100 || all < 80 || crawled > 40 || hosts > 60 || spent[0] > 40 {
			f.Fatalf("%d were begun: %v, %d for the task, %d to the host", all, spent, crawled, hosts)
		}
		day := func(k pay.Key) pay.Counter { return pay.DailyCounter(k.ID, "USDC", noon) }
		for range 2 {
			f.counts("the parent", day(parent), all)
			f.counts("a child", day(a), spent[0])
			f.counts("the other", day(b), spent[1])
			f.counts("the parent's task", pay.Counter("task-day/"+parent.ID+"/crawl/USDC/2026-11-15"), crawled)
			f.counts("its total", pay.Counter("task-total/"+parent.ID+"/crawl/USDC/2026-11-15T12:00"), crawled)
			f.reopen(Opener.Kill)
		}
		f.refusedBy(spends(b, parent, daily(1000), daily(all+2), noon, "other.org", "", 3), "daily-budget")
		f.counts("the other", day(b), spent[1])
		f.refusedBy(spends(a, parent, daily(spent[0]+2), daily(1000), noon, "other.org", "", 3), "daily-budget")
		f.counts("the parent", day(parent), all)
	},
	"outcomes are those of both": func(f *fixture) {
		parent := f.key()
		k := f.child(parent)
		other := f.child(parent)
		day := func(k pay.Key) pay.Counter { return pay.DailyCounter(k.ID, "USDC", noon) }
		begin := func(k pay.Key, amount uint64) *pay.Payment {
			return f.begin(spends(k, must(f.Key(f.ctx, parent.ID)), daily(100), daily(20), noon, "other.org", "", amount), pay.Created)
		}
		settled, void, refused := begin(k, 7), begin(k, 8), begin(other, 5)
		f.counts("the parent", day(parent), 20)
		// The row alone says what was reserved, also when keys are revoked or have other limits by now.
		must(f.SetPolicy(f.ctx, parent.ID, &policy.Policy{}))
		must(f.StopKey(f.ctx, other.ID, stop(pay.StopRevoke, operator)))
		f.settle(settled, true)
		f.record(outcome(void, pay.VerdictVoid))
		f.counts("the parent", day(parent), 12)
		f.counts("the child", day(k), 7)
		f.record(outcome(refused, pay.VerdictRefused))
		f.counts("the parent", day(parent), 12) // until the authorization has expired
		f.counts("the other child", day(other), 5)
		f.reopen(Opener.Kill)
		f.begin(spends(k, must(f.Key(f.ctx, parent.ID)), daily(100), daily(20), noon, "other.org", "", 8), pay.Created)
		f.refusedBy(spends(k, must(f.Key(f.ctx, parent.ID)), daily(100), daily(20), noon, "other.org", "", 1), "daily-budget")
	},
	"changes of the parent": func(f *fixture) {
		parent := f.key()
		k := f.child(parent)
		b := spends(k, parent, daily(100), daily(20), noon, "other.org", "", 1)
		must(f.SetPolicy(f.ctx, parent.ID, &policy.Policy{}))
		_, err := f.Begin(f.ctx, b)
		f.fails(err, pay.ErrPolicyChanged)
		now := must(f.StopKey(f.ctx, parent.ID, stop(pay.StopPause, operator)))
		f.refusedBy(spends(k, now, daily(100), daily(20), noon, "other.org", "", 1), pay.RulePaused)
		resumed := must(f.StopKey(f.ctx, parent.ID, stop(pay.StopResume, operator)))
		f.begin(spends(k, resumed, daily(100), daily(20), noon, "other.org", "", 1), pay.Created)
		must(f.StopKey(f.ctx, parent.ID, stop(pay.StopRevoke, operator)))
		_, err = f.Begin(f.ctx, spends(k, resumed, daily(100), daily(20), noon, "other.org", "", 1))
		f.fails(err, pay.ErrPolicyChanged)
	},
}
