package books_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// An organization sees what all its keys spent, and nothing of others, whatever it asks for.
func TestOrganizationsSeeTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, theirs := w.member("ours"), w.member("ours"), w.member("theirs")
	var paid []string
	for i, k := range []pay.Key{a, b, a} {
		paid = append(paid, w.buys(k, fmt.Sprintf("https://API.example.com:443/r?n=%d", i), "1000"))
		w.advance(time.Minute)
	}
	other, unclaimed := w.buys(theirs, "https://b.example/r", "7"), w.buys(w.key, "https://api.example.com/r", "9")
	slices.Reverse(paid)
	today := w.now()

	page, err := w.SpendIn(t.Context(), books.OfOrganization("ours"), pay.OrganizationSpendQuery{Limit: 2})
	if err != nil || len(page.Entries) != 2 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := w.SpendIn(t.Context(), books.OfOrganization("ours"), pay.OrganizationSpendQuery{Limit: 2, Before: page.Next})
	if err != nil || len(rest.Entries) != 1 || rest.Next != "" {
		t.Fatalf("%+v, %v", rest, err)
	}
	for i, e := range append(page.Entries, rest.Entries...) {
		if e.PaymentID != paid[i] || e.Network != "base" || e.Settlement != "payer" || e.Transaction == "" || e.Host != "api.example.com" {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	for _, typed := range []string{"api.example.com", " API.example.com. ", "https://api.example.com/x"} {
		if page, err := w.SpendIn(t.Context(), books.OfOrganization("ours"), pay.OrganizationSpendQuery{Host: typed, KeyID: b.ID}); err != nil || len(page.Entries) != 1 {
			t.Errorf("host %q: %+v, %v", typed, page, err)
		}
	}
	s, err := w.SummaryIn(t.Context(), books.OfOrganization("ours"), books.SummaryQuery{From: today.AddDate(0, 0, -1), To: today})
	if err != nil || len(s.Days) != 2 || s.Days[1].Amount != money.New(3000) || s.Total().Count != 3 || s.Hosts[0].Name != "api.example.com" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := w.SummaryIn(t.Context(), books.OfOrganization("ours"), books.SummaryQuery{From: today, To: today, KeyID: b.ID}); err != nil || s.Total().Count != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	list, err := w.PaymentsIn(t.Context(), books.OfOrganization("ours"), "settled", 2)
	if err != nil || len(list) != 2 || list[0].ID != paid[0] {
		t.Errorf("%d payments, %v", len(list), err)
	}
	if p, err := w.PaymentIn(t.Context(), books.OfOrganization("ours"), paid[1]); err != nil || p.ID != paid[1] {
		t.Errorf("%+v, %v", p, err)
	}

	for _, id := range []string{other, unclaimed, uuid.NewString(), ""} {
		for _, org := range []string{"ours", ""} {
			if _, err := w.PaymentIn(t.Context(), books.OfOrganization(org), id); !errors.Is(err, pay.ErrPaymentNotFound) {
				t.Errorf("payment %q for %q: %v", id, org, err)
			}
		}
	}
	for _, k := range []string{theirs.ID, w.key.ID, "x"} {
		for _, org := range []string{"ours", ""} {
			if _, err := w.SummaryIn(t.Context(), books.OfOrganization(org), books.SummaryQuery{From: today, To: today, KeyID: k}); !errors.Is(err, pay.ErrKeyNotFound) {
				t.Errorf("summary of key %s for %q: %v", k, org, err)
			}
			if _, err := w.SpendIn(t.Context(), books.OfOrganization(org), pay.OrganizationSpendQuery{KeyID: k}); !errors.Is(err, pay.ErrKeyNotFound) {
				t.Errorf("spend of key %s for %q: %v", k, org, err)
			}
		}
	}
	strange, err := w.SpendIn(t.Context(), books.OfOrganization("theirs"), pay.OrganizationSpendQuery{})
	if err != nil || len(strange.Entries) != 1 {
		t.Fatalf("%+v, %v", strange, err)
	}
	if _, err := w.SpendIn(t.Context(), books.OfOrganization("ours"), pay.OrganizationSpendQuery{Before: strange.Entries[0].ID}); !errors.Is(err, pay.ErrEventNotFound) {
		t.Errorf("behind another organization's event: %v", err)
	}
	// Unclaimed keys belong to no organization, and least of all to one without a name.
	for _, org := range []string{"", "nobody"} {
		if page, err := w.SpendIn(t.Context(), books.OfOrganization(org), pay.OrganizationSpendQuery{}); err != nil || len(page.Entries) != 0 {
			t.Errorf("%q sees %+v, %v", org, page, err)
		}
		if list, err := w.PaymentsIn(t.Context(), books.OfOrganization(org), "", 9); err != nil || len(list) != 0 {
			t.Errorf("%q sees %+v, %v", org, list, err)
		}
	}
}

func TestOrganizationPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, theirs := w.member("ours"), w.member("ours"), w.member("theirs")
	w.facilitator.Silent = true
	for i, k := range []pay.Key{a, b, b, theirs, w.key} {
		if _, err := w.pays(k, fmt.Sprintf("https://api.example.com/r?n=%d", i), "1000"); err == nil {
			t.Fatal("settled")
		}
	}
	if p, err := w.PendingIn(t.Context(), books.OfOrganization("ours")); err != nil || p.Count != money.New(3) || p.Amount != money.New(3000) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestOrganizationQueriesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	today := w.now()
	for name, ask := range map[string]func() error{
		"no days": func() error {
			return second(w.SummaryIn(t.Context(), books.OfOrganization("ours"), books.SummaryQuery{}))
		},
		"days backward": func() error {
			return second(w.SummaryIn(t.Context(), books.OfOrganization("ours"), books.SummaryQuery{From: today, To: today.AddDate(0, 0, -1)}))
		},
		"too many days": func() error {
			return second(w.SummaryIn(t.Context(), books.OfOrganization("ours"), books.SummaryQuery{From: today.AddDate(0, 0, -pay.MaxSummaryDays), To: today}))
		},
		"task": func() error {
			return second(w.SpendIn(t.Context(), books.OfOrganization("ours"), pay.OrganizationSpendQuery{Task: "a b"}))
		},
		"label": func() error { return second(w.PaymentsIn(t.Context(), books.OfOrganization("ours"), "lost", 5)) },
	} {
		if _, ok := errors.AsType[*pay.InputError](ask()); !ok {
			t.Errorf("%s: %v", name, ask())
		}
	}
	most := books.SummaryQuery{From: today.AddDate(0, 0, 1-pay.MaxSummaryDays), To: today}
	if s, err := w.SummaryIn(t.Context(), books.OfOrganization("ours"), most); err != nil || len(s.Days) != pay.MaxSummaryDays {
		t.Errorf("%d days, %v", len(s.Days), err)
	}
}
