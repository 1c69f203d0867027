package pay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// purses is a chain on which the wallets of each network have what a test says.
type purses struct {
	pay.Chain

	mu   sync.Mutex
	have map[string]uint64 // by network
	down bool
}

func (c *purses) set(network string, amount uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.have[network] = amount
}

func (c *purses) Balance(_ context.Context, n x402.Network, _ x402.Asset, _ x402.Address) (money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return money.Amount{}, errors.New("rpc down")
	}
	return money.New(c.have[n.Name]), nil
}

// offersOn asks for amounts on networks, such as "base 10".
func offersOn(t testing.TB, list ...string) x402.Challenge {
	t.Helper()
	var accepts []string
	for _, one := range list {
		name, amount, _ := strings.Cut(one, " ")
		n, known := x402.NetworkByWire(name)
		if !known {
			accepts = append(accepts, fmt.Sprintf(`{"scheme":"exact","network":%q,"amount":%q,"asset":%q,"payTo":%q}`, name, amount, testSeller, testSeller))
			continue
		}
		a := n.Assets[0]
		extra, _ := json.Marshal(map[string]string{"name": a.Name, "version": a.Version})
		accepts = append(accepts, fmt.Sprintf(`{"scheme":"exact","network":%q,"amount":%q,"asset":%q,"payTo":%q,"maxTimeoutSeconds":60,"extra":%s}`,
			n.CAIP2(), amount, a.Address, testSeller, extra))
	}
	c, err := x402.DecodeHeader(`{"x402Version":2,"resource":{"url":"https://api.example.com/r"},"accepts":[` + strings.Join(accepts, ",") + `]}`)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoPurses is a world whose key has wallets on base and polygon.
func twoPurses(t testing.TB, base, polygon uint64) (*world, *purses) {
	t.Helper()
	chain := &purses{have: map[string]uint64{"base": base, "polygon": polygon}}
	w := newWorld(t, func(o *pay.Options) { chain.Chain, o.Chain, o.Networks = o.Chain, chain, x402.Networks() })
	must(w.books.CreateWallet(t.Context(), w.key, "polygon"))
	return w, chain
}

func TestFundedWalletPays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base, polygon uint64
		offers        []string
		down          bool
		network       string // "": declined for want of money
	}{
		"the first one has enough":                {10, 10, []string{"base 10", "polygon 10"}, false, "base"},
		"only the second one has":                 {9, 10, []string{"base 10", "polygon 10"}, false, "polygon"},
		"the seller's order counts":               {10, 10, []string{"polygon 10", "base 10"}, false, "polygon"},
		"the second one costs less":               {5, 10, []string{"base 10", "polygon 7"}, false, "polygon"},
		"the same balance is too little for both": {9, 10, []string{"base 10", "base 11"}, false, ""},
		"it has enough for the second offer":      {9, 10, []string{"base 10", "base 9"}, false, "base"},
		"a cheaper offer from the same balance":   {9, 10, []string{"base 10", "base 5", "polygon 11"}, false, "base"},
		"none has enough":                         {9, 9, []string{"base 10", "polygon 10"}, false, ""},
		"what is there is not known":              {0, 10, []string{"base 10", "polygon 10"}, true, "base"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, settlement := range []pay.Settlement{pay.SettleSeller, pay.SettlePayer} {
				w, chain := twoPurses(t, c.base, c.polygon)
				chain.down = c.down
				r := w.rest(settlement, "https://api.example.com/r", "1", "")
				r.Challenge = offersOn(t, c.offers...)
				q, err := w.payer.Quote(t.Context(), r)
				if err == nil {
					got := "none"
					for _, o := range q.Offers {
						if o.Refusal == nil {
							got = o.Network
						}
					}
					if got != q.Terms.Network || got != c.network {
						t.Errorf("the quote names %s and %s, want %s", q.Terms.Network, got, c.network)
					}
				}
				a, payErr := w.payer.Pay(t.Context(), r)
				if (err == nil) != (payErr == nil) {
					t.Errorf("quote: %v, payment: %v", err, payErr)
				}
				if payErr != nil {
					if failed, is := errors.AsType[*pay.FailedError](payErr); !is || !failed.Funds || c.network != "" {
						t.Errorf("refused: %v", payErr)
					}
					continue
				}
				if got := a.Payment().Terms.Network; got != c.network {
					t.Errorf("paid on %s, want %s", got, c.network)
				}
				a.Finish(true)
				w.checkBooks()
			}
		})
	}
}

