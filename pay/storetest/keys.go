package storetest

import (
	"fmt"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

var keyTests = map[string]func(*fixture){
	"uses": func(f *fixture) {
		k := must(f.CreateKey(f.ctx, newKey("org")))
		use := func(door policy.Door, at time.Time) {
			f.Helper()
			f.must(f.NoteUse(f.ctx, pay.Use{KeyID: k.ID, Door: door, At: at}))
		}
		use(policy.DoorProxy, noon)
		use(policy.DoorProxy, noon.Add(pay.UseEvery-1)) // too soon
		use(policy.DoorProxy, noon.Add(-time.Hour))     // by a clock that is behind
		use(policy.DoorAPI, noon)
		use(policy.DoorAPI, noon.Add(pay.UseEvery))
		want := map[policy.Door]time.Time{policy.DoorProxy: noon, policy.DoorAPI: noon.Add(pay.UseEvery)}
		f.same("used", must(f.Key(f.ctx, k.ID)).Used, want)
		must(f.SetPolicy(f.ctx, k.ID, nil)) // writes the row anew
		f.reopen(Opener.Kill)
		now := must(f.Key(f.ctx, k.ID))
		f.same("used", now.Used, want)
		if now.PolicyRevision != k.PolicyRevision+1 {
			f.Errorf("a use changes the revision to %d", now.PolicyRevision)
		}
		entries := must(f.AuditEntries(f.ctx, pay.AuditQuery{KeyID: k.ID, Limit: 10}))
		if len(entries) != 0 {
			f.Errorf("audit %s", text(entries))
		}
		f.fails(f.NoteUse(f.ctx, pay.Use{KeyID: newID(), Door: policy.DoorAPI, At: noon}), pay.ErrKeyNotFound)
		doors := []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}
		later := noon.Add(time.Hour)
		together(len(doors), func(i int) error {
			return f.NoteUse(f.ctx, pay.Use{KeyID: k.ID, Door: doors[i], At: later})
		})
		f.same("together", must(f.Key(f.ctx, k.ID)).Used, map[policy.Door]time.Time{doors[0]: later, doors[1]: later, doors[2]: later})
		f.check()
	},
	"found by secret and id": func(f *fixture) {
		budget := money.New(7)
		n := newKey("")
		n.Label, n.Policy = "shop <&> \"é\"", &policy.Policy{DailyBudget: policy.CapOf(budget), Doors: []policy.Door{policy.DoorProxy}}
		f.same("created", must(f.CreateKey(f.ctx, n)), n.Key)
		f.same("by secret", must(f.KeyBySecret(f.ctx, n.Secret)), n.Key)
		f.same("by id", must(f.Key(f.ctx, n.ID)), n.Key)
	},
	"unknown": func(f *fixture) {
		k := f.key()
		_, err := f.Key(f.ctx, newID())
		f.fails(err, pay.ErrKeyNotFound)
		for _, secret := range []string{"", "pk_unknown", k.ID} {
			_, err = f.KeyBySecret(f.ctx, secret)
			f.fails(err, pay.ErrKeyNotFound)
		}
	},
	"the same secret twice": func(f *fixture) {
		first := newKey("")
		must(f.CreateKey(f.ctx, first))
		second := newKey("org")
		second.Secret, second.Plan = first.Secret, pay.PlanAgency
		_, err := f.CreateKey(f.ctx, second)
		f.fails(err, pay.ErrKeyExists)
		org := must(f.Organization(f.ctx, "org"))
		f.same("plan after the refusal", org.Plan, pay.PlanFree)
		f.same("owner of the secret", must(f.KeyBySecret(f.ctx, first.Secret)), first.Key)
	},
	"the same secret at once": func(f *fixture) {
		errs := together(crowd, func(int) error {
			n := newKey("")
			n.Secret = "pk_the-same-for-all"
			_, err := f.CreateKey(f.ctx, n)
			return err
		})
		f.same("created", f.succeeded(errs, pay.ErrKeyExists), 1)
	},
	"plans": func(f *fixture) {
		plan := func(want pay.PlanName) {
			f.Helper()
			org := must(f.Organization(f.ctx, "org"))
			f.same("organization", []any{org.ID, org.Plan}, []any{"org", want})
		}
		create := func(given pay.PlanName) error {
			n := newKey("org")
			n.Plan = given
			_, err := f.CreateKey(f.ctx, n)
			return err
		}
		plan(pay.PlanFree) // although it does not exist
		f.must(create(""))
		plan(pay.PlanFree)
		f.must(create(pay.PlanDeveloper))
		plan(pay.PlanDeveloper)
		f.must(create(""))
		plan(pay.PlanDeveloper)
		// With three keys there is no room on the free plan, and the refusal changes nothing.
		f.fails(create(pay.PlanFree), pay.ErrKeyLimit)
		plan(pay.PlanDeveloper)
		f.must(create(""))
	},
	"a plan may make room for its own key": func(f *fixture) {
		for range pay.Plans(nil).Of(pay.PlanFree).Keys {
			must(f.CreateKey(f.ctx, newKey("org")))
		}
		_, err := f.CreateKey(f.ctx, newKey("org"))
		f.fails(err, pay.ErrKeyLimit)
		n := newKey("org")
		n.Plan = pay.PlanDeveloper
		must(f.CreateKey(f.ctx, n))
		must(f.CreateKey(f.ctx, newKey("another")))
	},
	"key limit at once": func(f *fixture) {
		errs := together(crowd, func(int) error {
			_, err := f.CreateKey(f.ctx, newKey("org"))
			return err
		})
		f.same("created", f.succeeded(errs, pay.ErrKeyLimit), pay.Plans(nil).Of(pay.PlanFree).Keys)
	},
	"a refused key leaves nothing": func(f *fixture) {
		for range pay.Plans(nil).Of(pay.PlanFree).Keys {
			must(f.CreateKey(f.ctx, newKey("org")))
		}
		n := newKey("org")
		_, err := f.CreateKey(f.ctx, n)
		f.fails(err, pay.ErrKeyLimit)
		_, err = f.KeyBySecret(f.ctx, n.Secret)
		f.fails(err, pay.ErrKeyNotFound)
		_, err = f.Key(f.ctx, n.ID)
		f.fails(err, pay.ErrKeyNotFound)
	},
	"organizations with alike names": func(f *fixture) {
		for i, org := range []string{"a", "a/b", "a b", "ab", "A"} {
			for range pay.Plans(nil).Of(pay.PlanFree).Keys {
				if _, err := f.CreateKey(f.ctx, newKey(org)); err != nil {
					f.Fatal(fmt.Errorf("organization %d: %w", i, err))
				}
			}
		}
	},
}
