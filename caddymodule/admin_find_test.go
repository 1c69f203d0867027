package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// A key is found by its id before all, and by less only if that cannot be another one.
func TestFindKeys(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	made := func(label string) string {
		t.Helper()
		return mustCall(t, 201, "POST", s.url()+"/api-keys", "", fmt.Sprintf(`{"label":%q}`, label))["id"].(string)
	}
	first := made("research")
	find := func(name string) (int, string, string) {
		t.Helper()
		code, text := adminCall(t, socket, "GET", "/purser/keys/"+strings.NewReplacer(" ", "%20", "/", "%2F").Replace(name))
		if code != 200 {
			return code, "", text
		}
		return code, decode[adminapi.Key](t, text).ID, text
	}
	is := func(name, id string) {
		t.Helper()
		if code, got, text := find(name); code != 200 || got != id {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	not := func(name string, want int, parts ...string) {
		t.Helper()
		code, _, text := find(name)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q in %s", name, part, text)
			}
		}
		if code != want {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	is("research", first)
	is(first[:8], first)
	is(strings.ToUpper(first[:20]), first)
	not(first[:7], 404, first[:7])
	not("Research", 404)
	not("", 404)
	is("research", first)

	second := made("a/b c")
	is("a/b c", second)
	// Ids of one minute begin alike; these are of two at most.
	one, other := first, second
	if !strings.HasPrefix(other, one[:8]) {
		one, other = second, made("third")
	}
	not(one[:8], 409, one, other, "whole id")
	is(first[:len(first)-1], first)

	// A client labels a key with the id of another, with a part of it, or as another is.
	hostile := made(first)
	is(first, first)
	is(hostile, hostile)
	tail := made(first[:30])
	not(first[:30], 409, first, tail)
	copied := made("research")
	not("research", 409, first, copied)
	absent := "0199" + strings.Repeat("0", 4) + "-0000-7000-8000-000000000000"
	squatter := made(absent)
	not(absent, 404)
	is(squatter, squatter)
	// "exec" names the exec key, whichever key has that label.
	made("exec")
	not("exec", 404, "no exec key yet")

	// Everything that takes a key does so, and refuses before it does anything.
	for _, c := range []struct {
		args string
		want int
	}{
		{"limits research --max-payment 0.1", 1},
		{"limits nobody --max-payment 0.1", 1},
		{"spend --key research", 1},
		{"payments --key research", 1},
		{"wallets --key research", 1},
		{"wallets create --key research", 1},
		{"spend --key " + first[:35], 0},
		{"payments --key " + first[:35], 0},
		{"wallets --key " + first[:35], 0},
		{"wallets create --key " + first[:35], 0},
		{"limits " + first[:35] + " --max-payment 0.1", 0},
	} {
		o := clitest.Run(t, []string{"PURSER_ADMIN=unix/" + socket}, strings.Fields(c.args)...)
		if o.Status != c.want || c.want == 1 && (o.Stdout != "" || strings.Count(o.Stderr, "\n") != 1 || !strings.Contains(o.Stderr, "research") && !strings.Contains(o.Stderr, "nobody")) {
			t.Errorf("%s: %d, %q, %q", c.args, o.Status, o.Stdout, o.Stderr)
		}
	}
	for _, id := range []string{first, copied} {
		_, text := adminCall(t, socket, "GET", "/purser/keys/"+id)
		if limited := policyOf(t, text) != "null"; limited != (id == first) {
			t.Errorf("%s: %s", id, text)
		}
	}
}
