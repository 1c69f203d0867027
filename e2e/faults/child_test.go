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

// childPatience is how long the program waits for its facilitator where that does not hang.
const childPatience = time.Minute

// childValidity is what sellers let payers take where nobody can turn the clock.
const childValidity = 20 * time.Second

// child is the real program, with the configuration that people start from, in a hostile world of its own.
type child struct {
	*process.Purser
	world  *hostile.World
	ground *ground
}

// startChild starts a purser that lives as long as the test, and waits for its facilitator for a while.
func startChild(t *testing.T, g *ground, facilitator time.Duration) *child {
	t.Helper()
	w, err := hostile.Start(context.Background(), hostile.Options{Chain: g.chain, Now: g.clock.now, Validity: childValidity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &child{world: w, ground: g, Purser: process.NewPurser(t, process.Program(t, process.Plain), filepath.Join(t.TempDir(), "data"),
		"PURSER_FACILITATOR_URL="+w.FacilitatorURL, "PURSER_FACILITATOR_TIMEOUT="+facilitator.String(), "PURSER_RPC_URL="+w.RPCURL)}
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
	// Recovery looks every few seconds, at a payment now and then; the last look is after its time has run out.
	process.Eventually(t, patience, func() string {
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

// Purser is killed at each turn of a payment that the outside can see, and started again; the customer asks again, with
// a key and without.
func TestKilledAtEachTurn(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	type turn struct {
		door        hostile.Door
		facilitator func(kill func()) hostile.FacilitatorFault
		seller      func(kill func()) hostile.SellerFault
		moved       bool // the money has moved by then
	}
	at := func(on string, moves bool) func(func()) hostile.FacilitatorFault {
		return func(kill func()) hostile.FacilitatorFault {
			return hostile.FacilitatorFault{On: on, Do: func(c *hostile.Call) {
				if moves {
					c.Serve()
				}
				kill()
				c.Reset()
			}}
		}
	}
	sold := func(on hostile.Step, moves bool) func(func()) hostile.SellerFault {
		return func(kill func()) hostile.SellerFault {
			return hostile.SellerFault{On: on, Do: func(v *hostile.Visit) {
				if moves {
					v.Settle()
				}
				kill()
				v.Reset()
			}}
		}
	}
	for name, c := range map[string]turn{
		"while it verifies":                         {door: hostile.PayerDoor, facilitator: at(hostile.Verify, false)},
		"while it settles, before the transfer":     {door: hostile.PayerDoor, facilitator: at(hostile.Settle, false)},
		"while it settles, after the transfer":      {door: hostile.PayerDoor, facilitator: at(hostile.Settle, true), moved: true},
		"when the customer has the payload":         {door: hostile.SellerDoor, seller: sold(hostile.Paid, false)},
		"when the seller has settled it":            {door: hostile.SellerDoor, seller: sold(hostile.Paid, true), moved: true},
		"while it asks for the price":               {door: hostile.ProxyDoor, seller: sold(hostile.Unpaid, false)},
		"when the payload is at the seller":         {door: hostile.ProxyDoor, seller: sold(hostile.Paid, false)},
		"when the payload is settled by the seller": {door: hostile.ProxyDoor, seller: sold(hostile.Paid, true), moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startChild(t, g, childPatience)
			var customers []*hostile.Customer
			for i, key := range []string{"the-one", ""} {
				customer, err := p.tryEnroll()
				if err != nil {
					t.Fatal(err)
				}
				customers = append(customers, customer)
				killed := make(chan struct{})
				kill := func() {
					p.Kill()
					close(killed)
				}
				if c.facilitator != nil {
					p.world.Facilitator.Meet(c.facilitator(kill))
				}
				if c.seller != nil {
					p.world.Seller.Meet(c.seller(kill))
				}
				buy := func() hostile.Result {
					return customer.Buy(bounded(t), p.world.SellerURL, c.door, hostile.Order{ID: 100 + uint64(i), Key: key})
				}
				if r := buy(); r.Done {
					t.Fatalf("answered %s", r)
				}
				select {
				case <-killed:
				case <-time.After(patience):
					t.Fatal("it did not get that far")
				}
				p.Start(t)
				for range 3 {
					if r := buy(); r.Done || key == "" && r.Told() {
						break
					}
				}
			}
			for _, customer := range customers {
				ledger := p.audit(t, customer, nil)
				if c.moved && len(ledger.Transfers) != 1 {
					t.Errorf("%d transfers", len(ledger.Transfers))
				}
			}
		})
	}
}

// Purser is killed at random under a load of customers at all doors, in a world that fails at random.
func TestKilledAtRandom(t *testing.T) {
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
