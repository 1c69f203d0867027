package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// operator stops keys in tests.
var operator = pay.Actor{Kind: pay.ActorOperator, ID: "ann"}

// account acts on the dashboard.
var account = pay.Actor{Kind: pay.ActorAccount, ID: "0199"}

func stop(do pay.Stop, by pay.Actor) pay.KeyStop {
	return pay.KeyStop{Do: do, At: noon, Reason: "why", By: by}
}

// judgedBy changes a call to one that was judged by an earlier state of a key.
func judgedBy(b *pay.Begin, k pay.Key) *pay.Begin {
	b.Policy, b.PolicyRevision, b.Paused = &policy.Policy{}, k.PolicyRevision, k.Paused
	return b
}

var stopTests = map[string]func(*fixture){
	"a key": func(f *fixture) {
		n := newKey("")
		k := must(f.CreateKey(f.ctx, n))
		_, err := f.StopKey(f.ctx, newID(), stop(pay.StopPause, operator))
		f.fails(err, pay.ErrKeyNotFound)
		same := func(want pay.Key) {
			f.Helper()
			f.same("by id", must(f.Key(f.ctx, n.ID)), want)
			f.same("by secret", must(f.KeyBySecret(f.ctx, n.Secret)), want)
		}
		k.Paused, k.PolicyRevision = &pay.Pause{At: noon, Reason: "why", By: operator}, 1
		got := must(f.StopKey(f.ctx, k.ID, stop(pay.StopPause, operator)))
		f.same("paused", got, k)
		f.reopen(Opener.Kill)
		same(k)
		_, err = f.StopKey(f.ctx, k.ID, stop(pay.StopResume, account))
		f.fails(err, pay.ErrPausedByOperator)
		got = must(f.StopKey(f.ctx, k.ID, stop(pay.StopPause, account)))
		f.same("still the operator's pause", got, k)
		same(k)
		k.Paused, k.PolicyRevision = nil, 2
		got = must(f.StopKey(f.ctx, k.ID, stop(pay.StopResume, operator)))
		f.same("resumed", got, k)
		got = must(f.StopKey(f.ctx, k.ID, stop(pay.StopResume, operator)))
		f.same("resumed again", got, k)
		k.RevokedAt, k.PolicyRevision = noon, 3
		got = must(f.StopKey(f.ctx, k.ID, stop(pay.StopRevoke, account)))
		f.same("revoked", got, k)
		f.reopen(Opener.Close)
		same(k)
		for _, do := range []pay.Stop{pay.StopPause, pay.StopResume} {
			_, err = f.StopKey(f.ctx, k.ID, stop(do, operator))
			f.fails(err, pay.ErrKeyRevoked)
		}
		later := stop(pay.StopRevoke, operator)
		later.At = noon.Add(time.Hour)
		got = must(f.StopKey(f.ctx, k.ID, later))
		f.same("revoked once", got, k)
		_, err = f.CreateKey(f.ctx, pay.NewKey{Key: pay.Key{ID: newID(), Created: noon}, Secret: n.Secret})
		f.fails(err, pay.ErrKeyExists)
		_, err = f.LinkKey(f.ctx, pay.Link{Secret: n.Secret, OrganizationID: "org"})
		f.fails(err, pay.ErrKeyNotFound)
		same(k)
	},
	"a paused key begins nothing": func(f *fixture) {
		k := f.key()
		paused := must(f.StopKey(f.ctx, k.ID, stop(pay.StopPause, operator)))
		_, err := f.Begin(f.ctx, judgedBy(want(k, noon), k))
		f.fails(err, pay.ErrPolicyChanged)
		f.refusedBy(judgedBy(want(k, noon), paused), pay.RulePaused)
		resumed := must(f.StopKey(f.ctx, k.ID, stop(pay.StopResume, operator)))
		f.begin(judgedBy(want(k, noon), resumed), pay.Created)
	},
	"a host of a key": func(f *fixture) {
		const host = "api.example.com"
		k := f.key()
		of := func(do pay.Stop, by pay.Actor) pay.KeyStop {
			s := stop(do, by)
			s.Host = host
			return s
		}
		same := func(got pay.Key, revision uint64, want map[string]pay.Pause) {
			f.Helper()
			f.same("given", []any{got.PausedHosts, got.PolicyRevision, got.Paused}, []any{want, revision, (*pay.Pause)(nil)})
			f.same("stored", must(f.Key(f.ctx, k.ID)), got)
		}
		itself := of(pay.StopPause, pay.Actor{Kind: pay.ActorPurser})
		paused := must(f.StopKey(f.ctx, k.ID, itself))
		same(paused, 1, map[string]pay.Pause{host: {At: noon, Reason: "why", By: itself.By}})
		later := itself
		later.At = noon.Add(time.Second)
		same(must(f.StopKey(f.ctx, k.ID, later)), 1, paused.PausedHosts) // it is told once
		_, err := f.Begin(f.ctx, judgedBy(want(k, noon), k))
		f.fails(err, pay.ErrPolicyChanged)
		refused := judgedBy(want(k, noon), paused)
		refused.HostPaused = &pay.Pause{At: noon, Reason: "why"}
		f.refusedBy(refused, pay.RuleHostPaused)
		f.begin(judgedBy(want(k, noon), paused), pay.Created) // another host

		f.reopen(Opener.Kill)
		same(must(f.StopKey(f.ctx, k.ID, of(pay.StopPause, operator))), 2, map[string]pay.Pause{host: {At: noon, Reason: "why", By: operator}})
		same(must(f.StopKey(f.ctx, k.ID, itself)), 2, map[string]pay.Pause{host: {At: noon, Reason: "why", By: operator}})
		_, err = f.StopKey(f.ctx, k.ID, of(pay.StopResume, account))
		f.fails(err, pay.ErrPausedByOperator)
		same(must(f.StopKey(f.ctx, k.ID, of(pay.StopResume, operator))), 3, nil)
		same(must(f.StopKey(f.ctx, k.ID, of(pay.StopResume, operator))), 3, nil)
		for i := range pay.MaxPausedHosts {
			s := of(pay.StopPause, account)
			s.Host = fmt.Sprint("host-", i)
			must(f.StopKey(f.ctx, k.ID, s))
		}
		_, err = f.StopKey(f.ctx, k.ID, itself)
		f.fails(err, pay.ErrManyPausedHosts)
		must(f.StopKey(f.ctx, k.ID, stop(pay.StopRevoke, operator)))
		_, err = f.StopKey(f.ctx, k.ID, itself)
		f.fails(err, pay.ErrKeyRevoked)
	},
	"everything": func(f *fixture) {
		k := f.key()
		earlier := want(k, noon)
		f.release(f.begin(earlier, pay.Created), false)
		keyed := under(want(k, noon), "order 1")
		f.settle(f.begin(keyed, pay.Created), true)

		f.same("pause", must(f.Pause(f.ctx)), (*pay.Pause)(nil))
		p := &pay.Pause{At: noon, Reason: "why", By: operator}
		f.must(f.SetPause(f.ctx, p))
		f.reopen(Opener.Kill)
		f.same("pause", must(f.Pause(f.ctx)), p)

		f.refusedBy(want(k, noon), pay.RulePaused)
		unpayable := want(k, noon)
		unpayable.New, unpayable.Declined = nil, pay.ErrNoAddress
		f.refusedBy(unpayable, pay.RulePaused)
		repeat := *earlier
		repeat.New = nil
		f.begin(&repeat, pay.Driven)
		f.begin(keyed, pay.Stored)

		f.must(f.SetPause(f.ctx, nil))
		f.must(f.SetPause(f.ctx, nil))
		f.begin(want(k, noon), pay.Created)
	},
	// Once SetPause returns, no payment begins.
	"everything, at once": func(f *fixture) {
		k := f.key()
		var paused atomic.Bool
		errs := together(crowd, func(i int) error {
			if i == crowd/2 {
				err := f.SetPause(f.ctx, &pay.Pause{At: noon, By: operator})
				paused.Store(true)
				return err
			}
			late := paused.Load()
			begun, err := f.Begin(f.ctx, want(k, noon))
			if late && err == nil {
				f.Errorf("payment %s began after the pause", begun.Payment.ID)
			}
			var refused *pay.PolicyError
			if errors.As(err, &refused) {
				return nil
			}
			return err
		})
		f.same("went well", f.succeeded(errs, nil), crowd)
		f.refusedBy(want(k, noon), pay.RulePaused)
	},
	"revoked keys leave their places": func(f *fixture) {
		n := newKey("org")
		most := n.Plans.Of(pay.PlanFree).Keys
		var last pay.Key
		for range most {
			last = must(f.CreateKey(f.ctx, newKey("org")))
		}
		_, err := f.CreateKey(f.ctx, newKey("org"))
		f.fails(err, pay.ErrKeyLimit)
		must(f.StopKey(f.ctx, last.ID, stop(pay.StopRevoke, account)))
		must(f.CreateKey(f.ctx, newKey("org")))
		_, err = f.CreateKey(f.ctx, newKey("org"))
		f.fails(err, pay.ErrKeyLimit)
		f.same("keys", len(must(f.OrganizationKeys(f.ctx, "org"))), most+1)
	},
	"keys of the deployment": func(f *fixture) {
		same := func(want ...string) {
			f.Helper()
			f.same("keys", must(f.DeploymentKeys(f.ctx)), want)
		}
		same()
		for _, id := range []string{"a", "a", "b", "c", "a"} {
			f.must(f.SetDeploymentKey(f.ctx, id))
		}
		same("b", "c", "a")
		f.reopen(Opener.Kill)
		same("b", "c", "a")
		for range 120 {
			f.must(f.SetDeploymentKey(f.ctx, newID()))
		}
		f.same("keys", len(must(f.DeploymentKeys(f.ctx))), 100)
	},
}
