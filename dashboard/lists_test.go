package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// getsNothing pays for a URL whose seller takes the money and answers with an error.
func (w *world) getsNothing(k pay.Key, at string, status int) *pay.Payment {
	w.t.Helper()
	a, err := w.payer.Pay(w.t.Context(), pay.Request{
		Key: k, Door: policy.DoorProxy, Settlement: pay.SettlePayer, Challenge: challenge("10000"), URL: at,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	a.Failed(&pay.Undelivered{Status: status})
	return paytest.Finish(w.t, w.payer, a)
}

// A payment that brought nothing is marked in both lists and on its page, has a filter and an export, and stands
// among those that need attention for a week.
func TestPaidAndNotDelivered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	w.buy(ada.key, "https://good.example.com/", "", "10000")
	lost := w.getsNothing(ada.key, "https://thief.example.com/report?n=1", 500)
	path := "/dashboard/payments/" + lost.ID
	const mark = `<span class="state state-warn">Paid, not delivered</span>`
	for _, list := range []string{"payments", "spend"} {
		if n := strings.Count(ada.get("/dashboard/"+list).is(200, "good.example.com", "thief.example.com").body, mark); n != 1 {
			t.Errorf("%s marks %d payments", list, n)
		}
	}
	ada.get("/dashboard/payments").is(200, `<option value="undelivered">Not delivered</option>`)
	ada.get("/dashboard/payments?state=undelivered").is(200, `<option value="undelivered" selected>`, mark, "<strong>1 payment</strong>", path).without("good.example.com")
	ada.get("/dashboard/payments?state=undelivered&host=good.example.com").is(200, "Nothing matches the filter")
	ada.get("/dashboard/payments.csv?state=undelivered").is(200, lost.ID, "undelivered").without("good.example.com")
	ada.get("/dashboard/spend.csv").is(200, "undelivered")
	ada.get(path).is(200, mark, "the seller answered 500", "the request brought nothing")
	ada.get("/dashboard/").is(200, "Payments that need attention", "Paid and not delivered", path)

	w.clock.advance(8 * 24 * time.Hour)
	ada.get("/dashboard/").is(200).without("Payments that need attention")
	ada.get("/dashboard/payments?state=undelivered").is(200, mark)
	w.person("eve").get("/dashboard/payments?state=undelivered").is(200, "Every payment was delivered").without("thief")
}

// The site of a payment leads to its page from every list.
func TestListsLeadToThePayment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 5_000_000)
	p := w.buy(ada.key, "https://api.example.com/a/long/path?q=1", "crawl", "10000")
	for _, list := range []string{"payments", "spend"} {
		ada.get("/dashboard/"+list).is(200,
			`<a class="site" href="/dashboard/payments/`+p.ID+`" title="https://api.example.com/a/long/path?q=1"><span class="site-host">api.example.com</span><span class="site-rest">/a/long/path?q=1</span></a>`,
			`<a href="/dashboard/`+list+`?task=crawl">crawl</a>`)
	}
	ada.get("/dashboard/").is(200, `href="/dashboard/payments/`+p.ID+`"`, ">api.example.com/a/long/path?q=1</a>")
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	w.wallet(ada.key, 5_000_000)
	p := w.buy(ada.key, "https://api.example.com/report", "", "10000")
	path := "/dashboard/payments/" + p.ID
	asks := func(by *person, text string) seen {
		return by.get("/dashboard/payments?q=" + strings.ReplaceAll(text, " ", "+"))
	}
	ada.get("/dashboard/payments").is(200, `<input id="q" name="q"`)
	for _, text := range []string{p.ID, " " + strings.ToUpper(p.ID) + " ", p.Transaction, strings.ToUpper(p.Transaction)} {
		asks(ada, text).to(path)
	}
	asks(w.operates(), p.Transaction).to(path)
	// Another organization learns nothing of it.
	asks(eve, p.ID).is(200, "No payment has this id.", "Show all").without(path)
	asks(eve, p.Transaction).is(200, "No payment has this transaction.").without(path)
	asks(ada, "0x"+strings.Repeat("0", 64)).is(200, "No payment has this transaction.", `value="0x0000`)
	asks(ada, "01890000-0000-7000-8000-000000000000").is(200, "No payment has this id.")

	for _, text := range []string{"api.example.com", "API.Example.com", "https://api.example.com/report?x=1"} {
		asks(ada, text).to("/dashboard/payments?host=api.example.com")
	}
	asks(ada, seller).to("/dashboard/payments?payee=" + seller)
	asks(ada, "two words").is(200, "This is no host")
	asks(ada, "<b>"+strings.Repeat("x", 400)).is(200, "This is no host").without("<b>")
}

