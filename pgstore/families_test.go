package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/policy"
)

// Two nodes spend the budget of a parent at once, with all keys of the family: exactly to its end. Outcomes that come
// meanwhile, on either node, give back to the counters of both.
func TestFamilyOnTwoNodes(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	nodes := []*pgstore.DB{node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})}
	parent := keyOn(t, nodes[0])
	family := []pay.Key{parent}
	for i := range 3 {
		k, err := nodes[i%2].CreateKey(t.Context(), pay.NewKey{
			Key: pay.Key{ID: uuid.Must(uuid.NewV7()).String(), Created: time.Now(), Parent: parent.ID}, Secret: "pk_" + uuid.NewString(),
		})
		if err != nil {
			t.Fatal(err)
		}
		family = append(family, k)
	}
	now := nodes[0].Now()
	shared := policy.Policy{MonthlyBudget: policy.CapOf(money.New(200))}
	const rounds = 30
	type answer struct {
		p   *pay.Payment
		err error
	}
	answers := make(chan answer, 2*rounds*len(family))
	for i, d := range nodes {
		for n := range rounds {
			for _, k := range family {
				go func() {
					b := callOf(k, now)
					b.Limits, b.Policy = nil, &shared
					if k.Parent != "" {
						b.Policy, b.Parent = &policy.Policy{}, &pay.Parent{KeyID: parent.ID, Name: "parent", Policy: shared}
					}
					begun, err := d.Begin(context.Background(), b)
					if err == nil && n%3 == 0 {
						p := begun.Payment
						_, _, err = nodes[1-i].Record(context.Background(), pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: now, Verdict: pay.VerdictVoid, Reason: "not sent", Release: true})
					}
					answers <- answer{begun.Payment, err}
				}()
			}
		}
	}
	for range cap(answers) {
		got := <-answers
		refused, is := errors.AsType[*pay.PolicyError](got.err)
		if got.err != nil && (!is || refused.Rule != "monthly-budget") {
			t.Fatal(got.err)
		}
	}
	have, err := nodes[0].Counter(t.Context(), pay.DailyCounter(parent.ID, "USDC", now))
	if err != nil || have.Cmp(money.New(200)) > 0 || have.IsZero() {
		t.Errorf("%s was spent, %v", have, err)
	}
	var all money.Amount
	list, err := nodes[1].AllPayments(t.Context(), pay.LabelQuery{Label: string(pay.Open), Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		all = all.AddSaturated(p.Terms.Amount)
	}
	if all != have {
		t.Errorf("the parent's counter has %s, open payments make %s", have, all)
	}
	if err := nodes[0].Check(t.Context()); err != nil {
		t.Error(err)
	}
}
