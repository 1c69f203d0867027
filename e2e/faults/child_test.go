package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/x402"
)

// childPatience bounds the program's wait for its facilitator, unless that hangs.
const childPatience = time.Minute

// child is the real program, with the configuration that people start from, in a hostile world of its own.
type child struct {
	*process.Purser
	world  *hostile.World
	ground *ground
}

// startChild starts a purser that lives as long as the test, and waits for its facilitator for a while.
func startChild(t *testing.T, g *ground, facilitator time.Duration) *child {
	t.Helper()
	w, err := hostile.Start(context.Background(), hostile.Options{Chain: g.chain, Now: g.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &child{world: w, ground: g, Purser: process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(t.TempDir(), "data"),
		g.clock.Setting(), "PURSER_FACILITATOR_URL="+w.FacilitatorURL, "PURSER_FACILITATOR_TIMEOUT="+facilitator.String(), "PURSER_RPC_URL="+w.RPCURL)}
	c.Start(t)
	return c
}

func (c *child) tryEnroll() (*hostile.Customer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	customer, err := hostile.Enroll(ctx, c.URL(""))
	if err != nil {
		return nil, err
	}
	return customer, c.world.Fund(ctx, customer.Wallet, x402.NewAmount(funds))
}

// audit waits until recovery has seen all there is to be seen, and compares.
func (c *child) audit(t *testing.T, customer *hostile.Customer, allowed map[uint64]int) hostile.Ledger {
	t.Helper()
	var books hostile.Books
	var ledger hostile.Ledger
	var found []hostile.Finding
	var passed time.Time
	process.Eventually(t, patience, func() string {
		if time.Since(passed) > 3*time.Second { // the last look at a payment is after its time has run out
			c.ground.pass(t, 5*time.Minute)
			passed = time.Now()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var errs [2]error
		books, errs[0] = hostile.ReadBooks(ctx, customer)
		ledger, errs[1] = hostile.ReadLedger(ctx, c.ground.chain, customer.Wallet)
		if err := errors.Join(errs[:]...); err != nil {
			return err.Error()
		}
		if found = hostile.Audit(books, ledger, allowed); len(found) > 0 {
			return fmt.Sprint(found)
		}
		return ""
	})
	return ledger
}

// Purser is killed at random under a load of customers at all doors, in a world that fails at random.
func TestKilledAmidFaults(t *testing.T) {
	t.Parallel()
	p := startChild(t, newGround(t), hostile.Patience)
	n := *seed
	if n == 0 {
		n = rand.Uint64() >> 16
	}
	t.Logf("repeat with -faults.seed=%d", n)
	tr := newTrouble(n)
	p.world.Facilitator.Choose, p.world.Seller.Choose = tr.facilitatorFault, tr.sellerFault
	var buyers []*hostile.Customer
	for range customers {
		c, err := p.tryEnroll()
		if err != nil {
			t.Fatal(err)
		}
		buyers = append(buyers, c)
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var shoppers sync.WaitGroup
	for i, c := range buyers {
		shoppers.Go(func() { tr.shop(ctx, p.world, c, i, true, nil) })
	}
	luck := rand.New(rand.NewPCG(n, 1))
	for range 3 * *runs {
		time.Sleep(time.Second + time.Duration(luck.IntN(2000))*time.Millisecond)
		p.Kill()
		p.Start(t)
	}
	time.Sleep(time.Second)
	tr.over.Store(true)
	end()
	shoppers.Wait()
	p.world.Calm()
	p.world.Late(bounded(t))
	transfers := 0
	for _, c := range buyers {
		transfers += len(p.audit(t, c, tr.allowed(nil)).Transfers)
	}
	if transfers == 0 {
		t.Error("nothing was paid")
	}
	t.Logf("%d transfers", transfers)
}
