package cli

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// On a terminal a list is as wide as that, and nothing that names or counts is cut.
func TestColumnsFit(t *testing.T) {
	t.Parallel()
	long := "the facilitator says: insufficient funds for the transfer of the authorization"
	rows := [][]string{
		{"01a209ac-0c46-7d54-8036-f3867ab97d01", "2026-11-23T18:30:00Z", "settled", "0.02", "api.purser.test:8403", "research and development", "weather-report", "mpp-evm", "-"},
		{"01a209ac-0c46-7a85-b41c-9444acd21b8f", "2026-11-23T18:30:00Z", "unresolved", "0.001234", "a-long-name.api.example.com:8443", "01a209ac-0274-7af4-b648-4718cbe5da1f", "-", "eip3009", long},
		{"01a209ac-0c49-7a85-b41c-9444acd21b8f", "2024-11-23T18:30:00Z", "void", "12.5", "日本.example", "exec", "-", "permit2", long},
	}
	for _, width := range []int{0, 60, 80, 100, 160, 400} {
		var b strings.Builder
		c := &columns{Writer: &b, list: paymentColumns, width: width, now: time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)}
		for _, row := range rows {
			c.row(row...)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(); err != nil { // prints nothing
			t.Fatal(err)
		}
		out := b.String()
		if strings.Count(out, "\n") != 4 {
			t.Errorf("%d: %s", width, out)
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(line) - 1; width > 0 && n > width {
				t.Errorf("%d: %d characters: %s", width, n, line)
			}
		}
		want := []string{"PAYMENT", "REASON", "0.001234", "unresolved"}
		switch {
		case width == 0:
			want = append(want, rows[0][0], "2026-11-23T18:30:00Z", long, rows[1][5])
		case width >= 100:
			want = append(want, "TASK", "KEY", "01a209ac-0c46-7d ", "01a209ac-0c46-7a ", "01a209ac-0c49-7a ", "Nov 23 18:30", "Nov 23  2024")
		}
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%d: %q is missing in\n%s", width, part, out)
			}
		}
	}
}

func TestTellApart(t *testing.T) {
	t.Parallel()
	same := "01a209ac-0c46-7d54-8036-f3867ab97d01"
	for want, ids := range map[int][]string{
		shortID: {same, same, "-", "none", "exec"},
		16:      {same, "01a209ac-0c46-7a85-b41c-9444acd21b8f"},
		17:      {"org_" + same, "org_01a209ac-0c46-7d85-b41c-9444acd21b8f"},
	} {
		if got := tellApart(ids); got != want {
			t.Errorf("%q: %d, want %d", ids, got, want)
		}
	}
	if got := beginning("org_"+same, shortID); got != "org_01a209ac-0c46" {
		t.Error(got)
	}
}

func TestChangedInWords(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		``: "-", `{}`: "-", `{"plan":"FREE"}`: "plan FREE", `{"organization_id":""}`: "organization -",
		`{"label":"First key","policy":null}`: "label First key, policy -",
		`{"policy":{"daily_budget":"5000000","max_payment":"off","doors":["proxy","api"],"hosts":{"a.example":{"daily_budget":"10000"}},"per_minute":6}}`: "policy (daily 5, doors proxy api, hosts (a.example (daily 0.01)), max off, per-minute 6)",
	} {
		if got := changed([]byte(object)); got != want {
			t.Errorf("%s: %q, want %q", object, got, want)
		}
	}
}
