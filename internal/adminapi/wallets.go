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
	ID    string `json:"id"`
	KeyID string `json:"key_id"`
	// KeyLabel is that of the key, in lists.
	KeyLabel string `json:"key_label,omitempty"`
	// Operator says, in lists, that the key is the operator's own. Others spend from other wallets, and choose the
	// labels of their keys.
	Operator bool    `json:"operator,omitempty"`
	Network  string  `json:"network"`
	Address  *string `json:"address"` // nil without a wallet provider
	// Balance is in the smallest unit of USDC; nil when it is not known, and Unknown says why.
	Balance *string `json:"balance"`
	Unknown string  `json:"balance_unknown,omitempty"`
	// Code describes the code that the wallet has on the chain, as a delegation of EIP-7702 is; "": none is known.
	Code string `json:"code,omitempty"`
	// CodeAccepts: that code takes signatures of the wallet's key, so the wallet can pay.
	CodeAccepts bool `json:"code_accepts,omitempty"`
	// Open sums up its open payments, in the same unit: the chain may still take them.
	Open string `json:"open"`
	// Shared counts the keys that it is lent to, 1,000 at most. Deployment says that keys of the
	// operator draw from it unless they have another one.
	Shared     int       `json:"shared"`
	Deployment bool      `json:"deployment"`
	Created    time.Time `json:"created_at"`
	Deleted    time.Time `json:"deleted_at,omitzero"`
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

// wallets lists those that are in use, or those that were deleted:
// GET /purser/wallets?key=&deleted=true&after=&limit=. A page may be short, or empty, and not the last:
// the others are read as well. A key's wallets are in the order in which they pay.
func (p *Purser) wallets(r *http.Request) (any, error) {
	asked := r.URL.Query()
	limit, err := pageLimit(asked, DefaultWalletPage, maxWalletPage)
	if err != nil {
		return nil, err
	}
	deleted := asked.Get("deleted") == "true"
	list, err := p.walletsOf(r.Context(), asked.Get("key"), asked.Get("after"), limit+1, deleted)
	if err != nil {
		return nil, err
	}
	list, next := cutPage(list, limit, func(w pay.Wallet) string { return w.ID })
	list = slices.DeleteFunc(list, func(w pay.Wallet) bool { return (w.Deleted != nil) != deleted })
	shown := p.shownWallets(r.Context(), list)
	return Wallets{shown, next}, nameKeys(p, r.Context(), shown, func(w *Wallet) (string, *string) { return w.KeyID, &w.KeyLabel })
}

// walletsOf lists wallets behind the one with id after: those of a key, or without a key those of all
// keys, with deleted ones. For a key it lists the live ones that the key may use, or its own deleted ones.
func (p *Purser) walletsOf(ctx context.Context, key, after string, limit int, deleted bool) ([]pay.Wallet, error) {
	if key == "" {
		return p.Books.AllWallets(ctx, after, limit)
	}
	k, err := p.find(ctx, key)
	if err != nil {
		return nil, err
	}
	if deleted {
		list, err := p.Books.AllWallets(ctx, after, limit)
		for i := range list {
			if list[i].KeyID != k.ID {
				list[i].Deleted = nil // another key's is passed over
			}
		}
		return list, err
	}
	list, err := p.Books.ListWallets(ctx, k)
	i := slices.IndexFunc(list, func(w pay.Wallet) bool { return w.ID == after })
	return list[i+1:], err
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
			if code, err := p.Payer.WalletCode(ctx, w); err == nil {
				shown[i].Code, shown[i].CodeAccepts = code.Kind, code.Accepts
			}
			p.addUse(context.WithoutCancel(ctx), w, &shown[i])
			return nil
		})
	}
	_ = asking.Wait()
	return shown
}

// addUse adds what the store knows of a wallet's use. A figure that it cannot tell is as in a wallet without use.
func (p *Purser) addUse(ctx context.Context, w pay.Wallet, shown *Wallet) {
	sum, err := p.Payer.WalletOpen(ctx, w)
	keys, err2 := p.Books.WalletKeys(ctx, w.ID, "", searchPage)
	drawn, err3 := p.Books.DeploymentWallet(ctx, w.Network)
	if errors.Is(err3, pay.ErrWalletNotFound) {
		err3 = nil
	}
	k, err4 := p.Books.Key(ctx, w.KeyID)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		p.Log.Warn("use of a wallet not known", "wallet", w.ID, "error", err)
	}
	shown.Open, shown.Shared, shown.Deployment, shown.Operator = sum.String(), len(keys), drawn.ID == w.ID, k.Operator
}

func unaskedWallet(w pay.Wallet, why string) Wallet {
	s := Wallet{ID: w.ID, KeyID: w.KeyID, Network: w.Network, Unknown: why, Open: "0", Created: w.Created}
	if w.Deleted != nil {
		s.Deleted = *w.Deleted
	}
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
		return unaskedWallet(w, "no RPC of this network is configured ("+p.Payer.RPCSetting(w.Network)+")")
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
