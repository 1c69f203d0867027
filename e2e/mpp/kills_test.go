package mpp

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/shop"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/mppshop"
	"github.com/purserpay/purser/x402"
)

var (
	runs = flag.Int("kills.runs", 1, "how many pursers are killed at random")
	seed = flag.Uint64("kills.seed", 0, "what chance begins with; 0 is another one each time")
)

// Shape of a run. Both chains go by the time of the machine, so that no clock is set forward.
const (
	// atOnce bounds the pursers that run at once: a start takes a second of a processor.
	atOnce = 4
	// kills is the number of times that a purser is killed.
	kills = 6
	// buyers is the number of agents, each of which buys at all sellers at once.
	buyers = 2
	// sellers is the number of sellers in a storm that each agent meets, and deafs that of those that never deliver.
	sellers, deafs = 4, 3
	// pace is the time from one order of an agent at a seller to its next.
	pace = 200 * time.Millisecond
	// finishTime bounds the repeats of a request, after the last kill too.
	finishTime = time.Minute
	// cutOff is the percentage of requests with a key that agents cut off. Without a key, an agent that leaves cannot know
	// whether it was answered.
	cutOff = 20
)

// Purser is killed at random while agents buy by x402 and MPP on Base, and on Tempo with a sponsor and without. They ask
// again for what they did not get. Some sellers settle and deliver nothing, or never settle. No order moves money twice.
// Whenever purser is dead, each transfer has its record. In the end the books equal both chains.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	turns := make(chan struct{}, atOnce)
	first := *seed
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	t.Logf("repeat with -kills.seed=%d", first)
	for n := range *runs {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			turns <- struct{}{}
			defer func() { <-turns }()
			killAtRandom(t, rand.New(rand.NewPCG(first, uint64(n))))
		})
	}
}

func killAtRandom(t *testing.T, luck *rand.Rand) {
	our, address := openShop(t, mppshop.Options{Validity: 15 * time.Second, Seed: luck.Uint64()})
	official := env.seller(t, mppx)
	at := [sellers]string{
		played(t, address, "both-storm"), played(t, address, "storm"),
		named(t, official.URL) + "/tempo/storm", named(t, official.URL) + "/sponsored/storm",
	}
	beyond := func(play, path string) string { return under(t, play, official.URL) + path } // at another host, because purser judges hosts
	hopeless := []string{
		played(t, address, "deaf"), beyond("deaf", "/tempo/deaf"), beyond("deaf", "/sponsored/deaf"),
		played(t, address, "dead"), beyond("dead", "/tempo/dead"), beyond("dead", "/sponsored/dead"),
	}
	p := env.purserAt(t, process.Failpoints, filepath.Join(t.TempDir(), "data"),
		append(env.onTempo(t), process.NewClock(t).Setting(), shop.MasterKeySetting())...)
	p.Start(t)
	m := &market{t: t, told: map[string]bool{}}
	for range buyers {
		a := newAgent(t, p)
		a.joinTempo(t)
		m.agents = append(m.agents, a)
	}
	run := fmt.Sprintf("run=%x&", luck.Uint64())
	var shops sync.WaitGroup
	defer func() {
		m.full.Store(true)
		shops.Wait()
	}()
	for i, a := range m.agents {
		for j, seller := range at {
			luck := rand.New(rand.NewPCG(luck.Uint64(), 0))
			shops.Go(func() {
				for n := 0; !m.full.Load(); n++ {
					m.order(a, fmt.Sprintf("%s?%sagent=%d&seller=%d&n=%d", seller, run, i, j, n), n%2 == 1, luck)
					time.Sleep(pace)
				}
			})
		}
		for j, seller := range hopeless {
			luck := rand.New(rand.NewPCG(luck.Uint64(), 0))
			shops.Go(func() { m.order(a, fmt.Sprintf("%s?%sagent=%d&hopeless=%d", seller, run, i, j), false, luck) })
		}
	}
	deaths := process.Deaths{Places: failpoint.Places(), Turns: 6, Passes: 200, Within: 2500 * time.Millisecond}
	var story []process.Death
	for len(story) < kills {
		d := deaths.Draw(luck)
		if len(story) == 0 {
			d.At = "" // it runs already
		} else {
			p.LaunchFor(t, d)
		}
		p.Die(t, d)
		story = append(story, d)
		m.requireRecords(p)
	}
	p.Start(t)
	m.full.Store(true)
	shops.Wait()
	m.audit(our, official, run)
	p.End(t)
	p.Check(t)
	if t.Failed() {
		t.Logf("killed at %v", story)
	}
}