// Several payments may have the same transaction.
func TestSearchForATransactionOfSeveralPayments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	w.wallet(ada.key, 5_000_000)
	w.wallet(eve.key, 5_000_000)
	w.chain.set(func(l *ledger) { l.batch = true })
	one, two := w.buy(ada.key, "https://one.example.com/", "", "10000"), w.buy(ada.key, "https://two.example.com/", "", "20000")
	hers := w.buy(eve.key, "https://hers.example.com/", "", "10000")
	if one.Transaction != two.Transaction || one.Transaction != hers.Transaction {
		t.Fatal(one.Transaction, two.Transaction, hers.Transaction)
	}
	ada.get("/dashboard/payments?q="+one.Transaction).is(200, "Payments of one transaction", one.ID, two.ID).without(hers.ID, "Export as CSV")
	eve.get("/dashboard/payments?q=" + one.Transaction).to("/dashboard/payments/" + hers.ID)
}

// Operators stop and start all payments from the overview. A link alone changes nothing, and others have no way to it.
func TestPausingEverythingFromTheOverview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, ann := w.person("ada"), w.operates()
	w.wallet(ada.key, 5_000_000)
	ann.get("/dashboard/").is(200, "Pause everything…", `href="/dashboard/pause"`)
	ada.get("/dashboard/").is(200).without("Pause everything")
	ann.get("/dashboard/pause").is(200, "Pause everything?", "Why? Agents read it")
	ann.get("/dashboard/resume").is(http.StatusNotFound)
	for _, reason := range []string{"", "  ", strings.Repeat("x", 201), "a\u202eb"} {
		ann.post("/dashboard/pause", "reason", reason).is(422, `aria-invalid="true"`)
	}
	if rule := ada.pays("https://api.example.com/1"); rule != "" {
		t.Fatalf("asking has paused: %q", rule)
	}
	refuses := func(by *person) {
		t.Helper()
		by.get("/dashboard/pause").is(http.StatusForbidden)
		by.post("/dashboard/pause", "reason", "mine").is(http.StatusForbidden)
		by.post("/dashboard/resume").is(http.StatusForbidden)
	}
	refuses(ada)
	for _, role := range []string{"viewer", "approver"} {
		other := w.person(role)
		other.role = role
		other.get("/dashboard/").is(200).without("Pause everything")
		refuses(other)
	}

	ann.post("/dashboard/pause", "reason", "a leaked <key>").to("/dashboard/")
	ann.get("/dashboard/").is(200, "Everything is paused.", "All new payments are paused", "a leaked &lt;key&gt;", "Resume everything…").without("Pause everything…")
	ann.get("/dashboard/pause").is(200, "Resume everything?", "a leaked &lt;key&gt;", "Leave it paused")
	ada.get("/dashboard/").is(200, "The operator paused all new payments", "a leaked").without("Resume everything")
	if rule := ada.pays("https://api.example.com/2"); rule != "paused" {
		t.Fatalf("refused by %q", rule)
	}
	refuses(ada)
	ann.post("/dashboard/resume").to("/dashboard/")
	ann.get("/dashboard/").is(200, "Everything is resumed.", "Pause everything…").without("All new payments are paused")
	if rule := ada.pays("https://api.example.com/3"); rule != "" {
		t.Fatalf("refused by %q", rule)
	}
}

