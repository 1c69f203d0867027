package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
)

// adminWallet is a wallet as the admin endpoint shows it.
type adminWallet struct {
	ID      string `json:"id"`
	KeyID   string `json:"key_id"`
	Network string `json:"network"`
	// Address is nil without a wallet provider.
	Address *string `json:"address"`
	// Balance is in the smallest unit of the network's USDC; nil when it is not known, and
	// Unknown says why then.
	Balance *string   `json:"balance"`
	Unknown string    `json:"balance_unknown,omitempty"`
	Created time.Time `json:"created_at"`
}

// adminWallets is a page of wallets, oldest first. Next is what after must be for the next
// page; empty on the last.
type adminWallets struct {
	Wallets []adminWallet `json:"wallets"`
	Next    string        `json:"next,omitempty"`
}

const (
	defaultWalletPage = 50
	maxWalletPage     = 100
	// balancesTime bounds the look at the balances of a page: the command waits little longer.
	balancesTime = askTime - time.Second
	// balancesAtOnce is how many of them the RPC is asked for at a time.
	balancesAtOnce = 8
)

// wallets lists those that are in use: GET /purser/wallets?key=&after=&limit=.
func (*adminAPI) wallets(w http.ResponseWriter, r *http.Request) error {
	asked := r.URL.Query()
	limit, err := pageLimit(asked, defaultWalletPage, maxWalletPage)
	if err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	var list []pay.Wallet
	var next string
	if id := asked.Get("key"); id != "" {
		list, next, err = t.walletsOf(r.Context(), id, asked.Get("after"), limit)
	} else {
		list, next, err = t.allWallets(r.Context(), asked.Get("after"), limit)
	}
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, adminWallets{Wallets: t.shownWallets(r.Context(), list), Next: next})
}

// walletsOf lists live wallets of a key; "exec" is the exec key's.
func (t *tenant) walletsOf(ctx context.Context, keyID, after string, limit int) (list []pay.Wallet, next string, err error) {
	k, err := t.find(ctx, keyID)
	if err != nil {
		return nil, "", err
	}
	all, err := t.payer.ListWallets(ctx, k)
	if err != nil {
		return nil, "", adminFailure(err)
	}
	for _, w := range all {
		if w.ID <= after {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].ID, nil
		}
		list = append(list, w)
	}
	return list, "", nil
}

// allWallets lists live wallets of all keys. A page may be short, or empty, and not the last:
// deleted wallets are read as well.
func (t *tenant) allWallets(ctx context.Context, after string, limit int) (list []pay.Wallet, next string, err error) {
	all, err := t.payer.AllWallets(ctx, after, limit+1)
	if err != nil {
		return nil, "", adminFailure(err)
	}
	if len(all) > limit {
		all = all[:limit]
		next = all[limit-1].ID
	}
	for _, w := range all {
		if w.Deleted == nil {
			list = append(list, w)
		}
	}
	return list, next, nil
}

// shownWallets are wallets with their balances, as far as the RPC tells them in time. Payments
// may wait for the same looks, so these do not end with a caller who leaves.
func (t *tenant) shownWallets(ctx context.Context, list []pay.Wallet) []adminWallet {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), balancesTime)
	defer cancel()
	shown := make([]adminWallet, len(list))
	var asking sync.WaitGroup
	room := make(turn, balancesAtOnce)
	for i, w := range list {
		if room.take(ctx) != nil {
			shown[i] = t.unaskedWallet(w, "the RPC did not answer in time")
			continue
		}
		asking.Go(func() {
			defer room.give()
			shown[i] = t.shownWallet(ctx, w)
		})
	}
	asking.Wait()
	return shown
}

func (*tenant) unaskedWallet(w pay.Wallet, why string) adminWallet {
	s := adminWallet{ID: w.ID, KeyID: w.KeyID, Network: w.Network, Unknown: why, Created: w.Created}
	if w.Address != nil {
		address := w.Address.String()
		s.Address = &address
	}
	return s
}

func (t *tenant) shownWallet(ctx context.Context, w pay.Wallet) adminWallet {
	have, err := t.payer.WalletBalanceNow(ctx, w)
	switch {
	case err == nil:
		s := t.unaskedWallet(w, "")
		text := have.String()
		s.Balance = &text
		return s
	case errors.Is(err, pay.ErrNoAddress):
		return t.unaskedWallet(w, "it has no address: no wallet provider is configured (PURSER_WALLETS)")
	case errors.Is(err, pay.ErrNoChain):
		return t.unaskedWallet(w, "no RPC of this network is configured (PURSER_RPC_URL)")
	}
	t.log.Warn("balance not known", "wallet", w.ID, "network", w.Network, "error", err)
	return t.unaskedWallet(w, "the RPC did not tell it; purser's log has the reason")
}

// newAdminWallet is the body of POST /purser/keys/{id}/wallets.
type newAdminWallet struct {
	// Network of the wallet. Default: the first one that is configured.
	Network string `json:"network"`
}

// createWallet makes another wallet for a key.
func (*adminAPI) createWallet(w http.ResponseWriter, r *http.Request) error {
	var want newAdminWallet
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	if want.Network, err = t.app.walletNetwork(want.Network); err != nil {
		return err
	}
	k, err := t.find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	made, err := t.payer.CreateWallet(r.Context(), k, want.Network)
	if err != nil {
		return adminFailure(err)
	}
	return writeBody(w, http.StatusCreated, t.shownWallets(r.Context(), []pay.Wallet{made})[0])
}
