package hostile

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/sandbox/loopback"
	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Options configures a World. Chain is required. It stays the caller's, and worlds may share one.
type Options struct {
	Chain token.Chain
	// Now is the clock of facilitator and RPC. It must be the chain's clock. Default: time.Now.
	Now func() time.Time
	// Validity is the maxTimeoutSeconds of the seller's challenges. Default: 60 s.
	Validity time.Duration
}

// World holds a facilitator, a seller and an RPC that fail on command, and a thief. The caller
// configures purser with their URLs.
type World struct {
	Chain       token.Chain
	Facilitator *Facilitator
	Seller      *Seller
	RPC         *RPC
	Thief       *Thief
	// PayTo receives the seller's money.
	PayTo x402.Address

	FacilitatorURL, SellerURL, RPCURL string

	// Hung, when set, is called with every request that will never be answered. Its sender can then
	// give up early. Set it before the first request.
	Hung func(*http.Request)
	// HangUp ends a customer's request by calling leave, and returns once purser has noticed. Set it
	// before the first request. Default: a short wait after leave.
	HangUp func(ctx context.Context, leave func())

	servers []*loopback.Server
	cancel  context.CancelFunc
	met     atomic.Pointer[func()] // called at the next fault
}

// Start starts a world. The caller must call Close in any case.
func Start(ctx context.Context, o Options) (*World, error) {
	if o.Chain == nil {
		return nil, errors.New("a hostile world needs a chain")
	}
	if o.Validity == 0 {
		o.Validity = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &World{Chain: o.Chain, cancel: cancel, PayTo: x402.EVMAddress([20]byte(crypto.Keccak256([]byte("purser hostile seller"))[12:]))}
	ctx = context.WithValue(ctx, worldKey{}, w)
	w.HangUp = func(ctx context.Context, leave func()) {
		leave()
		pause(ctx, notice)
	}
	foreign, err := foreignTransaction(ctx, o.Chain)
	if err != nil {
		cancel()
		return nil, err
	}
	w.Facilitator = &Facilitator{
		script: script[Call]{met: w.announce}, honest: honest.NewFacilitator(o.Chain, o.Now), now: o.Now, foreign: foreign,
		swaps: make(chan exchange),
	}
	w.RPC = NewRPC(o.Chain.RPCURL())
	w.RPC.now = o.Now
	w.Thief = &Thief{}
	w.Seller = &Seller{
		script: script[Visit]{met: w.announce}, chain: o.Chain, payTo: w.PayTo, validity: o.Validity, foreign: foreign,
		drift: map[uint64]uint64{},
	}
	for _, one := range []struct {
		name    string
		handler http.Handler
		url     *string
	}{
		{"thief", w.Thief, &w.Seller.thief},
		{"facilitator", w.Facilitator, &w.FacilitatorURL},
		{"RPC", w.RPC, &w.RPCURL},
		{"seller", w.Seller, &w.SellerURL},
	} {
		s, err := loopback.Serve(ctx, loopback.Options{Name: one.name}, one.handler)
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.servers = append(w.servers, s)
		*one.url = s.URL()
	}
	return w, nil
}

// Close cuts off running requests. The chain stays.
func (w *World) Close() error {
	w.cancel()
	var errs []error
	for _, s := range w.servers {
		errs = append(errs, s.Close())
	}
	w.RPC.client.CloseIdleConnections()
	return errors.Join(errs...)
}

// Calm ends all faults. Postponed calls stay; see [World.Late].
func (w *World) Calm() {
	w.Facilitator.Meet()
	w.Seller.Meet()
	w.RPC.Show(View{})
}

// Late performs the calls that the parties have postponed.
func (w *World) Late(ctx context.Context) {
	w.Facilitator.Late(ctx)
	w.Seller.Late(ctx)
}

// Fund mints tokens for a wallet, in the token's smallest unit.
func (w *World) Fund(ctx context.Context, wallet x402.Address, amount money.Amount) error {
	return w.Chain.Fund(ctx, common.Address(wallet.EVM()), amount.Big())
}

func (w *World) announce() {
	if f := w.met.Swap(nil); f != nil {
		(*f)()
	}
}

// foreignTransaction returns a transfer on the chain without a payment: a mint for a stranger.
func foreignTransaction(ctx context.Context, chain token.Chain) (string, error) {
	stranger := common.Address(crypto.Keccak256([]byte("purser hostile stranger"))[12:])
	for {
		given, err := chain.Transfers(ctx, nil, &stranger, 0)
		if err != nil {
			return "", fmt.Errorf("look for a transfer: %w", err)
		}
		if len(given) > 0 {
			return given[0].Tx, nil
		}
		if err := chain.Fund(ctx, stranger, big.NewInt(1)); err != nil {
			return "", err
		}
	}
}