// market has what agents were told.
type market struct {
	t      *testing.T
	agents []*agent
	full   atomic.Bool // no new orders

	mu   sync.Mutex
	told map[string]bool // orders that are done with, by query: whether there was an answer
}

// order asks for an order until the agent has an answer, or cannot get it. With an idempotency key it cuts some requests off.
func (m *market) order(a *agent, url string, keyed bool, luck *rand.Rand) {
	_, query, _ := strings.Cut(url, "?")
	var header []string
	if keyed {
		header = []string{"Idempotency-Key", strings.ReplaceAll(query, "&", "-")}
	}
	for ends := time.Now().Add(finishTime); time.Now().Before(ends); time.Sleep(100 * time.Millisecond) {
		patience := finishTime
		if keyed && luck.IntN(100) < cutOff {
			patience = time.Duration(luck.IntN(800)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		got, err := process.Ask(ctx, a.proxied(), "GET", url, "", header...)
		cancel()
		reason := got.Header.Get("Purser-Declined")
		switch {
		case err != nil:
			continue
		case got.Status == http.StatusOK, reason == "paid-not-delivered":
			m.mu.Lock()
			m.told[query] = got.Status == http.StatusOK
			m.mu.Unlock()
			return
		case strings.Contains(reason, "budget"), reason == "insufficient-funds":
			return
		case strings.Contains(url, "/dead?"): // where more requests would make more payments, once the chain shows the first one unused
			return
		}
	}
}

// requireRecords fails unless a dead purser has left a record of each transfer.
func (m *market) requireRecords(p *process.Purser) {
	m.t.Helper()
	moved := m.marks() // before the journal is read: a credential may still be settled meanwhile
	for _, row := range shop.FileJournal(m.t, p.File()) {
		if row.State != pay.Void {
			moved = slices.DeleteFunc(moved, func(n x402.Nonce) bool { return n == row.Authorization.Nonce })
		}
	}
	if len(moved) > 0 {
		m.t.Errorf("transfers without a record when purser died: %v", moved)
	}
}

// marks lists the nonces and memos with which money has left the agents' wallets.
func (m *market) marks() (all []x402.Nonce) {
	m.t.Helper()
	for _, a := range m.agents {
		used, err := env.Money.Chain.AuthorizationsUsed(m.t.Context(), common.Address(a.wallet.EVM()))
		if err != nil {
			m.t.Fatal(err)
		}
		for _, u := range used {
			all = append(all, x402.Nonce(u.Nonce))
		}
		moved, err := env.tempoChain(m.t).Transfers(m.t.Context(), common.Address(a.tempo.EVM()))
		if err != nil {
			m.t.Fatal(err)
		}
		for _, one := range moved {
			all = append(all, x402.Nonce(one.Memo))
		}
	}
	return all
}

// audit compares the books with both chains, and both with what the sellers have settled for each order of a run.
func (m *market) audit(our *mppshop.Shop, official *seller, run string) {
	m.t.Helper()
	debits := 0
	for _, a := range m.agents {
		a.requireEqual(m.t)
		debits += a.debits(m.t)
	}
	settled := official.orders(m.t)
	for order, n := range our.Orders() {
		settled[order] = n.Settlements
	}
	answers, undelivered := map[string]int{}, 0 // by path
	for order, times := range settled {
		path, query, _ := strings.Cut(order, "?")
		if !strings.HasPrefix(query, run) {
			continue
		}
		answered, told := m.told[query]
		if times > 1 || told && times != 1 || answered && strings.HasSuffix(path, "/deaf") {
			m.t.Errorf("%s was paid for %d times, and answered: %v", order, times, answered)
		}
		debits -= times
		if delete(m.told, query); answered {
			answers[path]++
		} else if told {
			undelivered++
		}
	}
	if debits != 0 || len(m.told) > 0 {
		m.t.Errorf("%d debits are of no order, and these answers of no payment: %v", debits, m.told)
	}
	if len(answers) < sellers || undelivered < deafs*len(m.agents) {
		m.t.Errorf("a seller has answered nothing, or agents were not told that it never will: %d", undelivered)
	}
	m.t.Logf("answers: %v", answers)
}
