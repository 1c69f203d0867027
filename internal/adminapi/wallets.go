package adminapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/pay"
)

// Wallet is a wallet as the admin endpoint shows it.
type Wallet struct {
	ID      string  `json:"id"`
	KeyID   string  `json:"key_id"`
	Network string  `json:"network"`
	Address *string `json:"address"` // nil without a wallet provider
	// Balance is in the smallest unit of USDC; nil when it is not known, and Unknown says why.
	Balance *string   `json:"balance"`
	Unknown string    `json:"balance_unknown,omitempty"`
	Created time.Time `json:"created_at"`
}

// Wallets is a page of wallets, oldest first.
type Wallets struct {
	Wallets []Wallet `json:"wallets"`
	Next    string   `json:"next,omitempty"`
}

const (
	// Rows of a page of wallets: unless a request says, and at most.
	DefaultWalletPage = 50
	maxWalletPage     = 100
	balancesTime      = 4 * time.Second // for a page; the command waits little longer
	balancesAtOnce    = 8               // questions to the RPC
)

// wallets lists those that are in use: GET /purser/wallets?key=&after=&limit=. A page may be short,
// or empty, and not the last: deleted wallets are read as well.
func (p *Purser) wallets(r *http.Request) (any, error) {
	asked := r.URL.Query()
	limit, err := pageLimit(asked, DefaultWalletPage, maxWalletPage)
	if err != nil {
		return nil, err
	}
	list, err := p.walletsOf(r.Context(), asked.Get("key"), asked.Get("after"), limit+1)
	if err != nil {
		return nil, err
	}
	list, next := cutPage(list, limit, func(w pay.Wallet) string { return w.ID })
	list = slices.DeleteFunc(list, func(w pay.Wallet) bool { return w.Deleted != nil })
	return Wallets{p.shownWallets(r.Context(), list), next}, nil
}

// walletsOf lists wallets behind the one with id after: those of a key, or without a key those of all
// keys, with deleted ones.
func (p *Purser) walletsOf(ctx context.Context, key, after string, limit int) ([]pay.Wallet, error) {
	if key == "" {
		return p.Books.AllWallets(ctx, after, limit)
	}
	k, err := p.find(ctx, key)
	if err != nil {
		return nil, err
	}
	list, err := p.Books.ListWallets(ctx, k)
	return slices.DeleteFunc(list, func(w pay.Wallet) bool { return w.ID <= after }), err
}

// shownWallets are wallets with their balances, as far as the RPC tells them in time. Payments
// may wait for the same looks, so these do not end with a caller who leaves.
func (p *Purser) shownWallets(ctx context.Context, list []pay.Wallet) []Wallet {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balancesTime)
	defer cancel()
	shown := make([]Wallet, len(list))
	var asking errgroup.Group
	asking.SetLimit(balancesAtOnce)
	for i, w := range list {
		asking.Go(func() error {
			if shown[i] = unaskedWallet(w, "the RPC did not answer in time"); ctx.Err() == nil {
				shown[i] = p.shownWallet(ctx, w)
			}
			return nil
		})
	}
	_ = asking.Wait()
	return shown
}

func unaskedWallet(w pay.Wallet, why string) Wallet {
	s := Wallet{ID: w.ID, KeyID: w.KeyID, Network: w.Network, Unknown: why, Created: w.Created}
	if w.Address != nil {
		s.Address = new(w.Address.String())
	}
	return s
}

func (p *Purser) shownWallet(ctx context.Context, w pay.Wallet) Wallet {
	have, err := p.Payer.WalletBalanceNow(ctx, w)
	switch {
	case err == nil:
		s := unaskedWallet(w, "")
		s.Balance = new(have.String())
		return s
	case errors.Is(err, pay.ErrNoAddress):
		return unaskedWallet(w, "it has no address: no wallet provider is configured (PURSER_WALLETS)")
	case errors.Is(err, pay.ErrNoChain):
		return unaskedWallet(w, "no RPC of this network is configured (PURSER_RPC_URL)")
	}
	p.Log.Warn("balance not known", "wallet", w.ID, "network", w.Network, "error", err)
	return unaskedWallet(w, "the RPC did not tell it; purser's log has the reason")
}

// NewWallet is the body of POST /purser/keys/{id}/wallets.
type NewWallet struct {
	Network string `json:"network"` // default: the first one that is configured
}

func (p *Purser) createWallet(r *http.Request, want NewWallet) (any, error) {
	network, err := p.walletNetwork(want.Network)
	if err != nil {
		return nil, err
	}
	k, err := p.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	made, err := p.Books.CreateWallet(r.Context(), k, network)
	if err != nil {
		return nil, err
	}
	return created{p.shownWallets(r.Context(), []pay.Wallet{made})[0]}, nil
}
