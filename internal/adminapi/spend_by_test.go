package adminapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

func TestSpendBy(t *testing.T) {
	w := newWorld(t)
	w.run("spend --by host", "HOST USDC PAYMENTS SHARE NOT DELIVERED\n0 payments, 0 USDC")
	one, two := w.key("one"), w.key("two")
	for i, key := range []pay.Key{one, two, one} {
		w.buys(key, 1000*(i+1), fmt.Sprintf("https://api%d.example.com/x", i%2))
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for by, want := range map[string]string{
		"host": "HOST USDC PAYMENTS SHARE NOT DELIVERED\napi0.example.com 0.004 2 66.7 % -\napi1.example.com 0.002 1 33.3 % -\n3 payments, 0.006 USDC",
		"key":  "KEY USDC PAYMENTS SHARE NOT DELIVERED\none 0.004 2 66.7 % -\ntwo 0.002 1 33.3 % -\n3 payments, 0.006 USDC",
		"task": "TASK USDC PAYMENTS SHARE NOT DELIVERED\n- 0.006 3 100.0 % -\n",
		"day":  "DAY USDC PAYMENTS SHARE NOT DELIVERED\n" + today + " 0.006 3 100.0 % -\n",
	} {
		w.run("spend --by "+by, want)
	}
	w.run("spend --by key --csv", "key,key_id,amount,count,share,undelivered_count,undelivered_amount\none,"+one.ID+",0.004,2,0.6667,0,0\n")
	type sums struct {
		By, Since, Until, Total string
		Count                   int
		Groups                  []struct {
			Name, Amount string
			KeyID        string `json:"key_id"`
			Count        int
			Share        *float64
			Undelivered  nothing
		}
		Undelivered, Withdrawn nothing
	}
	got := ran[sums](w, "spend --by key --key two --since 1d")
	if len(got.Groups) != 1 || got.Groups[0].KeyID != two.ID || got.Groups[0].Amount != "2000" || *got.Groups[0].Share != 1 || got.Total != "2000" || got.Count != 1 || got.By != "key" {
		t.Errorf("%+v", got)
	}
	if got := ran[sums](w, "spend --by day --until 2020-01-01 --since all"); got.Groups == nil || len(got.Groups) != 0 || got.Total != "0" {
		t.Errorf("%+v", got)
	}
	w.fails(map[string]string{"spend --by week": "none of host, tool, task, key, day", "spend --by day --limit 3": "--limit", "spend --by=": "none of"})
}

// Tools of MCP are summed up by their names, which also filter lists.
func TestSpendByTool(t *testing.T) {
	w := newWorld(t)
	k := w.key("one")
	for i, url := range []string{"mcp://api.example.com/tool/search", "mcp://api.example.com/tool/look%2Fup", "mcp://api.example.com/tool/search", "https://api.example.com/x"} {
		w.buys(k, 1000*(i+1), url)
	}
	w.run("spend --by tool", "TOOL USDC PAYMENTS SHARE NOT DELIVERED\n- 0.004 1 40.0 % -\nmcp://api.example.com/tool/search 0.004 2 40.0 % -\n"+
		"mcp://api.example.com/tool/look%2Fup 0.002 1 20.0 % -\n4 payments, 0.01 USDC")
	w.run("spend --by tool --host mcp://API.example.com/tool/search", "2 payments, 0.004 USDC", "100.0 %")
	w.run("spend --host mcp://api.example.com/tool/look%2Fup", "mcp://api.example.com/tool/look%2Fup", "1 event, 0.002 USDC")
	w.run("spend --host api.example.com", "4 events, 0.01 USDC")
	if text := w.run("payments --host mcp://api.example.com/tool/search", " mcp://api.example.com/tool/search "); strings.Count(text, "\n") != 3 {
		t.Error(text)
	}
	if text := w.run("export --host mcp://api.example.com/tool/search", "mcp://api.example.com/tool/search"); strings.Count(text, "\n") != 3 {
		t.Error(text)
	}
}

// nothing sums up the payments that brought nothing.
type nothing struct {
	Count  int
	Amount string
}

// Payments that brought nothing are in their own line of each sum, in lists and in stories.
func TestUndelivered(t *testing.T) {
	w := newWorld(t)
	k := w.key("robbed")
	for range 2 {
		w.buys(k, 1000, "https://api.example.com/x")
	}
	id := w.leaves(k, time.Minute)[0]
	now := time.Now()
	held := must(w.store.Acquire(t.Context(), id, "test", now, now.Add(time.Minute)))
	_, _, err := w.store.Record(t.Context(), pay.Outcome{
		PaymentID: id, Fence: held.Lease.Fence, At: now, Verdict: pay.VerdictSettled, EventID: uuid.Must(uuid.NewV7()).String(),
		Release: true, Undelivered: &pay.Undelivered{Status: 503},
	})
	w.must(err)
	const line = "of this, paid and not delivered: 0.01 USDC in 1 payment"
	w.run("spend", "3 events, 0.012 USDC", line)
	w.run("spend --by host", "api.example.com 0.012 3 100.0 % 1 of 3\n", line)
	w.run("spend --by host --csv", "api.example.com,,0.012,3,1.0000,1,0.01\n")
	if text := w.run("payments --undelivered", id, "undelivered"); strings.Count(text, "\n") != 2 {
		t.Error(text)
	}
	w.run("payments show "+id, "paid and not delivered: the seller answered 503")
	if list := get[adminapi.Payments](w, "/payments?state=undelivered").Payments; len(list) != 1 || *list[0].AnswerStatus != 503 {
		t.Errorf("%+v", list)
	}
	w.fails(map[string]string{"payments --undelivered --state open": "give one of them"})
}

// A command that lists has a subcommand list as well.
func TestListCommands(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.buys(k, 1000, "https://api.example.com/x")
	for _, name := range []string{"keys", "wallets", "payments", "organizations"} {
		if text := w.run(name); text != w.run(name+" list") || name != "organizations" && strings.Count(text, "\n") != 2 {
			t.Errorf("%s: %s", name, text)
		}
	}
	w.run("payments list --key research --state settled --json", k.ID)
	w.run("wallets list --key nobody2 --help", "--deleted")
}
