package faults

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/ledger"
)

// Without an RPC, a payment without a known outcome becomes unresolved, and a claimed settlement
// counts as settled. A repeat does not pay again. Once there is an RPC, all outcomes are found.
func TestAnRPCThatComesLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		door        hostile.Door
		facilitator []hostile.FacilitatorFault
		seller      []hostile.SellerFault
		without     string // how the payment ends without an RPC
		with        string // and with one
	}{
		"paid, and the answer lost": {
			hostile.PayerDoor, []hostile.FacilitatorFault{hostile.ResetAfter}, nil, "open, unresolved", "settled",
		},
		"not paid, and the answer lost": {
			hostile.PayerDoor, []hostile.FacilitatorFault{hostile.ResetBefore}, nil, "open, unresolved", "void",
		},
		"paid, and called a duplicate": {
			hostile.PayerDoor, []hostile.FacilitatorFault{hostile.SaysDuplicate}, nil, "settled", "settled",
		},
		"not paid, and called a duplicate": {
			hostile.PayerDoor, []hostile.FacilitatorFault{hostile.SaysDuplicateBefore}, nil, "settled", "settled, disputed",
		},
		"claimed by the facilitator": {
			hostile.PayerDoor, []hostile.FacilitatorFault{hostile.InventsSuccess}, nil, "settled", "settled, disputed",
		},
		"taken by a seller that hangs up": {
			hostile.ProxyDoor, nil, []hostile.SellerFault{hostile.HangsUpAfter}, "open, unresolved", "settled",
		},
		"taken by a seller that answers 500": {
			hostile.SellerDoor, nil, []hostile.SellerFault{hostile.BrokenAfter}, "open, unresolved", "settled",
		},
		"not taken by a seller that is broken": {
			hostile.ProxyDoor, nil, []hostile.SellerFault{hostile.BrokenBefore}, "open, unresolved", "void",
		},
		"claimed by the seller": {
			hostile.ProxyDoor, nil, []hostile.SellerFault{hostile.InventsReceipt}, "settled", "settled, disputed",
		},
		"taken for another amount": {
			hostile.SellerDoor, nil, []hostile.SellerFault{hostile.SmallerAmount}, "open, unresolved", "settled",
		},
		"refused by the facilitator before it leaves": {
			hostile.ProxyDoor, []hostile.FacilitatorFault{hostile.VerifyRefuses}, nil, "open, refused", "void",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := install(t, newGround(t), func(in *installation) { in.noRPC = true })
			customer := in.enroll(t)
			in.world.Facilitator.Meet(c.facilitator...)
			in.world.Seller.Meet(c.seller...)
			buy := func() {
				customer.Buy(bounded(t), in.world.SellerURL, c.door, hostile.Order{ID: 100, Key: "a"})
			}
			ends := func(want string) {
				t.Helper()
				books, _ := in.account(t, customer)
				if len(books.Payments) != 1 || books.Payments[0].Label() != want {
					t.Errorf("want %q, got %+v", want, books.Payments)
				}
			}
			buy()
			in.quiet(t, customer)
			in.ground.pass(t, untilExpired)
			in.recover(t)
			ends(c.without)
			if c.without != "open, refused" { // which is as good as void
				buy()
				in.quiet(t, customer)
			}
			in.stop(t)
			in.noRPC = false
			in.start(t)
			in.ground.pass(t, pay.RetainPayload+time.Hour) // without an RPC there was no reason to look again soon
			in.recover(t)
			in.settle(t, customer)
			ends(c.with)
			in.audit(t, customer)
		})
	}
}

// An RPC that is behind, or is told to forget, never makes an authorization look unused that has been used, however
// often recovery looks while the authorization's time runs out.
func TestAnRPCThatIsBehindWhileTimeRunsOut(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	in := install(t, g)
	customer := in.enroll(t)
	in.world.Facilitator.Meet(hostile.ResetAfter)
	customer.Buy(bounded(t), in.world.SellerURL, hostile.PayerDoor, hostile.Order{ID: 100, Key: "a"})
	in.quiet(t, customer)
	for behind := uint64(64); behind > 0; behind /= 2 {
		in.world.RPC.Show(hostile.View{Behind: behind})
		g.pass(t, untilDue)
		in.recover(t)
		books, _ := in.account(t, customer)
		if books.Payments[0].State == "void" {
			t.Fatalf("void with an RPC %d blocks behind", behind)
		}
	}
	in.settle(t, customer)
	in.audit(t, customer)
}

// The RPC leads to another chain from one call to the next, as when a name is given to another machine: a chain with
// the same id and token, but not the one that the store knows. Evidence from it counts for nothing.
func TestAnRPCThatLeadsToAnotherChain(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	other, err := ledger.Start(context.Background(), ledger.Options{Now: func() time.Time { return g.clock.Now().Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	in := install(t, g)
	customer := in.enroll(t)
	process.Eventually(t, patience, func() string { // from here on the store knows its chain
		if h := in.payer.Health(bounded(t)); !h.RPC.OK {
			return h.RPC.Err.Error()
		}
		return ""
	})
	in.world.Facilitator.Meet(hostile.ResetAfter)
	buy := func() hostile.Result {
		return customer.Buy(bounded(t), in.world.SellerURL, hostile.PayerDoor, hostile.Order{ID: 100, Key: "a"})
	}
	buy()
	in.quiet(t, customer)
	g.clock.Forward(t, 25*time.Second) // recovery's first look is due, and the chain was checked less than a minute ago
	in.world.RPC.Lead(other.RPCURL())
	in.recover(t)
	books, ledger := in.account(t, customer)
	if len(ledger.Transfers) != 1 || len(books.Payments) != 1 || books.Payments[0].State == "void" {
		t.Errorf("the money moved, and the books say %+v", books.Payments)
	}
	buy()
	in.world.RPC.Lead(g.chain.RPCURL())
	in.settle(t, customer)
	in.audit(t, customer)
}

// A facilitator mixes up the transactions of two payments. The chain puts that right, and each payment is found by its
// own transaction afterwards.
func TestMixedUpTransactionsAreFoundAgain(t *testing.T) {
	t.Parallel()
	in := install(t, newGround(t))
	customer := in.enroll(t)
	in.world.Facilitator.Meet(hostile.Swaps)
	var both sync.WaitGroup
	for order := uint64(100); order < 102; order++ {
		both.Go(func() {
			customer.Buy(bounded(t), in.world.SellerURL, hostile.PayerDoor, hostile.Order{ID: order})
		})
	}
	both.Wait()
	in.settle(t, customer)
	in.audit(t, customer)
}