// The same purchase is one payment, although the first wallet has too little for another one once it has paid.
func TestRepeatKeepsTheWalletThatHasPaid(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "once"} {
		for _, first := range []string{"base", "polygon"} {
			w, chain := twoPurses(t, 10, 10)
			if first == "polygon" {
				chain.set("base", 0)
			}
			r := w.rest(pay.SettleSeller, "https://api.example.com/r", "1", key)
			r.Challenge = offersOn(t, "base 10", "polygon 10")
			a := w.mustBegin(r)
			id := a.Payment().ID
			a.Finish(false)
			w.quiet()
			chain.set("base", 10)
			if first == "base" {
				chain.set("base", 0)
			}
			w.chain.advance(6 * time.Second) // what is remembered of balances is over
			again := w.mustBegin(r)
			if p := again.Payment(); p.ID != id || p.Terms.Network != first {
				t.Errorf("key %q, first on %s: the repeat got another payment, on %s", key, first, p.Terms.Network)
			}
			again.Finish(true)
			w.checkBooks()
		}
	}
}

// crowd is a store that journals the first payments only once so many have been chosen.
type crowd struct {
	pay.Store
	chosen *sync.WaitGroup
	first  atomic.Int32 // that are left
}

func (c *crowd) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	if c.first.Add(-1) >= 0 {
		c.chosen.Done()
		c.chosen.Wait()
	}
	return c.Store.Begin(ctx, b)
}

// Calls that come at once share what is in both wallets, although each has chosen the first one.
func TestParallelCallsUseBothWallets(t *testing.T) {
	t.Parallel()
	w, _ := twoPurses(t, 30, 20)
	store := &crowd{Store: w.opts.Store, chosen: new(sync.WaitGroup)}
	store.first.Store(8)
	store.chosen.Add(8)
	w.opts.Store = store
	w.restart()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		paid = map[string]int{}
	)
	for n := range 8 {
		all.Go(func() {
			r := w.proxied(fmt.Sprintf("https://api.example.com/%d", n), "1", "")
			r.Challenge = offersOn(t, "base 10", "polygon 10")
			a, err := w.payer.Open(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			if failed, is := errors.AsType[*pay.FailedError](err); is && failed.Funds {
				paid["none"]++
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			paid[a.Payment().Terms.Network]++
			a.Finish(true)
		})
	}
	all.Wait()
	if want := map[string]int{"base": 3, "polygon": 2, "none": 3}; !reflect.DeepEqual(paid, want) {
		t.Errorf("paid: %v, want %v", paid, want)
	}
	w.checkBooks()
}

func TestQuoteShowsAllOffers(t *testing.T) {
	t.Parallel()
	w, _ := twoPurses(t, 10, 100)
	r := w.rest(pay.SettleSeller, "https://api.example.com/r", "1", "")
	r.Challenge = offersOn(t, "near:mainnet 1", "arbitrum 1", "base 11", "polygon 60", "polygon 0", "polygon 12", "polygon 13")
	w.set(policy.Policy{MaxPayment: policy.CapOf(money.New(50))})
	r.Key = w.key
	q := must(w.payer.Quote(t.Context(), r))
	var got []string
	for _, o := range q.Offers {
		code := "paid"
		if o.Refusal != nil {
			if code = string(pay.Code(o.Refusal)); errors.Is(o.Refusal, pay.ErrBehind) {
				code = "behind"
			}
		}
		got = append(got, fmt.Sprint(o.Network, " ", o.Amount, " ", o.Symbol, " ", o.Words(), ": ", code))
	}
	want := []string{
		"near:mainnet 1  x402 by eip3009: no-wallet", "arbitrum 1  x402 by eip3009: no-wallet", "base 11 USDC x402 by eip3009: failed",
		"polygon 60 USDC x402 by eip3009: policy", "polygon 0 USDC x402 by eip3009: policy", "polygon 12 USDC x402 by eip3009: paid",
		"polygon 13 USDC x402 by eip3009: behind",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("offers:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// The refusal of the choice stands with its offer.
	r.MaxAmount = new(money.New(1))
	q, err := w.payer.Quote(t.Context(), r)
	if pay.Code(err) != pay.CodePolicy || len(q.Offers) != 7 {
		t.Fatalf("%v, %d offers", err, len(q.Offers))
	}
	for _, o := range q.Offers {
		if o.Refusal == nil {
			t.Errorf("%s %s would be paid", o.Network, o.Amount)
		}
	}
}
