package mpp

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/figures"
	"github.com/purserpay/purser/e2e/internal/process"
)

// compare has the official client, as it is, and purser buy in the storms of the official seller.
var compare = flag.Bool("compare", false, "write the figures of the official client and of purser to e2e/bench/storms.json")

// counted has the official seller's counts.
type counted struct{ Credentials, Distinct, Settled, Answers int }

func (s *seller) count(t testing.TB) (n counted) {
	t.Helper()
	s.read(t, "/count", &n)
	return n
}

// orders tells how many credentials were settled for each path with its query.
func (s *seller) orders(t testing.TB) (n map[string]int) {
	t.Helper()
	s.read(t, "/orders", &n)
	return n
}

func (s *seller) read(t testing.TB, path string, into any) {
	t.Helper()
	got, err := process.Ask(t.Context(), direct, "GET", s.URL+path, "")
	if err == nil {
		err = got.Decode(200, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// way is one of the official seller's, with the rails that it takes.
type way struct {
	path, seller, rail string
	purchases, runs    int
}

const (
	takesEVM       = "MPP by evm"
	takesTempo     = "MPP by tempo"
	takesSponsored = "MPP by tempo, sponsored"
	takesBoth      = "x402, and MPP by evm and tempo"

	storms = "a storm"
	deaf   = "settles, and denies for ever"
	dead   = "never settles"
	denies = "settles, denies twice, delivers"
)

// ways lists what is compared. Chance decides in a storm, so a storm has several runs.
var ways = []way{
	{"/evm/storm", storms, takesEVM, crowd, 3},
	{"/tempo/storm", storms, takesTempo, crowd, 3},
	{"/sponsored/storm", storms, takesSponsored, crowd, 3},
	{"/both/storm", storms, takesBoth, crowd, 3},
	{"/evm/deaf", deaf, takesEVM, 1, 1},
	{"/tempo/deaf", deaf, takesTempo, 1, 1},
	{"/evm/dead", dead, takesEVM, 1, 1},
	{"/tempo/dead", dead, takesTempo, 1, 1},
	{"/evm/after/2", denies, takesEVM, 2, 1},
	{"/tempo/after/2", denies, takesTempo, 2, 1},
}

// TestComparison measures a row for each way and client. The seller serves one run at a time.
func TestComparison(t *testing.T) {
	if !*compare {
		t.Skip("run it with -compare")
	}
	s := env.seller(t, mppx)
	all := figures.Storms{Commit: figures.Commit(t.Context()), At: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), Load: figures.LoadAverage()}
	for _, w := range ways {
		for _, c := range []struct {
			name string
			buy  func([]purchase) ([]result, int)
		}{
			{"mppx 0.11.0", func(all []purchase) ([]result, int) {
				a := newAccount(t, true)
				got := clients[0].official(t, a, all)
				n, _ := env.moved(t, a.Address())
				return got, n
			}},
			{"purser", func(all []purchase) ([]result, int) {
				a := newAgent(t, env.purserOnTempo(t))
				a.joinTempo(t)
				for i := range all {
					all[i].url = named(t, all[i].url)
				}
				got := a.buy(t, clients[0], all)
				return got, a.debits(t)
			}},
		} {
			row := figures.Storm{Client: c.name, Seller: w.seller, Rail: w.rail, Purchases: w.purchases}
			for range w.runs {
				before := s.count(t)
				got, debits := c.buy(times(w.purchases, s.URL+w.path))
				row.Answers.Add(answers(got))
				row.Credentials.Add(s.count(t).Distinct - before.Distinct)
				row.Debits.Add(debits)
			}
			all.Rows = append(all.Rows, row)
			t.Logf("%+v", row)
		}
	}
	if err := all.Save(process.Root()); err != nil {
		t.Fatal(err)
	}
}
