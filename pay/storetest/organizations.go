package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// unclaimed makes an unclaimed key and returns its secret.
func (f *fixture) unclaimed() pay.NewKey {
	f.Helper()
	n := newKey("")
	must(f.CreateKey(f.ctx, n))
	return n
}

// link links a key to an organization with two keys and two wallets at most.
func (f *fixture) link(secret, org string) (pay.Key, error) {
	return f.LinkKey(f.ctx, pay.Link{Secret: secret, OrganizationID: org, Plans: small})
}

// small is a table with little room on the free plan.
var small = pay.Plans{pay.PlanFree: {Keys: 2, Wallets: 2, Payments: 2}}

// linked links a key and demands success.
func (f *fixture) linked(secret, org string) pay.Key {
	f.Helper()
	return must(f.link(secret, org))
}

// knows demands the same key of every way to read it.
func (f *fixture) knows(k pay.Key, secret string) {
	f.Helper()
	f.same("by secret", must(f.KeyBySecret(f.ctx, secret)), k)
	f.same("by id", must(f.Key(f.ctx, k.ID)), k)
	keys := must(f.OrganizationKeys(f.ctx, k.OrganizationID))
	f.same("listed", slices.ContainsFunc(keys, func(l pay.Key) bool { return text(l) == text(k) }), k.Claimed())
	shown, err := f.RevealKey(f.ctx, k.ID)
	if !k.Claimed() {
		f.fails(err, pay.ErrNotRevealable)
		return
	}
	f.must(err)
	f.same("secret", shown, secret)
}

// by makes a call that was judged by a key and a plan.
func by(k pay.Key, plan pay.PlanName, payments uint64) *pay.Begin {
	b := judged(want(k, noon), policy.Policy{}, k.PolicyRevision, 5)
	if b.OrganizationID = k.OrganizationID; k.Claimed() {
		b.Plan = plan
	}
	return bound(b, placeOf(k), payments, pay.ErrQuota)
}

