package e2e

import (
	"fmt"
	"math/big"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/failpoint"
)

// Purser is killed at each place of a purchase through Permit2, and the agent repeats what brought no
// answer. Each purchase moves its price once, and the books say so.
func TestPermit2AtEveryFailpoint(t *testing.T) {
	t.Parallel()
	places := []string{
		failpoint.Decided, failpoint.Journaled, failpoint.Signed, failpoint.Departing, failpoint.ProxySending, failpoint.ProxyWritten,
		failpoint.ProxyAnswered, failpoint.ReceiptSeen, failpoint.ProxyFinishing, failpoint.Recording, failpoint.Recorded, failpoint.Releasing,
	}
	// Recovery books payments of upto, from what the chain tells.
	charged := []string{failpoint.ProxyAnswered, failpoint.RecoveryAcquired, failpoint.RecoveryLooked, failpoint.RecoveryRecorded}
	const charge = 321

	p := &purser{process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(t.TempDir(), "data"),
		"PURSER_FACILITATOR_URL="+env.facilitator, "PURSER_RPC_URL="+env.chain.RPCURL(), "PURSER_SCHEMES=exact,upto")}
	p.Config = env.config
	p.Start(t)
	payer := p.newPayer(t)
	payer.approve(t, "0.9")
	buy := func(place, path string) {
		t.Helper()
		p.End(t)
		url := env.v2.under(t, "http") + path
		var first process.Answer
		// Recovery may get there at once, by an earlier payment.
		p.KilledAt(t, place, func() { first, _ = process.Ask(t.Context(), payer.proxied(), "GET", url, "") })
		p.Start(t)
		if first.Status == http.StatusOK { // the next request would be another purchase
			return
		}
		got := send(t, payer.proxied(), "GET", url, "")
		switch declined := got.Header.Get("Purser-Declined"); {
		case got.Status == http.StatusOK, declined == "paid-not-delivered", declined == "paid-before", declined == "payment-open":
		default:
			t.Errorf("%s: the repeat got %d, %v", place, got.Status, got.Header)
		}
	}
	for i, place := range places {
		buy(place, "/permit2?n="+strconv.Itoa(i))
	}
	for i, place := range charged {
		buy(place, fmt.Sprintf("/upto?charge=%d&n=%d", charge, i))
	}
	process.Eventually(t, 150*time.Second, func() string {
		for _, one := range payer.payments(t, "?state=open") {
			return fmt.Sprintf("still open: %+v", one)
		}
		return ""
	})
	sums := map[string]int{}
	for _, transfer := range env.paid(t, payer.wallet) {
		sums["moved "+transfer.Value.String()]++
	}
	total := new(big.Int)
	for _, e := range payer.spend(t) {
		sums["booked "+e.Amount]++
		n, _ := new(big.Int).SetString(e.Amount, 10)
		total.Add(total, n)
	}
	for what, want := range map[string]int{
		"moved 10000": len(places), "booked 10000": len(places), "moved 321": len(charged), "booked 321": len(charged),
	} {
		if sums[what] != want {
			t.Errorf("%s: %d times, want %d", what, sums[what], want)
		}
	}
	env.requireBalance(t, payer.wallet, funds-total.Int64())
	p.End(t)
	p.Check(t)
}
