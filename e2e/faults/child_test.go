package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// childPatience bounds the program's wait for its facilitator, unless that hangs.
const childPatience = time.Minute

// child is the real program, with the configuration that people start from, in a hostile world of its own.
type child struct {
	*process.Purser
	world  *hostile.World
	ground *ground
}

// startChild starts a purser that lives as long as the test, and waits for its facilitator for a while. settings are
// further variables.
func startChild(t *testing.T, g *ground, facilitator time.Duration, settings ...string) *child {
	t.Helper()
	w := process.StartHostile(t, g.chain, g.clock, 0)
	c := &child{world: w, ground: g, Purser: process.NewPurser(t, process.Program(t, process.Failpoints), filepath.Join(t.TempDir(), "data"),
		append(settings, g.clock.Setting(), "PURSER_FACILITATOR_URL="+w.FacilitatorURL, "PURSER_FACILITATOR_TIMEOUT="+facilitator.String(), "PURSER_RPC_URL="+w.RPCURL)...)}
	c.Start(t)
	return c
}

func (c *child) enroll(t *testing.T) *hostile.Customer {
	t.Helper()
	customer, err := enroll(c.world, c.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	return customer
}

// audit waits until recovery has seen all there is to be seen, and compares.
func (c *child) audit(t *testing.T, customer *hostile.Customer, allowed map[uint64]int) hostile.Ledger {
	t.Helper()
	var ledger hostile.Ledger
	c.ground.clock.Until(t, patience, func() string {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var books hostile.Books
		var err error
		if books, ledger, err = process.ReadAccount(ctx, customer, c.ground.chain); err != nil {
			return err.Error()
		}
		if found := hostile.Audit(books, ledger, allowed); len(found) > 0 {
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
		buyers = append(buyers, p.enroll(t))
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var shoppers sync.WaitGroup
	for i, c := range buyers {
		shoppers.Go(func() { tr.shop(ctx, p.world, c, i) })
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
		transfers += len(p.audit(t, c, nil).Transfers)
	}
	if transfers == 0 {
		t.Error("nothing was paid")
	}
	t.Logf("%d transfers", transfers)
}