var organizationTests = map[string]func(*fixture){
	"a linked key": func(f *fixture) {
		first := f.claimed("org")
		n := f.unclaimed()
		f.knows(n.Key, n.Secret)
		pol := &policy.Policy{DailyBudget: policy.CapOf(money.New(7))}
		must(f.SetPolicy(f.ctx, n.ID, pol))
		k := f.linked(n.Secret, "org")
		want := n.Key
		want.OrganizationID, want.Policy, want.PolicyRevision = "org", pol, 2
		f.same("key", k, want)
		f.knows(k, n.Secret)
		f.same("keys, oldest first", must(f.OrganizationKeys(f.ctx, "org")), []pay.Key{first, k})
		_, err := f.link(n.Secret, "org")
		f.fails(err, pay.ErrKeyLinked)
		f.claimed("other")
		_, err = f.link(n.Secret, "other")
		f.fails(err, pay.ErrKeyClaimed)
		f.knows(k, n.Secret)
	},
	"what cannot be linked": func(f *fixture) {
		f.claimed("org")
		for _, secret := range []string{"", "pk_unknown", newID()} {
			_, err := f.link(secret, "org")
			f.fails(err, pay.ErrKeyNotFound)
		}
		n := f.unclaimed()
		for _, org := range []string{"unknown", "", "or", "org2"} {
			_, err := f.link(n.Secret, org)
			f.fails(err, pay.ErrOrganizationNotFound)
		}
		f.knows(n.Key, n.Secret)
	},
	"the key limit, exactly and one above": func(f *fixture) {
		f.claimed("org")
		a, b := f.unclaimed(), f.unclaimed()
		f.linked(a.Secret, "org") // the second of two
		_, err := f.link(b.Secret, "org")
		f.fails(err, pay.ErrKeyLimit)
		f.knows(b.Key, b.Secret)
		made := newKey("org")
		made.Plans = small
		_, err = f.CreateKey(f.ctx, made)
		f.fails(err, pay.ErrKeyLimit)
		must(f.SetPlan(f.ctx, "org", pay.PlanDeveloper))
		for range 8 {
			must(f.CreateKey(f.ctx, func() pay.NewKey { n := newKey("org"); n.Plans = small; return n }()))
		}
		_, err = f.link(b.Secret, "org") // the eleventh
		f.fails(err, pay.ErrKeyLimit)
		must(f.SetPlan(f.ctx, "org", pay.PlanFree)) // what is there stays
		f.same("keys", len(must(f.OrganizationKeys(f.ctx, "org"))), 10)
		_, err = f.link(b.Secret, "org")
		f.fails(err, pay.ErrKeyLimit)
	},
	"linked and created at the limit at once": func(f *fixture) {
		f.claimed("org")
		must(f.SetPlan(f.ctx, "org", pay.PlanDeveloper))
		var unclaimed []pay.NewKey
		for range crowd {
			unclaimed = append(unclaimed, f.unclaimed())
		}
		errs := together(crowd, func(i int) error {
			if i%2 == 0 {
				_, err := f.CreateKey(f.ctx, newKey("org"))
				return err
			}
			_, err := f.link(unclaimed[i].Secret, "org")
			return err
		})
		f.same("keys that found room", f.succeeded(errs, pay.ErrKeyLimit), 9)
		f.same("keys", len(must(f.OrganizationKeys(f.ctx, "org"))), 10)
	},
	"one key by many organizations at once": func(f *fixture) {
		orgs := []string{"a", "b", "c", "d"}
		for _, org := range orgs {
			f.claimed(org)
		}
		n := f.unclaimed()
		linked := map[bool]int{}
		for i, err := range together(crowd, func(i int) error { _, err := f.link(n.Secret, orgs[i%4]); return err }) {
			k, kerr := f.Key(f.ctx, n.ID)
			f.must(kerr)
			switch linked[err == nil]++; {
			case err == nil:
				f.same("organization", k.OrganizationID, orgs[i%4])
			case k.OrganizationID == orgs[i%4]:
				f.fails(err, pay.ErrKeyLinked)
			default:
				f.fails(err, pay.ErrKeyClaimed)
			}
		}
		f.same("linked", linked[true], 1)
		total := 0
		for _, org := range orgs {
			keys := must(f.OrganizationKeys(f.ctx, org))
			total += len(keys)
		}
		f.same("keys of all", total, len(orgs)+1)
	},
	"wallets of a linked key": func(f *fixture) {
		first := f.claimed("org")
		f.must(f.CreateWallet(f.ctx, newWallet(first), 2))
		n := f.unclaimed()
		var brought []pay.Wallet
		for range 5 {
			w := newWallet(n.Key)
			f.must(f.CreateWallet(f.ctx, w, 5))
			brought = append(brought, w.Wallet)
		}
		k := f.linked(n.Secret, "org")
		f.same("wallets", must(f.Wallets(f.ctx, k.ID)), brought)
		all := must(f.OrganizationWallets(f.ctx, "org"))
		f.same("of the organization", all[1:], brought)
		f.same("count", must(f.WalletCount(f.ctx, k)), 6)
		// A caller that still takes the key for an unclaimed one gets no more.
		more := newWallet(n.Key)
		more.Plans = small
		f.fails(f.CreateWallet(f.ctx, more, pay.UnclaimedWallets), pay.ErrWalletLimit)
		for _, w := range brought[1:] {
			f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon))
		}
		f.fails(f.CreateWallet(f.ctx, more, pay.UnclaimedWallets), pay.ErrWalletLimit) // exactly two
		f.must(f.DeleteWallet(f.ctx, k.ID, brought[0].ID, noon))
		f.must(f.CreateWallet(f.ctx, more, pay.UnclaimedWallets))
		next := newWallet(first)
		next.Plans = small
		f.fails(f.CreateWallet(f.ctx, next, pay.UnclaimedWallets), pay.ErrWalletLimit)
		must(f.SetPlan(f.ctx, "org", pay.PlanDeveloper))
		f.must(f.CreateWallet(f.ctx, next, pay.UnclaimedWallets))
	},
	"many wallets of an organization": func(f *fixture) {
		var want []pay.Wallet
		for range 3 {
			n := f.unclaimed()
			for range 30 {
				w := newWallet(n.Key)
				f.must(f.CreateWallet(f.ctx, w, 100))
				want = append(want, w.Wallet)
			}
			if len(want) == 30 {
				f.claimed("org")
			}
			must(f.LinkKey(f.ctx, pay.Link{Secret: n.Secret, OrganizationID: "org", Plans: pay.Plans{pay.PlanFree: {Keys: 9}}}))
		}
		f.same("wallets", must(f.OrganizationWallets(f.ctx, "org")), want)
		f.same("of an unknown organization", len(must(f.OrganizationWallets(f.ctx, "or"))), 0)
	},
	"wallets at the plan's limit at once": func(f *fixture) {
		keys := []pay.Key{f.claimed("org"), f.claimed("org")}
		errs := together(crowd, func(i int) error {
			w := newWallet(keys[i%2])
			w.Plans = small
			return f.CreateWallet(f.ctx, w, pay.UnclaimedWallets)
		})
		f.same("created", f.succeeded(errs, pay.ErrWalletLimit), 2)
	},
	"a call that was judged before its key was linked": func(f *fixture) {
		first := f.claimed("org")
		n := f.unclaimed()
		for range 2 { // the organization has no place left
			f.settle(f.begin(by(first, pay.PlanFree, 2), pay.Created), true)
		}
		stale := by(n.Key, "", 3000)
		k := f.linked(n.Secret, "org")
		_, err := f.Begin(f.ctx, stale)
		f.fails(err, pay.ErrPolicyChanged)
		f.nothingBegun(stale)
		_, err = f.Begin(f.ctx, by(k, pay.PlanFree, 2))
		f.fails(err, pay.ErrQuota)
		f.counts("places of the organization", placeOf(k), 2)
		f.counts("places of the key", placeOf(n.Key), 0)
	},
	"a call that was judged by another plan": func(f *fixture) {
		k := f.claimed("org")
		f.begin(by(k, pay.PlanFree, 2), pay.Created)
		must(f.SetPlan(f.ctx, "org", pay.PlanAgency))
		stale := by(k, pay.PlanFree, 2)
		_, err := f.Begin(f.ctx, stale)
		f.fails(err, pay.ErrPolicyChanged)
		_, err = f.Payment(f.ctx, stale.New.ID)
		f.fails(err, pay.ErrPaymentNotFound)
		f.begin(by(k, pay.PlanAgency, 5), pay.Created)
		f.begin(by(k, pay.PlanAgency, 5), pay.Created)
		must(f.SetPlan(f.ctx, "org", pay.PlanFree))
		_, err = f.Begin(f.ctx, by(k, pay.PlanAgency, 5))
		f.fails(err, pay.ErrPolicyChanged)
		_, err = f.Begin(f.ctx, by(k, pay.PlanFree, 2))
		f.fails(err, pay.ErrQuota)
		f.counts("places", placeOf(k), 3)
	},
	"linked while payments begin": func(f *fixture) {
		// However it falls out, each payment has one place, and the organization no more than it may.
		f.claimed("org")
		n := f.unclaimed()
		errs := together(crowd, func(i int) error {
			if i == crowd/2 {
				_, err := f.link(n.Secret, "org")
				return err
			}
			k, err := f.Key(f.ctx, n.ID)
			if err != nil {
				return err
			}
			most := uint64(40)
			if k.Claimed() {
				most = 2
			}
			_, err = f.Begin(f.ctx, by(k, pay.PlanFree, most))
			if errors.Is(err, pay.ErrPolicyChanged) || errors.Is(err, pay.ErrQuota) {
				return errRefused
			}
			return err
		})
		begun := f.succeeded(errs, errRefused) - 1
		list := must(f.Payments(f.ctx, pay.PaymentQuery{KeyID: n.ID, Limit: 2 * crowd}))
		f.same("payments", len(list), begun)
		k := must(f.Key(f.ctx, n.ID))
		places := map[pay.Counter]uint64{}
		for _, p := range list {
			owner := pay.Key{ID: n.ID, OrganizationID: p.OrganizationID}
			f.same("place", p.Reservations[0].Counter, placeOf(owner))
			places[p.Reservations[0].Counter]++
		}
		f.counts("places of the key", placeOf(n.Key), places[placeOf(n.Key)])
		f.counts("places of the organization", placeOf(k), places[placeOf(k)])
		if places[placeOf(k)] > 2 || places[placeOf(n.Key)] > 40 {
			f.Fatalf("places: %v", places)
		}
	},
	"open payments of a linked key": func(f *fixture) {
		f.claimed("org")
		n := f.unclaimed()
		settled, void, refused := f.begin(by(n.Key, "", 3), pay.Created), f.begin(by(n.Key, "", 3), pay.Created), f.begin(by(n.Key, "", 3), pay.Created)
		k := f.linked(n.Secret, "org")
		f.counts("places of the key", placeOf(n.Key), 3)
		f.settle(settled, true)
		f.counts("places of the key", placeOf(n.Key), 3)
		f.record(outcome(void, pay.VerdictVoid))
		f.counts("places of the key", placeOf(n.Key), 2)
		f.record(outcome(refused, pay.VerdictRefused))
		f.counts("places of the key", placeOf(n.Key), 1)
		f.record(outcome(f.find(refused.ID), pay.VerdictSettled)) // it was a lie
		f.counts("places of the key", placeOf(n.Key), 2)
		f.counts("places of the organization", placeOf(k), 0)
		f.begin(by(k, pay.PlanFree, 1), pay.Created)
		f.counts("places of the organization", placeOf(k), 1)
		f.counts("places of the key", placeOf(n.Key), 2)
	},
	"a repeat after its key was linked": func(f *fixture) {
		f.claimed("org")
		n := f.unclaimed()
		first := under(by(n.Key, "", 3), "order")
		p := f.settle(f.begin(first, pay.Created), false)
		k := f.linked(n.Secret, "org")
		f.same("by the stale key", f.begin(again(first, noon.Add(soon)), pay.Stored).ID, p.ID)
		next := under(by(k, pay.PlanFree, 0), "order")
		next.Fingerprint = first.Fingerprint
		f.same("by the linked key", f.begin(next, pay.Stored).ID, p.ID)
	},
	"a refused payment driven on after its key was linked": func(f *fixture) {
		// It takes its place again where it was, under the bound that is for there.
		f.claimed("org")
		n := f.unclaimed()
		first := under(by(n.Key, "", 2), "order")
		p := f.begin(first, pay.Created)
		o := outcome(p, pay.VerdictRefused)
		o.Release = true
		f.record(o)
		f.begin(by(n.Key, "", 2), pay.Created)
		f.begin(by(n.Key, "", 2), pay.Created) // all places are taken
		k := f.linked(n.Secret, "org")
		drive := func(b *pay.Begin) (pay.Begun, error) {
			b = under(b, "order")
			b.Fingerprint, b.Unclaimed = first.Fingerprint, money.New(2)
			return f.Begin(f.ctx, b)
		}
		if now := f.find(p.ID); !now.Refused || !now.Lives() {
			f.Fatalf("nothing to drive on: %s", text(now))
		}
		_, err := drive(by(n.Key, "", 2))
		f.fails(err, pay.ErrPolicyChanged)
		_, err = drive(by(k, pay.PlanFree, 1000))
		f.fails(err, pay.ErrQuota)
		f.counts("places of the key", placeOf(n.Key), 2)
		other := must(f.Payments(f.ctx, pay.PaymentQuery{KeyID: n.ID, Limit: 1}))
		f.record(outcome(other[0], pay.VerdictVoid))
		begun := must(drive(by(k, pay.PlanFree, 0))) // the organization's places do not matter
		f.same("driven on", []any{begun.How, begun.Payment.ID}, []any{pay.Driven, p.ID})
		f.counts("places of the key", placeOf(n.Key), 2)
		f.counts("places of the organization", placeOf(k), 0)
	},
	"plans": func(f *fixture) {
		_, err := f.SetPlan(f.ctx, "org", pay.PlanAgency)
		f.fails(err, pay.ErrOrganizationNotFound)
		f.claimed("org")
		for _, plan := range []pay.PlanName{pay.PlanAgency, pay.PlanAgency, pay.PlanFree} {
			org := must(f.SetPlan(f.ctx, "org", plan))
			f.same("organization", org, pay.Organization{ID: "org", Plan: plan, Created: noon})
			org = must(f.Organization(f.ctx, "org"))
			f.same("plan", org.Plan, plan)
		}
	},
	"listed by id": func(f *fixture) {
		names := []string{"a", "a/b", "ab", "b", "é"}
		for _, org := range []string{"b", "é", "a/b", "a", "ab"} {
			f.claimed(org)
		}
		for page := 1; page <= len(names)+1; page++ {
			var listed []string
			for after := ""; ; after = listed[len(listed)-1] {
				part := must(f.Organizations(f.ctx, after, page))
				if len(part) == 0 {
					break
				}
				for _, org := range part {
					listed = append(listed, org.ID)
				}
			}
			f.same("organizations", listed, names)
		}
	},
	"the month rolls over": func(f *fixture) {
		k := f.claimed("org")
		last := time.Date(2026, 11, 30, 23, 59, 59, 999_999_999, time.UTC)
		at := func(now time.Time) *pay.Begin {
			b := want(k, now)
			return bound(b, pay.PlaceCounter(k.Owner(), now), 1, pay.ErrQuota)
		}
		f.begin(at(last), pay.Created)
		_, err := f.Begin(f.ctx, at(last))
		f.fails(err, pay.ErrQuota)
		f.begin(at(last.Add(1)), pay.Created)
	},
}
