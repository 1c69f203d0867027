package mpp

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// Unmodified clients behind `purser exec` buy on Tempo from the official seller, which rotates its challenges before and
// after settling, and loses answers. The seller pays for gas, or the wallet does. Each purchase has one answer and one debit.
func TestPurserInTheStormOnTempo(t *testing.T) {
	t.Parallel()
	s := env.seller(t, mppx)
	for i, path := range []string{"/tempo/storm", "/sponsored/storm", "/both/storm"} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			a := newAgentOnTempo(t, env.purserOnTempo(t))
			got := a.buy(t, clients[i%len(clients)], times(crowd, named(t, s.URL)+path))
			a.requireDebits(t, got, crowd, crowd)
			a.requireFees(t, a.requireEqual(t), path != "/sponsored/storm")
		})
	}
}

// The same at the sidecar door, by a client that knows nothing but an address.
func TestSidecarInTheStormOnTempo(t *testing.T) {
	t.Parallel()
	s := env.seller(t, mppx)
	key := "pk_" + strings.Repeat("side", 8)
	p := env.purserAt(t, process.Plain, filepath.Join(t.TempDir(), "data"), "PURSER_NETWORKS=tempo", "PURSER_RPC_URL="+env.tempoChain(t).URL,
		"PURSER_KEY="+key, "PURSER_UPSTREAM="+s.URL, "PURSER_DAILY_BUDGET=1")
	p.Start(t)
	owner, err := hostile.Deployment(t.Context(), p.URL(""), key)
	if err == nil {
		err = env.tempoChain(t).Fund(t.Context(), common.Address(owner.Wallet.EVM()), funds)
	}
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{Purser: p, key: key, tempo: owner.Wallet}
	purchases := times(crowd/3, p.SidecarURL()+"/sponsored/storm")
	cmd := exec.Command(programFor(t, clients[0].script), here("clients", clients[0].script))
	cmd.Env = process.Environment(inEnvironment(t, purchases))
	a.requireDebits(t, finish(t, cmd, len(purchases)), len(purchases), len(purchases))
	a.requireFees(t, a.requireEqual(t), false)
}

// A seller that settles on Tempo and denies for ever gets each price once. A seller that never settles gets nothing, and what was
// reserved for it comes back once the chain shows that it cannot move any more.
func TestPurserAtDeafAndDeadSellersOnTempo(t *testing.T) {
	t.Parallel()
	s := env.seller(t, mppx)
	for i, path := range []string{"/tempo/deaf", "/sponsored/deaf", "/tempo/dead", "/sponsored/dead"} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			a := newAgentOnTempo(t, env.purserOnTempo(t))
			n, paid := crowd/3, 0
			if *all {
				n = crowd
			}
			deaf := strings.HasSuffix(path, "deaf")
			if deaf {
				paid = n
			}
			purchases := times(n, named(t, s.URL)+path)
			c := clients[i%len(clients)]
			got := a.buy(t, c, purchases)
			list := a.requireEqual(t)
			a.requireDebits(t, got, 0, paid)
			if len(list) != n {
				t.Errorf("%d payments", len(list))
			}
			if !deaf {
				a.requireBudget(t)
				return
			}
			a.requireFees(t, list, path == "/tempo/deaf")
			a.requireUndelivered(t)
			for i, r := range got {
				if r.Declined == "payment-open" { // the chain was slow, and purser says that: ask again
					r = a.buy(t, c, purchases[i:i+1])[0]
				}
				if r.Declined != "paid-not-delivered" {
					t.Errorf("%+v", r)
				}
			}
			// Purser knows by now that the seller delivers nothing.
			if r := a.ask(t, purchases[0].url); r.Status == http.StatusOK {
				t.Errorf("%+v", r)
			}
			a.requireDebits(t, got, 0, paid)
		})
	}
}

// requireDebits fails unless a storm had so many answers and debits.
func (a *agent) requireDebits(t testing.TB, got []result, answered, paid int) {
	t.Helper()
	if debits := a.debits(t); answers(got) != answered || debits != paid {
		t.Errorf("%d answers, %d debits\n%s", answers(got), debits, bad(got))
	}
}

// requireFees fails unless the books have a fee beside each price that the wallet has paid gas for, and no other.
func (a *agent) requireFees(t testing.TB, list []booked, fees bool) {
	t.Helper()
	for _, p := range list {
		if p.Network != "tempo" || p.settled() && (p.Charged != "" && p.Charged != p.Amount) != fees {
			t.Errorf("%+v", p)
		}
	}
}

// requireBudget fails unless all of the agent's budget is left.
func (a *agent) requireBudget(t testing.TB) {
	t.Helper()
	var list struct {
		Limits []struct{ Rule, Limit, Left string }
	}
	text := a.read(t, "/v1/limits?door=proxy", &list)
	i := slices.IndexFunc(list.Limits, func(l struct{ Rule, Limit, Left string }) bool { return l.Rule == "daily-budget" })
	if i < 0 || list.Limits[i].Left != list.Limits[i].Limit {
		t.Errorf("the budget: %s", text)
	}
}
