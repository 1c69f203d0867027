package boltstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// model holds organizations as plainly as can be.
type model struct {
	plans   map[string]pay.PlanName
	owner   map[string]string // key -> organization, "" while unclaimed
	wallets map[string]string // live wallet -> key
	places  map[pay.Counter]int
}

func (m *model) keys(org string) (n int) {
	for _, o := range m.owner {
		if o == org {
			n++
		}
	}
	return n
}

func (m *model) walletsOf(key string) (n int) {
	for _, k := range m.wallets {
		if k == key || m.owner[key] != "" && m.owner[k] == m.owner[key] {
			n++
		}
	}
	return n
}

// Whatever happens in whatever order, a store lets in what the model lets in, and both know
// the same afterwards. No place is lost or had twice.
func TestOrganizationsAgainstAModel(t *testing.T) {
	t.Parallel()
	plans := pay.Plans{
		pay.PlanFree: {Keys: 2, Wallets: 2, Payments: 2}, pay.PlanDeveloper: {Keys: 3, Wallets: 4, Payments: 4}, pay.PlanAgency: {Keys: 5, Wallets: 6, Payments: 9},
	}
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		ctx := context.Background()
		d, err := open(ctx, inFolder(fmt.Sprintf("%s/%d", dir, run)), true)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m := &model{plans: map[string]pay.PlanName{}, owner: map[string]string{}, wallets: map[string]string{}, places: map[pay.Counter]int{}}
		var keys []pay.Key // as they were when they were made: callers may be behind
		open := map[string]pay.Counter{}
		rows := map[string]*pay.Payment{}
		agree := func(what string, err error, want error) bool {
			t.Helper()
			if !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Fatalf("%s: %v, want %v", what, err, want)
			}
			return err == nil
		}
		orgName := rapid.SampledFrom([]string{"a", "b", "c"})
		aKey := func() pay.Key { return rapid.SampledFrom(keys).Draw(t, "key") }
		now := func(k pay.Key) pay.Key { k.OrganizationID = m.owner[k.ID]; return k }
		limit := func(k pay.Key) int {
			if org := m.owner[k.ID]; org != "" {
				return plans.Of(m.plans[org]).Payments
			}
			return plans.Unclaimed()
		}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				org := rapid.SampledFrom([]string{"", "", "a", "b", "c"}).Draw(t, "organization")
				plan := rapid.SampledFrom([]pay.PlanName{"", "", pay.PlanFree, pay.PlanDeveloper, pay.PlanAgency}).Draw(t, "plan")
				id := newID()
				_, err := d.CreateKey(ctx, pay.NewKey{
					Key: pay.Key{ID: id, OrganizationID: org, Created: noon}, Secret: "pk_" + id, Plan: plan, Plans: plans,
				})
				after := m.plans[org]
				if plan != "" {
					after = plan
				}
				var want error
				if org != "" && m.keys(org) >= plans.Of(after).Keys {
					want = pay.ErrKeyLimit
				}
				if !agree("create", err, want) {
					return
				}
				keys = append(keys, pay.Key{ID: id, OrganizationID: org, Created: noon})
				if m.owner[id] = org; org != "" {
					m.plans[org] = plans.Of(after).Name
				}
			},
			"link": func(t *rapid.T) {
				if len(keys) == 0 {
					return
				}
				k, org := aKey(), orgName.Draw(t, "organization")
				_, err := d.LinkKey(ctx, pay.Link{Secret: "pk_" + k.ID, OrganizationID: org, Plans: plans})
				var want error
				switch has := m.owner[k.ID]; {
				case has == org:
					want = pay.ErrKeyLinked
				case has != "":
					want = pay.ErrKeyClaimed
				case m.plans[org] == "":
					want = pay.ErrOrganizationNotFound
				case m.keys(org) >= plans.Of(m.plans[org]).Keys:
					want = pay.ErrKeyLimit
				}
				if agree("link", err, want) {
					m.owner[k.ID] = org
				}
			},
			"plan": func(t *rapid.T) {
				org := orgName.Draw(t, "organization")
				plan := rapid.SampledFrom([]pay.PlanName{pay.PlanFree, pay.PlanDeveloper, pay.PlanAgency}).Draw(t, "plan")
				_, err := d.SetPlan(ctx, org, plan)
				var want error
				if m.plans[org] == "" {
					want = pay.ErrOrganizationNotFound
				}
				if agree("plan", err, want) {
					m.plans[org] = plan
				}
			},
			"wallet": func(t *rapid.T) {
				if len(keys) == 0 {
					return
				}
				k, id := aKey(), newID()
				err := d.CreateWallet(ctx, pay.NewWallet{Wallet: pay.Wallet{ID: id, KeyID: k.ID}, Plans: plans}, 5)
				most := 5
				if org := m.owner[k.ID]; org != "" {
					most = plans.Of(m.plans[org]).Wallets
				}
				var want error
				if m.walletsOf(k.ID) >= most {
					want = pay.ErrWalletLimit
				}
				if agree("wallet", err, want) {
					m.wallets[id] = k.ID
				}
			},
			"delete": func(t *rapid.T) {
				if len(m.wallets) == 0 {
					return
				}
				id := rapid.SampledFrom(slices.Sorted(mapKeys(m.wallets))).Draw(t, "wallet")
				k := aKey()
				err := d.DeleteWallet(ctx, k.ID, id, noon)
				var want error
				if m.wallets[id] != k.ID {
					want = pay.ErrWalletNotFound
				}
				if agree("delete", err, want) {
					delete(m.wallets, id)
				}
			},
			"pay": func(t *rapid.T) {
				if len(keys) == 0 {
					return
				}
				k := aKey()
				known := now(k)
				if rapid.Bool().Draw(t, "behind") {
					known.OrganizationID = k.OrganizationID
				}
				revision := uint64(0)
				if known.OrganizationID != k.OrganizationID {
					revision = 1
				}
				b := call(k.ID)
				b.New.OrganizationID, b.OrganizationID, b.Plan = known.OrganizationID, known.OrganizationID, m.plans[known.OrganizationID]
				b.Policy, b.PolicyRevision = &policy.Policy{}, revision
				b.Place.Counter = pay.PlaceCounter(known.Owner(), noon)
				most := money.New(uint64(limit(known)))
				if known.OrganizationID == "" {
					most = money.New(uint64(plans.Unclaimed()))
				}
				b.Place.Max, b.Place.Refusal = &most, pay.ErrQuota
				begun, err := d.Begin(ctx, b)
				var want error
				switch {
				case known.OrganizationID != m.owner[k.ID]:
					want = pay.ErrPolicyChanged
				case m.places[b.Place.Counter] >= limit(known):
					want = pay.ErrQuota
				}
				if agree("pay", err, want) {
					m.places[b.Place.Counter]++
					open[begun.Payment.ID], rows[begun.Payment.ID] = b.Place.Counter, begun.Payment
				}
			},
			"outcome": func(t *rapid.T) {
				if len(open) == 0 {
					return
				}
				id := rapid.SampledFrom(slices.Sorted(mapKeys(open))).Draw(t, "payment")
				o := settlement(rows[id])
				o.Verdict = rapid.SampledFrom([]pay.Verdict{pay.VerdictSettled, pay.VerdictVoid}).Draw(t, "verdict")
				if _, _, err := d.Record(ctx, o); err != nil {
					t.Fatal(err)
				}
				if o.Verdict == pay.VerdictVoid {
					m.places[open[id]]--
				}
				delete(open, id)
			},
			"": func(t *rapid.T) {
				for c, want := range m.places {
					if got, err := d.Counter(ctx, c); err != nil || got != money.New(uint64(want)) {
						t.Fatalf("%s is %s, want %d, %v", c, got, want, err)
					}
				}
				for _, org := range []string{"a", "b", "c"} {
					list, err := d.OrganizationKeys(ctx, org)
					if err != nil || len(list) != m.keys(org) {
						t.Fatalf("%s has %d keys, want %d, %v", org, len(list), m.keys(org), err)
					}
					all, err := d.OrganizationWallets(ctx, org)
					if err != nil {
						t.Fatal(err)
					}
					n := 0
					for _, k := range m.wallets {
						if m.owner[k] == org {
							n++
						}
					}
					if len(all) != n {
						t.Fatalf("%s has %d wallets, want %d", org, len(all), n)
					}
				}
			},
		})
		if err := d.Check(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
