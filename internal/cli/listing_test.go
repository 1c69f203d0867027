package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// A list of many pages is printed whole, and one that goes in circles is not followed.
func TestListingPages(t *testing.T) {
	t.Parallel()
	last := 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := len(r.URL.Query().Get("after"))
		next := fmt.Sprintf(`,"next":%q`, strings.Repeat("x", min(n+1, 5)))
		if n == last {
			next = ""
		}
		fmt.Fprintf(w, `{"things":[{"n":%d},{"n":%d}]%s}`, 2*n, 2*n+1, next)
	}))
	defer server.Close()
	client, err := testEnv().newAdminClient(strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	c := new(cobra.Command)
	c.SetContext(t.Context())
	c.SetErr(io.Discard)
	type thing struct{ N int }
	l := listing[thing]{
		page: 2, name: "things", cursor: "after", columns: []column{{head: "N"}}, fields: []string{"n"},
		cells: func(v thing) []string { return []string{fmt.Sprint(v.N)} }, values: func(v thing) []string { return []string{fmt.Sprint(v.N)} },
		members: func() map[string]any { return map[string]any{"more": 1} },
	}
	for form, want := range map[string]string{
		"":     "N\n0\n1\n2\n3\n4\n5\n6\n7\n",
		"csv":  "n\n0\n1\n2\n3\n4\n5\n6\n7\n",
		"json": `{"things":[{"n":0},{"n":1},{"n":2},{"n":3},{"n":4},{"n":5},{"n":6},{"n":7}],"more":1}`,
	} {
		var b strings.Builder
		c.SetOut(&b)
		a := &asking{Command: c, env: testEnv(), client: client, ask: url.Values{}, json: jsonForm{on: form == "json"}, csv: form == "csv"}
		if err := l.print(a); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if form == "json" {
			var whole any
			if err := json.Unmarshal([]byte(got), &whole); err != nil {
				t.Fatalf("%v: %s", err, got)
			}
			got = strings.NewReplacer("\n", "", " ", "").Replace(got)
		}
		if got != want {
			t.Errorf("%s: %q", form, got)
		}
	}
	last = 99
	c.SetOut(io.Discard)
	err = l.print(&asking{Command: c, env: testEnv(), client: client, ask: url.Values{}})
	if err == nil || !strings.Contains(err.Error(), "does not go on") {
		t.Errorf("a list in circles: %v", err)
	}
}

func TestReadDay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 1, 0, 0, 0, time.FixedZone("", 7200)) // the 21st in UTC
	for text, want := range map[string]string{
		"": "", "all": "", "0d": "2026-11-21", "7d": "2026-11-14", "2026-11-01": "2026-11-01",
		"-1d": "!", "d": "!", "2026-13-01": "!", "7": "!", "99999999d": "!",
	} {
		got, err := readDay(text, now)
		if (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
