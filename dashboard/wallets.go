package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

func walletPath(id string) string { return "/dashboard/wallets/" + id }

// walletName returns a short form of the address.
func walletName(w pay.Wallet) string {
	if w.Address == nil {
		return "Wallet " + tail(w.ID)
	}
	return short(w.Address.String())
}

// walletLinks links wallets that a key may use. One that is lent to it may be another organization's,
// and has no page here.
func (d *dashboard) walletLinks(ctx context.Context, v visit, k pay.Key, wallets []pay.Wallet) (list []link, err error) {
	for _, w := range wallets {
		path := walletPath(w.ID)
		if w.KeyID != k.ID {
			_, err := d.Books.KeyIn(ctx, v.scope(), w.KeyID)
			if errors.Is(err, pay.ErrKeyNotFound) {
				path = ""
			} else if err != nil {
				return nil, err
			}
		}
		list = append(list, link{walletName(w), path})
	}
	return list, nil
}

const (
	// balanceWait bounds the wait for a balance on the page that deletes a wallet.
	balanceWait = time.Second
	// confirmLength is the number of characters of the address that a visitor must type to delete a
	// wallet with money.
	confirmLength = 6
	// maxDrawing bounds the keys that are counted on it.
	maxDrawing = 1000
)

type walletsPage struct {
	Wallets     []walletRow
	Used, Limit string
	Full        bool
	Upgrade     string
	PlayMoney   bool
	Keys        []option
	May         permits
}

type walletRow struct {
	Name, Path, KeyName, KeyPath, Network string
	Address                               bool
	Created                               moment
}

// wallets serves GET /dashboard/wallets. ?key= selects the key for a new wallet. Balances load one
// by one after the page, because the chain may be slow.
func (d *dashboard) wallets(r *http.Request, v visit) (answer, error) {
	list, err := d.Books.WalletsIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	use, err := d.Books.UsageIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	p := walletsPage{
		Used: count(use.Wallets), Limit: d.limitOf(v, use.Plan.Wallets), Full: use.Wallets >= use.Plan.Wallets, Upgrade: d.upgrade(v),
		PlayMoney: d.PlayMoney, May: v.permits(), Keys: options(keys, r.URL.Query().Get("key")),
	}
	named := names(keys)
	for _, w := range list {
		p.Wallets = append(p.Wallets, walletRow{
			Name: walletName(w), Path: walletPath(w.ID), KeyName: named[w.KeyID], KeyPath: keyPath(w.KeyID), Network: w.Network,
			Address: w.Address != nil, Created: momentOf(w.Created, onlyDay),
		})
	}
	return answer{page: "wallets", title: "Wallets", nav: "/dashboard/wallets", body: p, htmx: true}, nil
}

// createWallet serves POST /dashboard/wallets.
func (d *dashboard) createWallet(r *http.Request, v visit) (answer, error) {
	k, err := d.Books.KeyIn(r.Context(), v.scope(), r.PostForm.Get("key"))
	if err != nil {
		return answer{}, err
	}
	w, err := d.Books.CreateWallet(r.Context(), k, r.PostForm.Get("network"))
	if err != nil {
		return answer{}, err
	}
	d.Logger.Info("wallet created", "wallet", w.ID, "key", k.ID, "by", v.Actor().String())
	return answer{redirect: walletPath(w.ID), say: saidWalletCreated}, nil
}

type walletPage struct {
	ID, Name, Path, Address, Network, NetworkName, ProviderID string
	KeyName, KeyPath                                          string
	Created                                                   moment
	QR                                                        *code
	Copy                                                      command
	PlayMoney                                                 bool
	May                                                       permits
	Balance                                                   *balance // nil: loaded later
	// Only for the page that deletes.
	Holds, Unknown bool
	Open           *amount // of open payments; nil: there are none
	Shared         int     // keys that draw from it beside its own
	Last           bool    // the key has no other wallet
	Typed          int     // characters of the address to type
	Wrong          *wrong
}

// ofWallet returns a view of the wallet in the request's path, and of its key. For a wallet of
// another organization it fails with pay.ErrWalletNotFound.
func (d *dashboard) ofWallet(serve func(*http.Request, visit, pay.Wallet, pay.Key) (answer, error)) view {
	return func(r *http.Request, v visit) (answer, error) {
		id, err := pathID(r)
		if err != nil {
			return answer{}, err
		}
		w, err := d.Books.WalletIn(r.Context(), v.scope(), id)
		if err != nil {
			return answer{}, err
		}
		k, err := d.Books.KeyIn(r.Context(), v.scope(), w.KeyID)
		if err != nil {
			return answer{}, err
		}
		return serve(r, v, w, k)
	}
}

func (d *dashboard) walletPage(v visit, w pay.Wallet, k pay.Key) walletPage {
	p := walletPage{
		ID: w.ID, Name: walletName(w), Path: walletPath(w.ID), Network: w.Network, NetworkName: networkName(w.Network), ProviderID: cut(w.ProviderID, maxTitle),
		KeyName: label(k), KeyPath: keyPath(k.ID), Created: momentOf(w.Created, inText), PlayMoney: d.PlayMoney, May: v.permits(),
	}
	if w.Address != nil {
		p.Address = w.Address.String()
		p.QR = qrCode(p.Address)
		p.Copy = command{ID: "address", Text: p.Address, What: "the address"}
	}
	return p
}

