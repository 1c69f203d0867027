package e2e

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// A purser that is killed in the middle of a load, twice, still has every payment in its books that the chain has, and
// no other.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	// Payments that were never sent are void once they expired, so they had better expire soon.
	s, err := env.startSeller("seller-v2.mjs", env.facilitator, map[string]string{"MAX_TIMEOUT": "20"})
	if err != nil {
		t.Fatal(err)
	}
	p := newPurser(t, env.facilitator)
	p.start(t)
	payers := make([]*payer, 4)
	for i := range payers {
		payers[i] = p.newPayer(t)
	}

	for round := range 2 {
		l := startLoad(t, payers, s, strconv.Itoa(round))
		process.Eventually(t, 60*time.Second, func() string {
			if n := l.paid.Load(); n < 20 {
				return fmt.Sprintf("only %d payments succeeded", n)
			}
			return ""
		})
		p.Kill()
		l.stop()
		p.start(t)
		for _, payer := range payers {
			t.Logf("round %d: %d payments settled, %d open", round, len(payer.payments(t, "?state=settled&limit=500")), len(payer.payments(t, "?state=open")))
		}
	}

	for i, payer := range payers {
		process.Eventually(t, 120*time.Second, func() string {
			for _, one := range payer.payments(t, "?limit=500") {
				if one.State == "open" {
					return fmt.Sprintf("still open: %+v", one)
				}
			}
			return ""
		})
		payer.requireBooks(t)
		// Life goes on.
		requirePaidAnswer(t, goAgent(t, payer, getPaid, s.url+getPaid.path+strconv.Itoa(i)), getPaid, payer)
	}
}

// requireBooks fails unless settled payments, spend events and the transfers on the chain are one and the same.
func (p *payer) requireBooks(t *testing.T) {
	t.Helper()
	open := map[string]bool{} // transfers that no payment claims yet
	moved := new(big.Int)
	for _, transfer := range env.paid(t, p.wallet) {
		open[transfer.Tx] = true
		moved.Add(moved, transfer.Value)
	}
	if len(open) == 0 {
		t.Errorf("%s paid nothing", p.wallet)
	}
	for _, one := range p.payments(t, "?state=settled&limit=500") {
		if !open[one.Transaction] {
			t.Errorf("settled, but not on the chain: %+v", one)
		}
		delete(open, one.Transaction)
	}
	for tx := range open {
		t.Errorf("on the chain, but no payment claims it: %s", tx)
	}
	if disputed := p.payments(t, "?state=disputed"); len(disputed) != 0 {
		t.Errorf("disputed: %+v", disputed)
	}
	spent := new(big.Int)
	for _, event := range p.spend(t) {
		amount, ok := new(big.Int).SetString(event.Amount, 10)
		if !ok {
			t.Fatalf("spend event %+v", event)
		}
		spent.Add(spent, amount)
	}
	if spent.Cmp(moved) != 0 {
		t.Errorf("the books say %s, the chain %s", spent, moved)
	}
	env.requireBalance(t, p.wallet, funds-moved.Int64())
}

// load is a number of clients that pay without pause at both doors and take no notice of errors.
type load struct {
	paid  atomic.Int64
	ended atomic.Bool
	wg    sync.WaitGroup
}

func startLoad(t *testing.T, payers []*payer, s seller, label string) *load {
	l := &load{}
	t.Cleanup(l.stop)
	for i, p := range payers {
		for door, pay := range []func(*testing.T, *payer, string) bool{payByProxy, payByREST} {
			l.wg.Go(func() {
				for n := 0; !l.ended.Load(); n++ {
					if pay(t, p, fmt.Sprintf("%s/paid?at=%s-%d-%d-%d", s.url, label, i, door, n)) {
						l.paid.Add(1)
					}
				}
			})
		}
	}
	return l
}

func (l *load) stop() {
	l.ended.Store(true)
	l.wg.Wait()
}

func payByProxy(t *testing.T, p *payer, url string) bool {
	got, err := trySend(t, p.proxied(), "GET", url, "")
	return err == nil && got.status == http.StatusOK
}

func payByREST(t *testing.T, p *payer, url string) bool {
	challenge, err := trySend(t, direct, "GET", url, "")
	if err != nil || challenge.status != http.StatusPaymentRequired {
		return false
	}
	got, err := trySend(t, direct, "POST", "http://"+p.host+"/v1/pay", payBody(t, challenge, url), "X-Api-Key", p.key)
	return err == nil && got.status == http.StatusOK
}
