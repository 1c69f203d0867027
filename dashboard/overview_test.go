package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

var polled = regexp.MustCompile(`hx-get="([^"]+)" hx-trigger="every`)

func TestTheOverviewStartsWithWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	ada.get("/dashboard/").is(200, "Three steps to the first payment", "purser exec --key", "/dashboard/keys/"+ada.key.ID, "3,000").without("<svg class=\"chart\"")
	wallet := w.wallet(ada.key, 5_000_000)
	ada.get("/dashboard/").is(200, "/dashboard/wallets/"+wallet.ID)
	ada.get("/dashboard/", "Host", "x").is(200)
}

// A command to copy works in another terminal: it names the proxy, unless that is where purser exec looks by itself.
func TestCommandsNameTheirPurser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	for _, page := range []string{"/dashboard/", "/dashboard/spend", "/dashboard/keys/" + ada.key.ID} {
		for _, at := range []string{"127.0.0.1:9402", "purser.internal:8402", "[::1]:8402"} {
			ada.get(page, "Host", at).is(200, `purser exec --key &#34;$PURSER_KEY&#34; --proxy &#34;http://`+at+`&#34; --task demo -- curl`, `&#34;http://`+at+`&#34; --task nightly -- python3`)
		}
		ada.get(page, "Host", "127.0.0.1:8402").is(200, `purser exec --key &#34;$PURSER_KEY&#34; --task demo -- curl`).without("--proxy")
	}
}

func TestTheOverview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The middle of a month, so that yesterday is in the same month.
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	w.clock.set(now.AddDate(0, 0, -1))
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	w.buy(ada.key, "https://api.example.com/a", "demo", "20000")
	w.clock.set(now)
	w.buy(ada.key, "https://api.example.com/b", "demo", "10000")
	w.buy(ada.key, "https://other.example.com/b", "", "5000")
	ada.get("/dashboard/").is(
		200, `<dd class="big "><span class="amount">0.015 <span class="unit">USDC</span></span></dd><dd>2 payments</dd>`,
		`<dd class="big "><span class="amount">0.035 <span class="unit">USDC</span></span></dd><dd>3 payments</dd>`, "Spent in November",
		"2,997", "1 December", `role="img"`, "Sunday, 15 November: 0.015 USDC, 2 payments", "Saturday, 14 November: 0.02 USDC, 1 payment",
		`href="/dashboard/spend?from=2026-11-14&amp;to=2026-11-14"`, "without one", `host=api.example.com`,
	)
	for query, bars := range map[string]int{
		"range=7-days": 7, "": 30, "range=90-days": 90, "range=1e9": 30, "range=this-month": 15, "range=last-month": 31,
		"from=2026-11-14&to=2026-11-15": 2, "from=2026-11-14": 2, "to=2026-11-14": 30, "from=2025-10-12&to=2026-11-15": 400,
	} {
		if got := strings.Count(ada.get("/dashboard/?"+query).is(200).body, `class="slot"`); got != bars {
			t.Errorf("%s: %d bars", query, got)
		}
	}
	ada.get("/dashboard/?from=2025-10-11&to=2026-11-15").is(422, "Choose at most 400 days.")
	ada.get("/dashboard/?from=2026-11-15&to=2026-11-14").is(422, "This day is before the first day.")
	ada.get("/dashboard/?from=x").is(422, "Write a day as 2026-01-31.")
}

func TestTheChartIsSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.set(time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC))
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	for n := range 7 { // host 6 is the largest
		w.buy(ada.key, fmt.Sprintf("https://host-%d.example.com/", n), []string{"demo", ""}[n%2], fmt.Sprint(10_000*(n+1)))
	}
	hosts := ada.get("/dashboard/?by=host").is(
		200, `class="lane lane-6"`, "Sunday, 15 November: 0.28 USDC, 7 payments; host-6.example.com 0.07 USDC; host-5.example.com 0.06 USDC",
		"all others 0.03 USDC", `href="/dashboard/spend?host=host-6.example.com&amp;range=30-days"`, `lane-name" title="host-2.example.com"`, "by host: 0.28 USDC in all",
	).without("lane-7", `lane-name" title="host-1.example.com"`)
	if n := strings.Count(hosts.body, `<rect class="lane `); n != 6+6 { // of the legend and of one bar
		t.Errorf("%d parts", n)
	}
	ada.get("/dashboard/?by=task").is(200, "; demo 0.16 USDC; without a task 0.12 USDC", "task=demo")
	ada.get("/dashboard/?by=key&range=7-days").is(200, "by key", "key="+ada.key.ID+"&amp;range=7-days", "by=host&amp;range=7-days").without("lane-2")
	ada.get("/dashboard/?by=<b>").is(200).without("lane-1", "<b>")
}

