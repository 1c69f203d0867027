package dashboard_test

import (
	"flag"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore/boltfill"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

var events = flag.Int("dashboard.events", 20_000, "payments of the organization whose pages TestPagesOfALongHistory measures")

// TestPagesOfALongHistory measures what a page costs with a long history, for the plan with the most keys:
//
//	go test ./dashboard -run LongHistory -v -dashboard.events 1000000
func TestPagesOfALongHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a long history: run without -short")
	}
	const bound = slower * 150 * time.Millisecond
	w := newWorld(t, onDisk(t))
	ada := w.person("ada")
	if _, err := w.books.SetPlan(t.Context(), ada.account.OrganizationID, pay.PlanAgency); err != nil {
		t.Fatal(err)
	}
	ids := []string{ada.key.ID}
	for len(ids) < 150 {
		k, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "agent", OrganizationID: ada.account.OrganizationID})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, k.ID)
	}
	if err := boltfill.Fill(t.Context(), w.disk, boltfill.Options{Keys: ids, Payments: *events, To: w.clock.now()}); err != nil {
		t.Fatal(err)
	}
	day := w.clock.now().AddDate(0, 0, -9).Format("2006-01-02")
	for _, path := range []string{
		"/dashboard/", "/dashboard/?days=90", "/dashboard/live?newest=0", "/dashboard/keys", "/dashboard/keys/" + ids[0], "/dashboard/wallets", "/dashboard/settings", "/dashboard/payments",
		"/dashboard/payments?state=disputed", "/dashboard/spend", "/dashboard/spend?key=" + ids[149], "/dashboard/spend?host=api-11.example.com", "/dashboard/spend?task=task-3",
		"/dashboard/spend?host=api-11.example.com&task=task-6", "/dashboard/spend?from=" + day + "&to=" + day, "/dashboard/spend?host=x.example&task=none",
	} {
		best := time.Hour
		for range 5 { // the machine may be busy
			began := time.Now()
			ada.get(path, "HX-Request", map[bool]string{true: "true"}[path == "/dashboard/live?newest=0"]).is(200)
			best = min(best, time.Since(began))
		}
		t.Logf("%8.1f ms  %s", float64(best.Microseconds())/1000, path)
		if best > bound {
			t.Errorf("%s takes %s", path, best)
		}
	}
}
