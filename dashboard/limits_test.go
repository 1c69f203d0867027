package dashboard_test

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// bounded gives the configuration a limit for a payment.
func bounded(s *setup) {
	s.pay.DefaultPolicy = policy.Policy{MaxPayment: policy.CapOf(money.New(100_000))}
}

var formRevision = regexp.MustCompile(`name="revision" value="(\d+)"`)

// revision returns that of the form on a page.
func (s seen) revision() string {
	s.t.Helper()
	found := formRevision.FindStringSubmatch(s.body)
	if found == nil {
		s.t.Fatalf("no revision on the page: %s", s.brief())
	}
	return found[1]
}

// A raise is shown until its end, stays when lasting limits are saved, and can be ended on the page of the key.
func TestARaiseOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	w.wallet(ada.key, 50_000_000)
	raised := &policy.Policy{DailyBudget: policy.CapOf(money.New(5_000_000)), Raise: &policy.Raise{
		Until: w.clock.now().Add(2 * time.Hour), DailyBudget: policy.CapOf(money.New(20_000_000)), PerMinute: new(100),
	}}
	if _, err := w.books.SetPolicy(t.Context(), ada.key.ID, raised); err != nil {
		t.Fatal(err)
	}
	page := "/dashboard/keys/" + ada.key.ID
	ada.get(page).is(200, "Raised for a while", "a day: 20.00 USDC; payments a minute: 100 payments, until ", "0.00 of 20.00", "End the raise")
	form := ada.get(page+"/limits").is(200, `value="5.00"`)
	fields := []string{"revision", form.revision(), "daily_budget", "4"}
	ada.post(page+"/limits", append(fields, "do", "review")...).is(200, "The raise stays", "4.00 USDC")
	ada.post(page+"/limits", append(fields, "do", "save")...).to(page)
	ada.get(page).is(200, "Raised for a while", "0.00 of 20.00")
	ada.post(page + "/end-raise").to(page)
	ada.get(page).is(200, "0.00 of 4.00").without("Raised for a while")
	ada.post(page + "/end-raise").to(page)

	if _, err := w.books.SetPolicy(t.Context(), ada.key.ID, raised); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(2 * time.Hour)
	ada.get(page).is(200, "0.00 of 5.00").without("Raised for a while")
}

// A limit is changed in three steps: form, review with what it would have declined, and saving. It
// holds from then on.
func TestLimitsAreEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	w.wallet(ada.key, 50_000_000)
	for i, micros := range []string{"300000", "600000", "700000"} {
		w.buy(ada.key, fmt.Sprintf("https://api.example.com/r?n=%d", i), "", micros)
		w.clock.advance(time.Second)
	}
	path := "/dashboard/keys/" + ada.key.ID + "/limits"
	form := ada.get(path).is(200, "Review changes", "Default: 0.10 USDC").without("badge-own", "Reset all")
	fields := []string{"revision", form.revision(), "max_payment", "0.50", "daily_budget", "5", "monthly_budget", "off"}
	review := ada.post(path, append(fields, "do", "review")...).is(200, "Save these limits?", "would have declined 2 payments, 1.30 USDC, in the last 7 days",
		"The price is above the limit for one payment", "/dashboard/payments/", "0.10 USDC (default)", "0.50 USDC")
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Policy != nil {
		t.Fatal("a review saves")
	}
	for _, name := range []string{"max_payment", "daily_budget"} {
		if !strings.Contains(review.body, `type="hidden" name="`+name+`"`) {
			t.Errorf("%s is not sent again", name)
		}
	}
	ada.post(path, append(fields, "do", "review", "days", "1")...).is(200, "in the last 24 hours")
	ada.post(path, append(fields, "do", "edit")...).is(200, `value="0.50"`, "badge-own")
	ada.post(path, append(fields, "do", "save")...).to("/dashboard/keys/" + ada.key.ID)
	k, err := w.books.Key(t.Context(), ada.key.ID)
	want := &policy.Policy{MaxPayment: policy.CapOf(money.New(500_000)), DailyBudget: policy.CapOf(money.New(5_000_000)), MonthlyBudget: policy.NoCap()}
	if err != nil || !reflect.DeepEqual(k.Policy, want) {
		t.Fatalf("saved %+v, %v", k.Policy, err)
	}
	if _, err := w.try(ada.key, "https://api.example.com/dear", "", "500001"); err == nil {
		t.Error("a payment above the new limit is made")
	}
	ada.get(path).is(200, "badge-own", "Reset all").without("Nothing was saved")
	entries, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{KeyID: k.ID, Limit: 1})
	if err != nil || len(entries) != 1 || entries[0].Action != pay.ActionKeyPolicy || entries[0].By.ID != ada.account.ID {
		t.Errorf("the audit: %+v, %v", entries, err)
	}
	ada.post(path, "revision", ada.get(path).revision(), "max_payment", "9", "do", "reset").is(200, "0.50 USDC", "(default)")
	ada.post(path, "revision", ada.get(path).revision(), "do", "save").to("/dashboard/keys/" + ada.key.ID)
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Policy != nil {
		t.Errorf("after the reset: %+v", k.Policy)
	}
}

