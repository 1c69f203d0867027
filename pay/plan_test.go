package pay_test

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// The table of the shipped plans.
func TestDefaultPlans(t *testing.T) {
	t.Parallel()
	want := []pay.Plan{
		{Name: "FREE", Price: "0", Keys: 3, Wallets: 3, Payments: 3_000},
		{Name: "DEVELOPER", Price: "20", Keys: 10, Wallets: 10, Payments: 10_000},
		{Name: "AGENCY", Price: "200", Keys: 150, Wallets: 150, Payments: 150_000},
	}
	for name, table := range map[string]pay.Plans{"default": pay.Plans(nil), "nil": nil, "empty": {}} {
		list := table.List()
		if len(list) != len(want) {
			t.Fatalf("%s: %d plans", name, len(list))
		}
		for i, p := range list {
			if p != want[i] || table.Of(p.Name) != want[i] {
				t.Errorf("%s: %+v, want %+v", name, p, want[i])
			}
		}
		for _, unknown := range []pay.PlanName{"", "free", "ENTERPRISE"} {
			if p := table.Of(unknown); p != want[0] {
				t.Errorf("%s: plan %q is %+v", name, unknown, p)
			}
		}
	}
	if err := pay.Plans(nil).Validate(); err != nil {
		t.Error(err)
	}
}

// Whatever a deployment does not set stays as it is by default.
func TestPlansOfADeployment(t *testing.T) {
	t.Parallel()
	table := pay.Plans{
		pay.PlanDeveloper: {Price: "19.50", Keys: 5},
		pay.PlanFree:      {Payments: 1},
	}
	w := newWorld(t, func(o *pay.Options) { o.Plans = table })
	want := []pay.Plan{
		{Name: "FREE", Price: "0", Keys: 3, Wallets: 3, Payments: 1},
		{Name: "DEVELOPER", Price: "19.50", Keys: 5, Wallets: 10, Payments: 10_000},
		{Name: "AGENCY", Price: "200", Keys: 150, Wallets: 150, Payments: 150_000},
	}
	for i, p := range w.books.Plans().List() {
		if p != want[i] {
			t.Errorf("%+v, want %+v", p, want[i])
		}
	}
	table[pay.PlanFree] = pay.Plan{Payments: 100} // the payer has its own
	if got := w.books.Plans().Unclaimed(); got != 1 {
		t.Errorf("an unclaimed key may make %d payments", got)
	}
	w.spends(buy{amount: 1}, "")
	if _, err := w.open(buy{door: policy.DoorProxy, url: numbered(2), amount: 1}); err == nil {
		t.Error("the second payment of one was let through")
	}
}

func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	for text, table := range map[string]pay.Plans{
		"ENTERPRISE":      {"ENTERPRISE": {Keys: 1}},
		`"developer"`:     {"developer": {Keys: 1}},
		`is named "FREE"`: {pay.PlanAgency: {Name: pay.PlanFree}},
		"keys is -1":      {pay.PlanFree: {Keys: -1}},
		"keys is 1001":    {pay.PlanFree: {Keys: 1001}},
		"wallets is":      {pay.PlanFree: {Wallets: 10_001}},
		"payments is":     {pay.PlanFree: {Payments: 1_000_000_001}},
		`price "-1"`:      {pay.PlanFree: {Price: "-1"}},
		`price "1.999"`:   {pay.PlanFree: {Price: "1.999"}},
		`price "1."`:      {pay.PlanFree: {Price: "1."}},
		`price ".5"`:      {pay.PlanFree: {Price: ".5"}},
		`price "$20"`:     {pay.PlanFree: {Price: "$20"}},
		`price "1e3"`:     {pay.PlanFree: {Price: "1e3"}},
		`price "1000000"`: {pay.PlanFree: {Price: "1000000"}},
	} {
		err := table.Validate()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v", table, err)
		}
		if _, nerr := pay.New(pay.Options{Store: newMemStore(nil), Wallets: &keyring{}, Plans: table}); nerr == nil {
			t.Errorf("a payer has %+v", table)
		}
	}
	fits := pay.Plans{pay.PlanAgency: {Name: pay.PlanAgency, Price: "999999.9", Keys: 1_000, Wallets: 10_000, Payments: 1_000_000_000}}
	if err := fits.Validate(); err != nil {
		t.Error(err)
	}
}