// The overview and the list begin with requests that expire first.
func TestTheFirstToExpireIsTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	ada.get("/dashboard/").is(200, `<div id="held"></div>`)
	for _, at := range []string{"https://a.example/1", "https://a.example/2", "https://a.example/3", "https://a.example/4"} {
		w.asks(ada.key, at, "600000")
		w.clock.advance(time.Minute)
	}
	order := func(page seen, want ...string) {
		t.Helper()
		at := 0
		for _, text := range want {
			next := strings.Index(page.body[at:], text)
			if next < 0 {
				t.Fatalf("%q is not behind the others: %s", text, page.brief())
			}
			at += next
		}
	}
	order(ada.get("/dashboard/").is(200).without("a.example/4"), "Waiting for an answer", "a.example/1", "until <time", "a.example/2", "a.example/3", "All 4", "Money left")
	order(ada.get("/dashboard/approvals").is(200), "a.example/1", "a.example/2", "a.example/3", "a.example/4")
}

// Spend adds up what each tool of MCP cost, of the payments of the filter, and leads to the payments for it.
func TestToolsAreAddedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	w.wallet(ada.key, 5_000_000)
	w.wallet(eve.key, 5_000_000)
	ada.get("/dashboard/spend?by=tool").is(200, "No tool of an MCP server was paid")
	const search = "mcp://api.example.com/tool/search"
	w.buy(ada.key, search, "nightly", "10000")
	w.getsNothing(ada.key, search, 500)
	w.buy(ada.key, "mcp://api.example.com/resource/file%3A%2F%2F%2Fa", "", "5000")
	w.buy(ada.key, "https://api.example.com/tool/search", "", "70000")
	w.buy(eve.key, "mcp://hers.example/tool/search", "", "10000")

	const leads = `href="/dashboard/payments?host=mcp%3A%2F%2Fapi.example.com%2Ftool%2Fsearch`
	page := ada.get("/dashboard/spend?by=tool").is(
		200, `<a class="wrap" `+leads+`">mcp://api.example.com/tool/search</a>`, "mcp://api.example.com/resource/file:%2F%2F%2Fa", ">1 of 2<",
		`<input type="hidden" name="by" value="tool">`, `href="/dashboard/spend?by=tool" aria-current="true"`, "<strong>4 payments</strong>",
	).without("hers.example", "https://api.example.com")
	if strings.Index(page.body, "/tool/search</a>") > strings.Index(page.body, "file:%2F%2F%2Fa</a>") {
		t.Error("the most expensive tool is not the first one")
	}
	ada.get("/dashboard/spend?by=tool&task=nightly").is(200, leads+`&amp;task=nightly"`, "<strong>1 payment</strong>").without("file:%2F", "1 of")
	ada.get("/dashboard/spend?by=tool&host=other.example").is(200, "No tool of an MCP server was paid", `href="/dashboard/spend?host=other.example"`)
	w.operates().get("/dashboard/spend?by=tool").is(200, "mcp://hers.example/tool/search", search)
	ada.get("/dashboard/keys/"+ada.key.ID).is(200, "Tools in ", search, ">1 of 2<", "range=this-month")

	of := "?host=" + url.QueryEscape(search)
	for _, list := range []string{"payments", "spend"} {
		page := ada.get("/dashboard/"+list+of).is(200, "<strong>2 payments</strong>", `value="`+search+`"`).without("file:%2F", "https://api.example.com/tool")
		if n := strings.Count(page.body, `<td data-label="Time"`); n != 2 {
			t.Errorf("%s lists %d payments", list, n)
		}
		if file := ada.get("/dashboard/"+list+".csv"+of).is(200, search).body; strings.Count(file, "\n") != 3 {
			t.Error(file)
		}
	}
	ada.get("/dashboard/payments?q=" + url.QueryEscape(" "+search)).to("/dashboard/payments" + of)
	ada.get("/dashboard/payments?host=api.example.com").is(200, "<strong>4 payments</strong>")
}