// Every limit can be typed, and comes back as it was typed. A field that is added to the policy needs
// an entry in limitFields.
func TestEveryLimitIsInTheEditor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	n := 3
	payee, err := x402.ParseAddress(seller)
	if err != nil {
		t.Fatal(err)
	}
	limit := policy.Budget{MaxPayment: policy.CapOf(money.New(10_000)), DailyBudget: policy.NoCap()}
	total := policy.Budget{Total: &policy.Total{Amount: money.New(5_000_000), Until: time.Date(2026, 12, 1, 18, 0, 30, 0, time.UTC)}}
	want := policy.Policy{
		MaxPayment: policy.CapOf(money.New(10_000)), HourlyBudget: policy.CapOf(money.New(2)), DailyBudget: policy.NoCap(), WeeklyBudget: policy.CapOf(money.New(3)), MonthlyBudget: policy.CapOf(money.New(1)),
		PerMinute: &n, PriceGuard: &n, RequireApprovalAbove: policy.NoCap(), RequireApprovalNewHosts: new(true), Doors: []policy.Door{policy.DoorProxy, policy.DoorAPI}, AllowHosts: []string{"a.example.com", "*.example.org"},
		DenyHosts: []string{"b.example.com:8443"}, SignInHosts: []string{"c.example.com"}, AllowPayees: []x402.Address{payee}, DenyPayees: []x402.Address{payee},
		OfferSigners: []x402.Address{payee}, Hosts: map[string]policy.Budget{"a.example.com": limit}, Tasks: map[string]policy.Budget{"*": limit, "t": total},
		Raise: &policy.Raise{Until: w.clock.now().Add(time.Hour), DailyBudget: policy.NoCap()}, // the form keeps it
	}
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not tested", v.Type().Field(i).Name)
		}
	}
	set, err := w.books.SetPolicy(t.Context(), ada.key.ID, &want)
	if err != nil {
		t.Fatal(err)
	}
	path := "/dashboard/keys/" + ada.key.ID + "/limits"
	page := ada.get(path).is(200)
	form := formOn(page.body)
	for field := range v.Type().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if len(form[name]) == 0 && name != "raise" {
			t.Errorf("%s is not in the editor", name)
		}
	}
	form.Set("do", "review")
	ada.do(http.MethodPost, path, form).is(200, "Nothing changes")
	form.Set("do", "save")
	ada.do(http.MethodPost, path, form).to("/dashboard/keys/" + ada.key.ID)
	if k, _ := w.books.Key(t.Context(), ada.key.ID); !reflect.DeepEqual(k.Policy, set.Policy) {
		t.Errorf("typed back: %+v\nwant %+v", *k.Policy, *set.Policy)
	}
}

// A fault stands beside its field, which keeps what was typed, and nothing is saved.
func TestWrongLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	path := "/dashboard/keys/" + ada.key.ID + "/limits"
	revision := ada.get(path).revision()
	for _, c := range []struct{ field, typed, says string }{
		{"max_payment", "0,50", "not an amount of USDC"},
		{"max_payment", "0", "not an amount of USDC"},
		{"daily_budget", "-1", "not an amount of USDC"},
		{"monthly_budget", "1e9", "not an amount of USDC"},
		{"max_payment", "0.0000001", "not an amount of USDC"},
		{"per_minute", "1.5", "not a whole number"},
		{"price_guard", "0", "not a whole number"},
		{"doors", "window", "window"},
		{"allow_hosts", "https://api.example.com/x", "https://api.example.com/x"},
		{"deny_hosts", "API.example.com", "API.example.com"},
		{"allow_payees", "0x1234", "0x1234 is not an address"},
		{"tasks", "a b", "Every line|no limit"},
	} {
		for _, do := range []string{"review", "save"} {
			fields := []string{"revision", revision, c.field, c.typed, "do", do}
			if c.field == "tasks" {
				fields = append(fields, "tasks", "", "tasks", "", "tasks", "", "tasks", "", "tasks", "", "tasks", "", "tasks", "")
			}
			got := ada.post(path, fields...).is(http.StatusUnprocessableEntity, "Nothing was saved", `id="`+c.field+`-wrong"`)
			if !regexp.MustCompile(c.says).MatchString(got.body) || !strings.Contains(got.body, c.typed) {
				t.Errorf("%s %q: %s", c.field, c.typed, got.brief())
			}
		}
	}
	ada.post(path, "revision", "x", "do", "save").is(http.StatusBadRequest)
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Policy != nil || k.PolicyRevision != 0 {
		t.Errorf("saved all the same: %+v", k)
	}
}

