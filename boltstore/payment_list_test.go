package boltstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// A page or a sum of a filter that matches nothing looks at a bounded number of rows, however many
// there are: see listViews, sumViews and scanRows, which the tests lower.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	if _, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: "k0"}, Secret: "pk_secret"}); err != nil {
		t.Fatal(err)
	}
	const many = 1200
	ids := make([]string, many)
	list := make([]History, many)
	for i := range many {
		at := noon.Add(time.Duration(i) * time.Second)
		ids[i] = fmt.Sprintf("%s-7000-8000-%012d", idAt(at), i)
		p := &pay.Payment{ID: ids[i], KeyID: "k0", Created: at, State: pay.Open, Currency: "USDC", Terms: pay.Terms{Amount: money.New(1)}}
		p.Grant(p.ID, at.Add(pay.LeaseTime))
		fx, err := p.Apply(pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: at, Verdict: pay.VerdictSettled, EventID: newID(), Release: true, Answered: true})
		if err != nil {
			t.Fatal(err)
		}
		list[i] = History{Payment: p, Events: []pay.SpendEvent{*fx.Event}}
	}
	if err := d.Import(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, all := range []bool{false, true} {
		f := pay.PaymentFilter{All: all, Host: "none.example", Limit: 10}
		pages := 0
		for looked := many; ; pages++ {
			page, err := d.ListPayments(t.Context(), []string{"k0"}, f)
			if err != nil || len(page.Payments) > 0 {
				t.Fatalf("%d payments, %v", len(page.Payments), err)
			}
			if page.Next == "" {
				break
			}
			if looked -= listViews * scanRows; page.Next != ids[looked] {
				t.Fatalf("page %d ends at %s, want %s", pages, page.Next, ids[looked])
			}
			f.Before = page.Next
		}
		if want := many / (listViews * scanRows); pages != want {
			t.Errorf("%d pages with a next one, want %d", pages, want)
		}
		sums, err := d.SumPayments(t.Context(), []string{"k0"}, pay.PaymentFilter{All: all})
		if err != nil || !sums.Partial || sums.Count() != sumViews*scanRows || !sums.Since.Equal(list[many-sums.Count()].Payment.Created) {
			t.Errorf("%+v, %v", sums, err)
		}
		// A range begins at its days, whatever is newer.
		f = pay.PaymentFilter{All: all, To: noon.AddDate(0, 0, -1), Limit: 10}
		if page, err := d.ListPayments(t.Context(), []string{"k0"}, f); err != nil || page.Next != "" || page.Payments != nil {
			t.Errorf("%+v, %v", page, err)
		}
	}
}