// The overview begins with what is left, what of the budgets is used, what waits and what was declined.
func TestTheOverviewBeginsWithWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.DefaultPolicy.DailyBudget = policy.CapOf(money.New(10_000_000)) })
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	w.clock.set(now.AddDate(0, 0, -4))
	ada := w.person("ada")
	ada.get("/dashboard/").is(200, "no wallet", "Create a wallet")
	w.wallet(ada.key, 5_000_000)
	w.clock.set(now.AddDate(0, 0, -1))
	w.buy(ada.key, "https://api.example.com/a", "demo", "800000")
	w.clock.set(now)
	w.declines(
		pay.Declined{KeyID: ada.key.ID, Reason: "hosts", Host: "api.example.com", Count: 2, First: now, Last: now},
		pay.Declined{KeyID: ada.key.ID, Reason: "hosts", Host: "api.example.com", Count: 1, First: now.AddDate(0, 0, -1), Last: now.AddDate(0, 0, -1)},
	)
	w.buy(ada.key, "https://api.example.com/b", "demo", "400000")
	page := ada.get("/dashboard/").is(
		200, "Money left", `5 <span class="unit">USDC</span>`, "lasts about 25 days", // 0.2 a day, without today
		`<a href="/dashboard/wallets">1 wallet</a>, lasts`, "Budgets used most", "0.40 of 10.00 USDC, 4 %", `<a class="clip" href="/dashboard/keys/`+ada.key.ID,
		`<dt>Declined today</dt><dd class="big">2</dd><dd>1 yesterday. <a href="/dashboard/declined">`, "no request waits",
	)
	// A poll answers with every part that moves, each once, and each as the page has it.
	moving := regexp.MustCompile(`id="(figures|held|waiting-count|attention|chart|of-hosts|of-tasks|feed)"`)
	w.buy(ada.key, "https://api.example.com/c", "demo", "100000")
	live := ada.get(html.UnescapeString(polled.FindStringSubmatch(page.body)[1]), "HX-Request", "true").is(200)
	var parts []string
	for _, m := range moving.FindAllStringSubmatch(live.body, -1) {
		parts = append(parts, m[1])
	}
	if slices.Sort(parts); strings.Join(parts, " ") != "attention chart feed figures held of-hosts of-tasks waiting-count" {
		t.Errorf("the poll brings %q", parts)
	}
	if n := strings.Count(live.body, "hx-swap-oob"); n != 7+1 { // and the announcement
		t.Errorf("%d parts are swapped", n)
	}
	if today := strings.Count(live.body, `0.5 <span class="unit">USDC</span>`); today != 1 || strings.Count(live.body, `1.3 <span class="unit">USDC</span>`) < 2 {
		t.Errorf("figures of different times: %s", live.body)
	}
}

func TestTheOverviewIsLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	w.buy(ada.key, "https://api.example.com/first", "demo", "20000")
	poll := func(body string) string {
		m := polled.FindStringSubmatch(body)
		if m == nil {
			t.Fatalf("nothing polls: %s", body)
		}
		return html.UnescapeString(m[1])
	}
	next := poll(ada.get("/dashboard/").is(200).body)
	for range 2 {
		if got := ada.get(next, "HX-Request", "true"); got.status != http.StatusNoContent || got.body != "" {
			t.Fatalf("without news: %d %q", got.status, got.body)
		}
	}
	w.buy(ada.key, "https://api.example.com/second", "demo", "30000")
	news := ada.get(next, "HX-Request", "true").is(200, "api.example.com/second", `class="fresh"`, `id="figures" hx-swap-oob="true"`, `id="attention" hx-swap-oob="true"`, "0.05", "New payment: 0.03 USDC to api.example.com/second").without("<html")
	if strings.Count(news.body, `class="fresh"`) != 1 {
		t.Error("more than the new payment is fresh")
	}
	after := poll(news.body)
	ada.get(after, "HX-Request", "true").is(http.StatusNoContent)
	// A change without a new payment is news without an announcement.
	p, err := w.books.PaymentsIn(t.Context(), books.OfOrganization(ada.account.OrganizationID), "", 1)
	if err != nil {
		t.Fatal(err)
	}
	w.until("confirmed", p[0].ID)
	ada.get(after, "HX-Request", "true").is(200, "Confirmed").without("fresh", "New payment")
	ada.get(next).to("/dashboard/")
	ada.get("/dashboard/live?seen=%00&newest=%ff", "HX-Request", "true").is(200)

	eve := w.person("eve")
	next = poll(eve.get("/dashboard/").is(200).body)
	eve.get(next, "HX-Request", "true").is(http.StatusNoContent)
	w.wallet(eve.key, 5_000_000)
	w.buy(eve.key, "https://api.example.com/first", "", "1")
	if got := eve.get(next, "HX-Request", "true"); got.header.Get("HX-Refresh") != "true" {
		t.Errorf("the first payment does not bring the chart: %v", got.header)
	}
}

func TestPaymentsThatNeedAttention(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.mute = true })
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	ada.get("/dashboard/").is(200).without("need attention")
	w.chain.set(func(l *ledger) { l.unclear = true })
	if _, err := w.try(ada.key, "https://api.example.com/lost", "demo", "20000"); err == nil {
		t.Fatal("an unclear settlement is no error")
	}
	open, err := w.books.PaymentsIn(t.Context(), books.OfOrganization(ada.account.OrganizationID), "open", 10)
	if err != nil || len(open) != 1 {
		t.Fatalf("open payments: %v, %v", open, err)
	}
	ada.get("/dashboard/").is(200, "not settled yet").without("need attention") // it is still an ordinary open payment
	w.clock.advance(2 * time.Minute)
	ada.get("/dashboard/").is(200, "need attention", "Open and expired")
	w.until("unresolved", open[0].ID)
	ada.get("/dashboard/").is(200, "need attention", "Unresolved.", "PURSER_RPC_URL").without("Open and expired")
	ada.get("/dashboard/payments/"+open[0].ID).is(200, "purser payments resolve "+open[0].ID, "no evidence")
	ada.get("/dashboard/payments?state=unresolved").is(200, open[0].ID)
}

func TestTheQuotaIsLoudWhenItIsShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *setup) { s.pay.Plans = pay.Plans{pay.PlanFree: {Payments: 2}} })
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	w.buy(ada.key, "https://api.example.com/1", "", "1")
	ada.get("/dashboard/").is(200).without("gauge-full", "Get more")
	w.buy(ada.key, "https://api.example.com/2", "", "1")
	ada.get("/dashboard/").is(200, "gauge-full", "Get more", upgradeURL, `<dd class="big">0 <span class="unit">of 2</span>`)
}

// Without plans, no page mentions one, nothing counts against one, and a key's page has no quota.
func TestWithoutPlans(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		w := newWorld(t, func(s *setup) {
			s.pay.Plans, s.pay.NoPlans = pay.Plans{pay.PlanFree: {Payments: 3, Keys: 1, Wallets: 1}}, off
		})
		ada := w.person("ada")
		w.wallet(ada.key, 5_000_000)
		w.buy(ada.key, "https://api.example.com/1", "", "1")
		pages := map[string][]string{
			"/dashboard/": {"of your plan"}, "/dashboard/keys": {"of your plan", "your plan"}, "/dashboard/wallets": {"of your plan"},
			"/dashboard/settings": {"Payments a month", "In use"}, "/dashboard/keys/" + ada.key.ID: {"at most 3 payments a month by all your keys: 1 are made"},
		}
		for path, plans := range pages {
			if page := ada.get(path).is(200); off {
				page.without(plans...)
				page.without("upgrade", upgradeURL)
			} else {
				page.is(200, plans...)
			}
		}
		if off {
			w.wallet(ada.key, 1)
			for _, n := range []string{"2", "3", "4"} {
				w.buy(ada.key, "https://api.example.com/"+n, "", "1")
			}
			ada.post("/dashboard/keys", "label", "another").is(303)
		} else {
			ada.post("/dashboard/keys", "label", "another").is(429, "your plan")
		}
	}
}