// If two people change a key at the same time, the second one is told, and keeps what was typed.
func TestLimitsChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	ada.auth = w.clock.now()
	path := "/dashboard/keys/" + ada.key.ID + "/limits"
	revision := ada.get(path).revision()
	if _, err := w.books.SetPolicy(t.Context(), ada.key.ID, &policy.Policy{MaxPayment: policy.CapOf(money.New(7))}); err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{"review", "save"} {
		got := ada.post(path, "revision", revision, "max_payment", "0.05", "do", do).is(http.StatusConflict, "changed in the meantime", `value="0.05"`)
		if got.revision() == revision {
			t.Error("the form would be refused again")
		}
	}
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.PolicyRevision != 1 {
		t.Errorf("saved all the same: %+v", k)
	}
}

// Raising needs a sign-in of the last fifteen minutes, and lowering does not. After it, the form has
// what was typed.
func TestRaisingALimitNeedsAFreshSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	ada.auth = w.clock.now().Add(-16 * time.Minute)
	path := "/dashboard/keys/" + ada.key.ID + "/limits"
	lower := []string{"revision", ada.get(path).revision(), "max_payment", "0.05", "daily_budget", "1"}
	ada.post(path, append(lower, "do", "review")...).is(200, "Save limits").without("permits more", "Sign in again")
	ada.post(path, append(lower, "do", "save")...).to("/dashboard/keys/" + ada.key.ID)
	raise := []string{"revision", ada.get(path).revision(), "max_payment", "0.06", "daily_budget", "1"}
	ada.post(path, append(raise, "do", "review")...).is(200, "permits more", "Sign in again to save")
	to := ada.post(path, append(raise, "do", "save")...).is(http.StatusSeeOther).header.Get("Location")
	u, err := url.Parse(to)
	if err != nil || u.Path != "/dashboard/sign-in" || u.Query().Get("again") != "1" {
		t.Fatalf("leads to %q", to)
	}
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Policy.MaxPayment.String() != "50000" {
		t.Fatalf("raised: %+v", k.Policy)
	}
	ada.auth = w.clock.now()
	ada.get(u.Query().Get("return")).is(200, `value="0.06"`)
	ada.post(path, append(raise, "do", "save")...).to("/dashboard/keys/" + ada.key.ID)
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Policy.MaxPayment.String() != "60000" {
		t.Errorf("not raised: %+v", k.Policy)
	}
}

// An owner does not raise limits on the operator's money.
func TestOwnersRaiseNoLimitsOnOthersMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada, op := w.person("ada"), w.operates()
	ada.auth = w.clock.now()
	theirs, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "the operator's", Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.books.ShareWallet(t.Context(), w.wallet(theirs, 5).ID, ada.key.ID); err != nil {
		t.Fatal(err)
	}
	path := "/dashboard/keys/" + ada.key.ID + "/limits"
	for _, do := range []string{"review", "save"} {
		ada.post(path, "revision", ada.get(path).revision(), "max_payment", "100", "do", do).is(http.StatusForbidden, "Only an operator permits more")
	}
	ada.post(path, "revision", ada.get(path).revision(), "max_payment", "0.01", "do", "save").to("/dashboard/keys/" + ada.key.ID)
	ada.post(path, "revision", ada.get(path).revision(), "max_payment", "0.02", "do", "save").is(http.StatusForbidden)
	op.post(path, "revision", op.get(path).revision(), "max_payment", "0.02", "do", "save").to("/dashboard/keys/" + ada.key.ID)
}

var (
	inputTag  = regexp.MustCompile(`<input ([^>]*)>`)
	areaTag   = regexp.MustCompile(`(?s)<textarea ([^>]*)>(.*?)</textarea>`)
	selectTag = regexp.MustCompile(`<select [^>]*name="([^"]*)"[^>]*>(?:<option[^>]*>[^<]*</option>)*?<option value="([^"]*)" selected>`)
	nameOfTag = regexp.MustCompile(`\bname="([^"]*)"`)
	valueTag  = regexp.MustCompile(`\bvalue="([^"]*)"`)
)

// formOn reads what a browser would send of the form on a page.
func formOn(page string) url.Values {
	form := url.Values{}
	_, page, _ = strings.Cut(page, "<main")
	for _, tag := range inputTag.FindAllStringSubmatch(page, -1) {
		name, value := nameOfTag.FindStringSubmatch(tag[1]), valueTag.FindStringSubmatch(tag[1])
		if name == nil || strings.Contains(tag[1], `type="checkbox"`) && !strings.Contains(tag[1], "checked") {
			continue
		}
		text := ""
		if value != nil {
			text = value[1]
		}
		form.Add(name[1], text)
	}
	for _, tag := range selectTag.FindAllStringSubmatch(page, -1) {
		form.Add(tag[1], tag[2])
	}
	for _, tag := range areaTag.FindAllStringSubmatch(page, -1) {
		form.Add(nameOfTag.FindStringSubmatch(tag[1])[1], tag[2])
	}
	return form
}