// networkName returns the network's name as wallet apps show it.
func networkName(n string) string {
	known, ok := x402.NetworkByWire(n)
	switch {
	case !ok:
		return n
	case n == "base-sepolia":
		return known.Title + ", a test network"
	}
	return known.Title
}

// wallet serves GET /dashboard/wallets/{id}. With ?balance=now it waits for the balance, for
// browsers without scripts.
func (d *dashboard) wallet(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	p := d.walletPage(v, w, k)
	if r.URL.Query().Get("balance") == "now" {
		b := d.balanceOf(r.Context(), w, v.now, balanceWait)
		p.Balance = &b
	}
	return answer{page: "wallet", title: "Wallet of " + p.KeyName, nav: "/dashboard/wallets", body: p, htmx: true}, nil
}

// balance serves GET /dashboard/wallets/{id}/balance, which pages load by themselves.
func (d *dashboard) balance(r *http.Request, v visit, w pay.Wallet, _ pay.Key) (answer, error) {
	if r.Header.Get("HX-Request") != "true" {
		return answer{redirect: walletPath(w.ID) + "?balance=now"}, nil
	}
	b := d.balanceOf(r.Context(), w, v.now, pageTime)
	if r.URL.Query().Get("large") != "" {
		return answer{page: "wallet", part: "balance-large", body: b}, nil
	}
	return answer{page: "wallets", part: "balance", body: b}, nil
}

// balance holds a wallet's balance, or why it is unknown.
type balance struct {
	Known  bool
	Amount amount
	Why    string
	When   moment
	empty  bool
}

func (d *dashboard) balanceOf(ctx context.Context, w pay.Wallet, now time.Time, wait time.Duration) balance {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	have, err := d.Payer.WalletBalance(ctx, w)
	switch {
	case err == nil:
		return balance{Known: true, Amount: amountOf(have, false, currency), When: momentOf(now, "15:04:05 UTC"), empty: have.IsZero()}
	case errors.Is(err, pay.ErrNoAddress):
		return balance{Why: "This wallet has no address.", empty: true}
	case errors.Is(err, pay.ErrNoChain):
		return balance{Why: "purser has no connection to this chain. Whoever runs it sets " + d.Payer.RPCSetting(w.Network) + ", and balances appear here."}
	}
	d.Logger.Warn("balance not known", "wallet", w.ID, "error", err)
	return balance{Why: "The chain's RPC does not answer at the moment. The wallet is not affected: try again soon."}
}

// askDeleteWallet serves GET /dashboard/wallets/{id}/delete.
func (d *dashboard) askDeleteWallet(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	return d.deletePage(r, v, w, k, http.StatusOK, nil)
}

// deletePage returns the page that warns of what would be lost.
func (d *dashboard) deletePage(r *http.Request, v visit, w pay.Wallet, k pay.Key, status int, what *wrong) (answer, error) {
	p := d.walletPage(v, w, k)
	others, err := d.Books.ListWallets(r.Context(), k)
	if err != nil {
		return answer{}, err
	}
	p.Last, p.Wrong = len(others) <= 1, what
	open, err := d.Payer.WalletOpen(r.Context(), w)
	if err != nil {
		return answer{}, err
	}
	if !open.IsZero() {
		p.Open = new(amountOf(open, false, currency))
	}
	drawing, err := d.Books.WalletKeys(r.Context(), w.ID, "", maxDrawing)
	if err != nil {
		return answer{}, err
	}
	p.Shared = len(drawing)
	b := d.balanceOf(r.Context(), w, v.now, balanceWait)
	p.Balance = &b
	p.Holds, p.Unknown = b.Known && !b.empty, !b.Known && !b.empty
	if p.Holds || p.Unknown {
		p.Typed = confirmLength
	}
	return answer{status: status, page: "wallet-delete", title: "Delete a wallet", nav: "/dashboard/wallets", body: p}, nil
}

// deleteWallet serves POST /dashboard/wallets/{id}/delete. It reads the balance again, because the
// wallet may have been funded since the page was made.
func (d *dashboard) deleteWallet(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	if b := d.balanceOf(r.Context(), w, v.now, balanceWait); !b.empty {
		address := w.Address.String()
		typed := strings.TrimSpace(r.PostForm.Get("confirm"))
		if !strings.EqualFold(typed, address) && !strings.EqualFold(typed, address[len(address)-confirmLength:]) {
			text := "These are not the last six characters of the address below. Nothing was deleted."
			if typed == "" {
				text = "Type them to say that you mean it. Nothing was deleted."
			}
			return d.deletePage(r, v, w, k, http.StatusUnprocessableEntity, &wrong{Field: "confirm", Text: text})
		}
	}
	if err := d.Books.DeleteWallet(r.Context(), k, w.ID); err != nil {
		return answer{}, err
	}
	d.Logger.Info("wallet deleted", "wallet", w.ID, "key", k.ID, "by", v.Actor().String())
	return answer{redirect: "/dashboard/wallets", say: saidWalletDeleted}, nil
}
