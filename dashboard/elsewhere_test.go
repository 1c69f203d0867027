package dashboard_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
)

// Settings tell operators where the rest is set, by names that the reference of the configuration has.
func TestSettingsSayWhereTheRestIs(t *testing.T) {
	t.Parallel()
	low := money.New(2_500_000)
	w := newWorld(t, func(s *setup) { s.pages.PublicURL, s.pages.LowBalance = "https://purser.example.com", &low })
	page := w.operates().get("/dashboard/settings").is(200, "All keys pay", "Pause everything…", "What is set elsewhere", "https://purser.example.com", "2.5 USDC", "purser reload")
	reference, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`<span><code>([a-z_]+)</code> <code class="soft wrap">([A-Z_]+)</code></span>`).FindAllStringSubmatch(page.body, -1)
	if len(rows) < 15 {
		t.Errorf("%d options", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(string(reference), "| `"+row[1]+"` | `"+row[2]+"` |") {
			t.Errorf("the reference does not have %s with %s", row[1], row[2])
		}
	}
	w.person("ada").get("/dashboard/settings").is(200, "What is set elsewhere", "The operator of this purser sets").without("PURSER_MAX_PAYMENT", "Pause everything")
	viewer := w.person("vera")
	viewer.role = "viewer"
	viewer.get("/dashboard/settings").is(200, "PURSER_MAX_PAYMENT", "All keys pay").without("Pause everything")

	w.operates().post("/dashboard/pause", "reason", "leaked").to("/dashboard/")
	w.operates().get("/dashboard/settings").is(200, "Everything is paused since", "leaked", "Resume everything…")
}
