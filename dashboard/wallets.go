package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

func walletPath(id string) string { return "/dashboard/wallets/" + id }

// walletName returns a short form of the address.
func walletName(w pay.Wallet) string {
	if w.Address == nil {
		return "Wallet " + tail(w.ID)
	}
	return short(w.Address.String())
}

// walletLinks links wallets that a key may use. A wallet that is lent to the key may be another
// organization's, and has no page here.
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
	Operator    bool
	Wallets     []walletRow
	Used, Limit string // Used is "" for operators: counting all wallets takes too long
	Full        bool
	Upgrade     string
	PlayMoney   bool
	Low         *amount // below this a balance is low; nil: none is
	Keys        []option
	May         permits
	First, Next string // paths of other pages; "" if there are none
	Decimals    string
}

type walletRow struct {
	Name, Path, KeyName, KeyPath, Network string
	Address                               bool
	Week, Month                           amount // spent, without a symbol
}

// wallets serves GET /dashboard/wallets. ?key= selects the key for a new wallet, ?after= is the last
// wallet of the page before. Balances load one by one after the page, because the chain may be slow.
func (d *dashboard) wallets(r *http.Request, v visit) (answer, error) {
	after := r.URL.Query().Get("after")
	if after != "" && !isID(after) {
		return answer{}, errNotFound
	}
	list, next, err := d.Books.WalletPage(r.Context(), v.scope(), after, pageRows)
	if err != nil {
		return answer{}, err
	}
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	p := walletsPage{Operator: v.operator(), PlayMoney: d.PlayMoney, May: v.permits(), Keys: options(keys, r.URL.Query().Get("key"))}
	if !v.operator() {
		use, err := d.Books.UsageIn(r.Context(), v.scope())
		if err != nil {
			return answer{}, err
		}
		p.Used, p.Limit, p.Full, p.Upgrade = count(use.Wallets), d.limitOf(v, use.Plan.Wallets), use.Wallets >= use.Plan.Wallets, d.upgrade(v)
	}
	if d.LowBalance != nil {
		p.Low = new(amountOf(*d.LowBalance, false, currency))
	}
	p.First, p.Next = otherPages("/dashboard/wallets", after, next)
	ids := make([]string, len(list))
	for i, w := range list {
		ids[i] = w.ID
	}
	spent, err := d.Books.WalletSpend(r.Context(), ids)
	if err != nil {
		return answer{}, err
	}
	named := names(keys)
	var shown []amount
	for _, w := range list {
		row := walletRow{
			Name: walletName(w), Path: walletPath(w.ID), KeyName: named[w.KeyID], KeyPath: keyPath(w.KeyID), Network: w.Network,
			Address: w.Address != nil, Week: netOf(spent[w.ID].Week), Month: netOf(spent[w.ID].Month),
		}
		row.Week.Currency, row.Month.Currency = "", ""
		p.Wallets, shown = append(p.Wallets, row), append(shown, row.Week, row.Month)
	}
	p.Decimals = column(shown...)
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

// askDeleteWallet serves GET /dashboard/wallets/{id}/delete.
func (d *dashboard) askDeleteWallet(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	return d.deletePage(r, v, w, k, http.StatusOK, nil)
}

type deletePage struct {
	walletHead
	Balance        *balance
	Holds, Unknown bool
	Open           *amount // of open payments; nil: there are none
	Shared         int     // keys that draw from it beside its own
	Last           bool    // the key has no other wallet
	Typed          int     // characters of the address to type
	Wrong          *wrong
}

// deletePage returns the page that warns of what would be lost.
func (d *dashboard) deletePage(r *http.Request, v visit, w pay.Wallet, k pay.Key, status int, what *wrong) (answer, error) {
	p := deletePage{walletHead: d.walletHead(v, w, k)}
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
	lent, err := d.Books.WalletKeys(r.Context(), w.ID, "", maxDrawing)
	if err != nil {
		return answer{}, err
	}
	p.Shared = len(lent)
	b, err := d.balanceOf(r.Context(), w, v.now, balanceWait)
	if err != nil {
		return answer{}, err
	}
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
	b, err := d.balanceOf(r.Context(), w, v.now, balanceWait)
	if err != nil {
		return answer{}, err
	}
	if !b.empty {
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
