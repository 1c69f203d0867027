package mpp

import (
	"flag"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// compare has the official client, as it is, and purser buy in the storms of the official seller. It prints a table.
var compare = flag.Bool("compare", false, "print the figures of the official client and of purser")

// counted has the official seller's counts.
type counted struct{ Credentials, Distinct, Settled, Answers int }

func (s *seller) count(t testing.TB) (n counted) {
	t.Helper()
	got, err := process.Ask(t.Context(), direct, "GET", s.URL+"/count", "")
	if err == nil {
		err = got.Decode(200, &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestComparison prints a row for each of the seller's ways: purchases, answers, credentials and debits. The seller serves one row at a time.
func TestComparison(t *testing.T) {
	if !*compare {
		t.Skip("run it with -compare")
	}
	s := env.seller(t, mppx)
	var table strings.Builder
	row := func(who, path string, n int, buy func([]purchase) ([]result, int)) {
		before := s.count(t)
		got, debits := buy(times(n, path))
		after := s.count(t)
		at, _ := url.Parse(path)
		fmt.Fprintf(&table, "| %s | %s | %d | %d | %d | %d |\n", who, at.Path, n, answers(got), after.Distinct-before.Distinct, debits)
	}
	for _, path := range []string{"/evm/storm", "/tempo/storm", "/sponsored/storm", "/both/storm"} {
		for range 3 {
			row("mppx 0.11.0", s.URL+path, crowd, func(all []purchase) ([]result, int) {
				a := newAccount(t, true)
				got := clients[0].official(t, a, all)
				n, _ := env.moved(t, a.Address())
				return got, n
			})
		}
	}
	for path, n := range map[string]int{"/evm/deaf": 1, "/tempo/deaf": 1, "/evm/dead": 1, "/evm/after/2": 2, "/tempo/after/2": 2, "/evm/twins": 10} {
		row("mppx 0.11.0", s.URL+path, n, func(all []purchase) ([]result, int) {
			a := newAccount(t, true)
			got := clients[0].official(t, a, all)
			n, _ := env.moved(t, a.Address())
			return got, n
		})
	}
	for path, n := range map[string]int{"/evm/storm": crowd, "/both/storm": crowd, "/evm/deaf": 1, "/evm/dead": 1, "/evm/after/2": 2} {
		row("purser", named(t, s.URL)+path, n, func(all []purchase) ([]result, int) {
			a := newAgent(t, env.sharedPurser(t))
			return a.buy(t, clients[0], all), env.debits(t, a.wallet)
		})
	}
	t.Logf("\n| client | seller | purchases | answers | credentials | debits |\n|---|---|---|---|---|---|\n%s", table.String())
}
