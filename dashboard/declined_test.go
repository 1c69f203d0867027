package dashboard_test

import (
	"encoding/csv"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// declines writes counts into the store of a world.
func (w *world) declines(list ...pay.Declined) {
	w.t.Helper()
	for i := range list {
		list[i].Day = pay.DayOf(list[i].First)
	}
	if err := w.store.AddDeclines(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
}

func TestDeclined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	w.clock.set(now)
	ada, eve := w.person("ada"), w.person("eve")
	ada.get("/dashboard/declined").is(200, "purser declined nothing", "7 days")
	price := money.New(250_000)
	yesterday := now.AddDate(0, 0, -1)
	w.declines(
		pay.Declined{KeyID: ada.key.ID, Reason: "daily-budget", Host: "api.example.com", Count: 3, First: yesterday, Last: yesterday, Detail: "ancient"},
		pay.Declined{KeyID: ada.key.ID, Reason: "daily-budget", Host: "api.example.com", Count: 4, First: now, Last: now, Price: &price, Task: "crawl", Detail: "0.25 USDC would pass the daily budget <b>"},
		pay.Declined{KeyID: ada.key.ID, Reason: "hosts", Host: "other.example", Count: 1, First: now.AddDate(0, 0, -20), Last: now.AddDate(0, 0, -20)},
		pay.Declined{KeyID: eve.key.ID, Reason: "paused", Host: "hers.example", Count: 9, First: now, Last: now},
		pay.Declined{Reason: "key-revoked", Host: "nokey.example", Count: 2, First: now, Last: now},
	)
	ada.get("/dashboard/declined").is(
		200, "<strong>7 requests</strong> in the last 7 days", "0.25 USDC would pass the daily budget &lt;b&gt;", "Raise the daily budget of the key",
		`href="/dashboard/keys/`+ada.key.ID+`#limits"`, "crawl", `<td data-label="Requests" class="num">7</td>`, "first <time datetime=\"2026-11-14",
	).without("hers.example", "other.example", "nokey.example", "ancient")
	ada.get("/dashboard/declined?range=30-days").is(200, "<strong>8 requests</strong>", "other.example", "By reason", "If you trust this host")
	ada.get("/dashboard/declined?range=30-days&state=hosts").is(200, "<strong>1 request</strong>", "other.example").without("crawl")
	ada.get("/dashboard/declined?host=API.example.com").is(200, "<strong>7 requests</strong>")
	ada.get("/dashboard/declined?range=yesterday").is(200, "<strong>3 requests</strong>", "ancient")
	ada.get("/dashboard/declined?from=2026-11-15&to=2026-11-14").is(422, "This day is before the first day.")
	ada.get("/dashboard/declined?key=" + eve.key.ID).is(404)
	ada.get("/dashboard/declined?key=x").is(404)
	w.operates().get("/dashboard/declined").is(200, "<strong>18 requests</strong>", "hers.example", "nokey.example", "no key")

	file := ada.get("/dashboard/declined.csv?range=30-days").is(200).body
	rows, err := csv.NewReader(strings.NewReader(file)).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][0] != "daily-budget" || rows[1][4] != "7" || rows[1][7] != "0.25" || rows[2][1] != "other.example" {
		t.Errorf("%q, %v", rows, err)
	}
	ada.get("/dashboard/declined.csv?from=x").is(400)
}

// The page shows the declines that the doors tell the payer, once they are written.
func TestDeclinedByThePayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.payer.NoteDecline(pay.Decline{KeyID: ada.key.ID, Reason: "price-guard", Host: "api.example.com"})
	const tool = "mcp://tools.example.com/tool/search"
	w.payer.NoteDecline(pay.Decline{KeyID: ada.key.ID, Reason: "hosts", Host: "tools.example.com", Tool: tool})
	w.payer.NoteDecline(pay.Decline{KeyID: ada.key.ID, Reason: "hosts", Host: "tools.example.com", Tool: tool + strings.Repeat("x", 300)})
	if err := w.payer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ada.get("/dashboard/declined").is(200, "price-guard", "Look at the seller&#39;s price", ">"+tool+"</span>", ">tools.example.com</span>")
	ada.get("/dashboard/declined?host=tools.example.com").is(200, "<strong>2 requests</strong>", tool)
	ada.get("/dashboard/declined?host="+url.QueryEscape(tool)).is(200, "<strong>1 request</strong>", tool)
	if file := ada.get("/dashboard/declined.csv?host=" + url.QueryEscape(tool)).is(200).body; !strings.Contains(file, "hosts,tools.example.com,") || !strings.HasSuffix(file, ","+tool+"\n") {
		t.Error(file)
	}
}

func TestPaymentsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, second, base := spenders(t, w)
	day := base.AddDate(0, 0, 1).Format("2006-01-02")
	for query, want := range map[string]struct {
		rows int
		sum  string
	}{
		"":                     {120, "1.20714 "},
		"key=" + second.ID:     {60, "0.6036 "},
		"host=api.example.com": {80, "0.80476 "},
		"task=demo":            {40, "0.40238 "},
		"payee=" + seller:      {120, "1.20714 "},
		"payee=" + usdc:        {0, "0 "},
		"from=" + day + "&to=" + day + "&state=settled": {57, "0.574788 "},
		"state=void": {0, "0 "},
	} {
		rows := 0
		for path := "/dashboard/payments?" + query; path != ""; {
			page := ada.get(path).is(200, want.sum)
			rows += strings.Count(page.body, `<td data-label="Time"`)
			path = ""
			if m := older.FindStringSubmatch(page.body); m != nil {
				path = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		if rows != want.rows {
			t.Errorf("%s: %d rows, want %d", query, rows, want.rows)
		}
		file := ada.get("/dashboard/payments.csv?" + query).is(200).body
		if lines := strings.Count(file, "\n") - 1; lines != want.rows {
			t.Errorf("%s: %d rows are exported, want %d", query, lines, want.rows)
		}
	}
	ada.get("/dashboard/payments?payee=0x12").is(422, "An address is 0x and 40 hexadecimal digits.")
	ada.get("/dashboard/payments?from=2026-02-30").is(422, "Write a day as 2026-01-31.")
	ada.get("/dashboard/payments?state=odd").is(404)
	ada.get("/dashboard/payments?before=x").is(404)
	ada.get("/dashboard/payments?host=nowhere").is(200, "Nothing matches the filter")
	ada.get("/dashboard/spend?payee="+usdc).is(200, "Nothing matches", "0 payments")
	ada.get("/dashboard/spend?payee="+seller+"&host=api.example.com").is(200, "80 payments", "0.80476 ")
	ada.get("/dashboard/spend?host=api.example.com").is(200, "80 payments", "0.80476 ")
	ada.get("/dashboard/spend?task=demo").is(200, "40 payments", "0.40238 ")
	ada.get("/dashboard/spend?range=last-month").is(200)
	eve := w.person("eve")
	eve.get("/dashboard/payments?key=" + second.ID).is(404)
	eve.get("/dashboard/payments.csv?key=" + second.ID).is(404)
}
