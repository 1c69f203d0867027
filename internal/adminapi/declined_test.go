package adminapi_test

import (
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// The command lists what the store has of declined requests, whichever process has declined them.
func TestDeclined(t *testing.T) {
	w := newWorld(t)
	w.run("declined", "REASON HOST KEY TASK LAST (UTC) USDC REQUESTS DETAIL YOU CAN\n")
	k := w.key("research")
	now := time.Now().UTC()
	price := money.New(2_500_000)
	ago := func(days, count int, keyID, reason, host string) pay.Declined {
		at := now.AddDate(0, 0, -days)
		return pay.Declined{
			KeyID: keyID, Day: pay.DayOf(at), Reason: reason, Host: host, Count: count, First: at, Last: at, Price: &price,
			Task: "nightly", Detail: "2.50 USDC is above the limit",
		}
	}
	w.must(w.store.AddDeclines(t.Context(), []pay.Declined{
		ago(0, 2, k.ID, "per-payment", "api.example.com"), ago(1, 3, k.ID, "per-payment", "api.example.com"),
		ago(2, 1, "", "too-many-failed-logins", "other.example"), ago(30, 1, k.ID, "hosts", "old.example"),
	}))
	w.run("declined", "per-payment api.example.com research nightly "+now.Format(time.RFC3339)+" 2.5 5 2.50 USDC is above the limit purser limits KEY --max-payment ... raises the limit.\n")
	list := func(line string) []adminapi.Declined { return ran[adminapi.DeclinedList](w, line).Declined }
	if got := list("declined"); len(got) != 2 || got[0].Count != 5 || got[0].KeyLabel != "research" || got[0].Price != "2500000" || got[0].Do == nil || got[1].KeyID != "" {
		t.Errorf("%+v", got)
	}
	for line, want := range map[string]int{
		"declined --since all": 3, "declined --since all --limit 2": 2, "declined --since all --reason hosts": 1, "declined --host https://api.example.com/x": 1,
		"declined --key research": 1, "declined --until 2d": 1, "declined --since all --until 20d": 1, "declined --host free.example": 0,
	} {
		if got := list(line); len(got) != want {
			t.Errorf("%s: %+v", line, got)
		}
	}
	w.must(w.store.AddDeclines(t.Context(), []pay.Declined{ago(0, 1, k.ID, "hosts", "mcp://tools.example.com/tool/search")}))
	w.run("declined --host tools.example.com", "hosts mcp://tools.example.com/tool/search research nightly")
	if got := list("declined --host mcp://tools.example.com/tool/search"); len(got) != 1 || got[0].Host != "tools.example.com" || got[0].Tool != "mcp://tools.example.com/tool/search" {
		t.Errorf("%+v", got)
	}
	w.fails(map[string]string{"declined --key nobody": "no key has the id or label", "declined --since soon": "--since", "declined --limit 0": "--limit"})
}
