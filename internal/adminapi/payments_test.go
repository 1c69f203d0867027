package adminapi_test

import (
	"encoding/csv"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// Payments are listed of one key, page by page, by state, day, task and host. Lists end where they
// are told to, and say that there is more.
func TestPayments(t *testing.T) {
	w := newWorld(t)
	w.answers(request{"GET", "/payments", "", 200, `{"payments":[]}` + "\n"})
	k, other := w.key("research"), w.key("other")
	ids := w.leaves(k, time.Hour, 60*24*time.Hour, 0)
	bought := w.buys(other, 1000, "https://shop.example.com:8443/x")
	ids = append(ids, bought)
	for line, want := range map[string]string{
		"":                  "0 1 2 3",
		"--key " + k.ID:     "0 1 2",
		"--key " + other.ID: "3",
		"--state settled":   "3",
		"--state open":      "0 1 2",
		"--since 2d":        "0 2 3",
		"--until 30d":       "1",
		"--task task-1":     "1",
		"--host https://API.example.com/x --state open": "0 1 2",
		"--host api.example.com --task task-0":          "0",
		"--host api.example.com:8443":                   "",
		"--task task-2 --since 2d":                      "2",
		"--task task-1 --since 2d":                      "",
		"--key " + k.ID + " --state settled":            "",
	} {
		text := w.run("payments "+line, "!t0ken")
		var got []string
		for i, id := range ids {
			if strings.Contains(text, id) {
				got = append(got, fmt.Sprint(i))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: payments %s, want %s", line, got, want)
		}
	}
	w.run("payments", "STATE USDC HOST KEY TASK RAIL REASON", "open 0.01 api.example.com research task-0 eip3009 -")
	if o := w.command("payments --limit 2"); !strings.Contains(o.Stderr, "there are more") || strings.Contains(o.Stdout,
		ids[1]) {
		t.Errorf("%+v", o)
	}
	// Payments that the days leave out do not count.
	for line, want := range map[string][2]string{
		"--state open --limit 2": {ids[2], ids[0]}, "--since 2d --limit 1": {ids[3], ids[3]},
		"--until 30d --limit 1": {ids[1], ""},
	} {
		if page := ran[adminapi.Payments](w, "payments "+line); len(page.Payments) == 0 || page.Payments[0].ID != want[0] ||
			page.Next != want[1] {
			t.Errorf("%s: %+v", line, page)
		}
	}
	var seen []string
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		page := get[adminapi.Payments](w, "/payments?limit=1&key="+k.ID+"&before="+next)
		if len(page.Payments) != 1 || pages > 2 {
			t.Fatalf("%+v", page)
		}
		seen, next = append(seen, page.Payments[0].ID), page.Next
	}
	if strings.Join(seen, " ") != ids[2]+" "+ids[0]+" "+ids[1] {
		t.Errorf("%s", seen)
	}
	w.run("__complete payments resolve ''", ids[1]+" open, 0.01 USDC, api.example.com")
	w.fails(map[string]string{
		"payments show nobody": "no payment has the id", "payments --state lost": `--state "lost" is none of open, settled`,
		"payments --limit 0": "--limit",
	})
	w.answers(
		request{"GET", "/payments?state=lost", "", 400, "state"},
		request{"GET", "/payments?limit=0", "", 400, "limit"},
		request{"GET", "/payments?limit=501", "", 400, "limit"},
		request{"GET", "/payments?key=nobody", "", 404, "nobody"},
		request{"GET", "/payments/nobody", "", 404, "no payment has the id"},
	)
}

// An operator's word closes a payment that can move no money any more, once, and is in the audit.
func TestResolve(t *testing.T) {
	w := newWorld(t)
	ids := w.leaves(w.key("research"), time.Hour, time.Hour, 0, time.Hour, time.Hour)
	status, text := w.send("GET", "/payments/"+ids[0], "", "")
	story := decode[adminapi.Story](w, text)
	if status != 200 || !story.Signed || !story.Resolvable || len(story.Reservations) == 0 || story.RequestURL == "" ||
		story.Lease != nil || story.Resolution != nil {
		t.Errorf("%d %s", status, text)
	}
	if low := strings.ToLower(text); strings.Contains(low, `"signature"`) || strings.Contains(low, "payload") {
		t.Errorf("it could be paid with: %s", text)
	}
	resolve := func(i int) string { return "/payments/" + ids[i] + "/resolve" }
	settled := `{"as":"settled","reason":"on the explorer","transaction":"0x` + strings.Repeat("ab", 32) + `","by":"ann"}`
	w.answers(
		request{"POST", resolve(0), `{"as":"void"}`, 400, "reason"},
		request{"POST", resolve(0), `{"as":"open","reason":"x"}`, 400, "settled or void"},
		request{"POST", resolve(0), `{"as":"void","reason":"x","transactions":"0x"}`, 400, "unknown field"},
		request{"POST", resolve(0), `{"as":"settled","reason":"x","transaction":"0x12"}`, 400, "transaction"},
		request{"POST", "/payments/nobody/resolve", `{"as":"void","reason":"x"}`, 404, "no payment has the id"},
		request{"POST", resolve(2), `{"as":"void","reason":"x"}`, 409, "may still settle"},
		request{"POST", resolve(0), settled, 200, `"by":"ann"`},
		request{"POST", resolve(0), `{"as":"void","reason":"x"}`, 409, "it is settled"},
		request{"POST", resolve(1), settled, 409, "another payment"},
		request{"POST", resolve(1), `{"as":"void","reason":"the seller says so"}`, 200, `"reason":"the seller says so"`},
		request{"GET", "/payments?state=void", "", 200, ids[1]},
	)
	w.fails(map[string]string{
		"payments resolve " + ids[3] + " --as void":            "--reason",
		"payments resolve " + ids[3] + " --as lost --reason x": "--as: settled or void",
		"payments resolve " + ids[2] + " --as void --reason x": "may still settle",
	})
	w.run("payments show "+ids[0], "token=t0ken")
	w.run("payments show "+ids[2], "cannot be resolved: it is valid until")
	w.run("payments show "+ids[3], "purser payments resolve "+ids[3]+" --as", "1 payment of the plan, ", ": reserved\n")
	// A ruling comes before what it did, once; and a repeat of what is void is a new payment.
	text = w.run("payments resolve "+ids[3]+" --as void --reason nothing", "a repeat of the request is a new payment",
		"!gets this payment")
	if ruling, void := strings.Index(text, "said that it is void: nothing\n"), strings.Index(text,
		"Z: void\n"); ruling < 0 || void < ruling {
		t.Errorf("%s", text)
	}
	if story := get[adminapi.Story](w, "/payments/"+ids[3]); story.Resolution == nil || story.Resolution.By == "" ||
		story.State != pay.Void {
		t.Errorf("%+v", story)
	}
	list := get[adminapi.Audit](w, "/audit?limit=1").Audit
	if len(list) != 1 || list[0].Action != pay.ActionPaymentResolve || list[0].PaymentID != ids[3] || list[0].By == "" ||
		string(list[0].New) != `{"reason":"nothing","state":"void"}` {
		t.Errorf("%+v", list)
	}
	story = ran[adminapi.Story](w, "payments resolve "+ids[4]+" --as settled --reason seen --transaction 0x"+strings.Repeat("1", 64))
	if story.State != pay.Settled || story.EventID == "" {
		t.Errorf("%+v", story)
	}
	w.must(w.store.Check(t.Context()))
	if !strings.Contains(w.log.String(), "the seller says so") {
		t.Error("the resolution is not in the log")
	}
}

func TestSpend(t *testing.T) {
	w := newWorld(t)
	one, two := w.key("one"), w.key("two")
	// A list without any spending tells how to begin; a part of a list does not.
	w.run("spend", "0 events, 0 USDC", "\nTo pay for a request: fund a wallet")
	for _, args := range []string{"--host a.example", "--json", "--csv", "--since 2020-01-01 --until 2020-01-01"} {
		w.run("spend "+args, "!To pay for a request")
	}
	for i, key := range []pay.Key{one, two, one} {
		w.buys(key, 1000*(i+1), fmt.Sprintf("https://api%d.example.com/x?token=t0ken", i))
	}
	text := w.run("spend", "3 events, 0.006 USDC since ", "!t0ken", "!To pay for a request")
	if strings.Count(text, "\n") != 5 || strings.Index(text, "0.003") > strings.Index(text, "0.002") {
		t.Errorf("%s", text)
	}
	rows, err := csv.NewReader(strings.NewReader(w.run("spend --csv --since all"))).ReadAll()
	if err != nil || len(rows) != 4 || rows[0][1] != "amount" || rows[1][1] != "0.003" ||
		rows[3][7] != "https://api0.example.com/x" ||
		!strings.HasPrefix(rows[1][10], "0x") {
		t.Errorf("%v, %q", err, rows)
	}
	type spent struct {
		Spend       []adminapi.SpendEvent `json:"spend"`
		Count       int                   `json:"count"`
		Total       string                `json:"total"`
		Undelivered nothing               `json:"undelivered"`
		Withdrawn   nothing               `json:"withdrawn"`
	}
	for args, want := range map[string]int{
		"--since 7d": 3, "--since 0d": 3, "--since 2020-01-01 --until 2020-02-01": 0, "--key " + one.ID: 2,
		"--key " + two.ID:         1,
		"--host api1.example.com": 1, "--host https://api1.example.com": 1, "--host other.example.com": 0,
		"--task nightly": 0,
	} {
		if got := ran[spent](w, "spend "+args); len(got.Spend) != want || got.Count != want || got.Spend == nil ||
			want == 3 && got.Total != "6000" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	// Page by page it is the same list.
	var ids []string
	for next := ""; len(ids) == 0 || next != ""; {
		page := get[adminapi.Spend](w, "/spend?limit=1&before="+url.QueryEscape(next))
		if len(page.Spend) != 1 || len(ids) > 3 {
			t.Fatalf("%+v", page)
		}
		ids, next = append(ids, page.Spend[0].ID), page.Next
	}
	if len(ids) != 3 || ids[0] != rows[1][13] || ids[2] != rows[3][13] {
		t.Errorf("%v", ids)
	}
	w.fails(map[string]string{
		"spend --since yesterday": "--since", "spend --until -3d": "--until", "spend --json --csv": "not both",
		"spend --key nobody": "no key has the id",
		"spend --task a/b":   "1 to 64 characters",
	})
	for query, want := range map[string]int{
		"limit=0": 400, "limit=501": 400, "since=1": 400, "before=x": 400, "before=.nothing": 404,
		"key=" + one.ID + "&before=x": 404,
	} {
		w.answers(request{"GET", "/spend?" + query, "", want, ""})
	}
}
