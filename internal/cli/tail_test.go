package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// Programs get an object on each line, whatever is in it.
func TestTailJSON(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	l := tailLines{w: &b, json: jsonForm{on: true}}
	events := []adminapi.TailEvent{{State: "declined", Detail: Hostile}, {State: "open", Amount: new("10000")}}
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	if err := l.print(events); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		var e adminapi.TailEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e.State+e.Detail)
	}
	if strings.Join(got, "|") != "declined"+Hostile+"|open" || Steers(b.String()) {
		t.Errorf("%q", b.String())
	}
}
