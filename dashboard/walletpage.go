package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// walletHead holds what every page about one wallet shows.
type walletHead struct {
	ID, Name, Path, Address, Network, NetworkName, Tokens, ProviderID string
	KeyName, KeyPath                                                  string
	Created                                                           moment
	PlayMoney                                                         bool
	GasByToken                                                        bool // the wallet pays gas in the token, where it pays any
	May                                                               permits
}

func (d *dashboard) walletHead(v visit, w pay.Wallet, k pay.Key) walletHead {
	p := walletHead{
		ID: w.ID, Name: walletName(w), Path: walletPath(w.ID), Network: w.Network, NetworkName: networkName(w.Network), ProviderID: cut(w.ProviderID, maxTitle),
		KeyName: label(k), KeyPath: keyPath(k.ID), Created: momentOf(w.Created, inText), PlayMoney: d.PlayMoney, May: v.permits(),
	}
	n, _ := x402.NetworkByWire(w.Network)
	p.Tokens, p.GasByToken = cmp.Or(n.Tokens(), currency), n.Rail != 0
	if w.Address != nil {
		p.Address = w.Address.String()
	}
	return p
}

type walletPage struct {
	walletHead
	QR      *code
	Copy    command
	Fund    string // the amount of the code, as typed
	FundSum *amount
	// FundToken is the token that the code asks for.
	FundToken string
	FundFail  *wrong
	Request   command  // the code's text, if it has an amount
	Balance   *balance // nil: loaded later
	Spend     walletSpend
	Drawing   []link
	Others    int       // keys that draw from it and that the visitor does not see
	Deposits  *deposits // nil: not asked for
	Withdraw  string    // path of the form; "" if the visitor may not
	WhyNot    string    // why it cannot be used
}

// walletSpend tells what left a wallet.
type walletSpend struct{ Today, Week, Month, Withdrawn spent }

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

// wallet serves GET /dashboard/wallets/{id}. With ?balance=now or ?deposits=now it waits for the chain,
// for browsers without scripts. ?fund= is the amount of the code for wallet apps.
func (d *dashboard) wallet(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	p := walletPage{walletHead: d.walletHead(v, w, k)}
	a := answer{page: "wallet", title: "Wallet of " + p.KeyName, nav: "/dashboard/wallets", htmx: true}
	asked := r.URL.Query()
	if w.Address != nil {
		p.Copy = command{ID: "address", Text: p.Address, What: "the address"}
		p.fund(w, strings.TrimSpace(asked.Get("fund")))
		if p.FundFail != nil {
			a.status = http.StatusUnprocessableEntity
		}
	}
	all, err := d.Books.WalletSpend(r.Context(), []string{w.ID})
	if err != nil {
		return answer{}, err
	}
	s := all[w.ID]
	p.Spend = walletSpend{spentOf(s.Today), spentOf(s.Week), spentOf(s.Month), spentOf(s.Withdrawn)}
	if err := d.drawing(r.Context(), v, w, k, &p); err != nil {
		return answer{}, err
	}
	if v.permits().Move && (v.operator() || !k.Operator) {
		if p.Withdraw, p.WhyNot = walletPath(w.ID)+"/withdraw", d.cannotSign(w); p.WhyNot != "" {
			p.Withdraw = ""
		}
	}
	if asked.Get("balance") == "now" {
		b, err := d.balanceOf(r.Context(), w, v.now, balanceWait)
		if err != nil {
			return answer{}, err
		}
		p.Balance = &b
	}
	if asked.Get("deposits") == "now" {
		p.Deposits = new(d.depositsOf(r.Context(), v, w))
	}
	a.body = p
	return a, nil
}

// fund makes the code for wallet apps: the plain address, which every app reads, or with an amount a
// request by EIP-681, which some do not know.
func (p *walletPage) fund(w pay.Wallet, typed string) {
	p.Fund = cut(typed, 40)
	if typed == "" {
		p.QR = qrCode(p.Address)
		return
	}
	n, known := x402.NetworkByWire(w.Network)
	amount, err := money.ParseUnits(typed, decimals)
	if err != nil || amount.IsZero() || !known {
		p.FundFail = &wrong{Field: "fund", Text: "Type an amount in USDC, such as 25 or 0.50."}
		p.QR = qrCode(p.Address)
		return
	}
	text := transferRequest(n, *w.Address, amount)
	p.QR, p.FundSum = qrCode(text), new(amountOf(amount, false, currency))
	p.FundToken = n.Assets[0].Symbol
	p.Request = command{ID: "request", Text: text, What: "the payment request"}
}

// drawing lists the keys that draw from a wallet: its own, and those that it is lent to.
func (d *dashboard) drawing(ctx context.Context, v visit, w pay.Wallet, own pay.Key, p *walletPage) error {
	ids, err := d.Books.WalletKeys(ctx, w.ID, "", maxDrawing)
	if err != nil {
		return err
	}
	add := func(k pay.Key) {
		name := label(k)
		switch {
		case k.Revoked():
			name += " (revoked)"
		case k.Paused != nil:
			name += " (paused)"
		}
		p.Drawing = append(p.Drawing, link{name, keyPath(k.ID)})
	}
	add(own)
	for _, id := range ids {
		k, err := d.Books.KeyIn(ctx, v.scope(), id)
		switch {
		case errors.Is(err, pay.ErrKeyNotFound):
			p.Others++
		case err != nil:
			return err
		case len(p.Drawing) == pageRows:
			p.Others++
		default:
			add(k)
		}
	}
	return nil
}

// balance serves GET /dashboard/wallets/{id}/balance, which pages load by themselves.
func (d *dashboard) balance(r *http.Request, v visit, w pay.Wallet, _ pay.Key) (answer, error) {
	if r.Header.Get("HX-Request") != "true" {
		return answer{redirect: walletPath(w.ID) + "?balance=now"}, nil
	}
	b, err := d.balanceOf(r.Context(), w, v.now, pageTime)
	if err != nil {
		return answer{}, err
	}
	if r.URL.Query().Get("large") != "" {
		return answer{page: "wallet", part: "balance-large", body: b}, nil
	}
	return answer{page: "wallets", part: "balance", body: b}, nil
}

// balance holds a wallet's balance, or why it is unknown.
type balance struct {
	Known  bool
	Amount amount
	// Free can be used by payments and withdrawals, and is nil if that is all. Reserved is kept for open
	// payments.
	Free, Reserved *amount
	Low            *amount // the mark that the balance is below
	Lasts          string
	Why            string
	Lasting        string // Lasts, as a sentence
	When           moment
	empty          bool
}

// balanceOf asks the chain for a wallet's balance. Its errors are of the store.
func (d *dashboard) balanceOf(ctx context.Context, w pay.Wallet, now time.Time, wait time.Duration) (balance, error) {
	all, err := d.Books.WalletSpend(ctx, []string{w.ID})
	if err != nil {
		return balance{}, err
	}
	reserved, err := d.Payer.WalletOpen(ctx, w) // before the balance: what settles meanwhile counts twice
	if err != nil {
		return balance{}, err
	}
	asking, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	have, err := d.Payer.WalletBalance(asking, w)
	switch {
	case err == nil:
		b := balance{Known: true, Amount: amountOf(have, false, currency), When: momentOf(now, "15:04:05 UTC"), empty: have.IsZero()}
		if !reserved.IsZero() {
			free, under := have.Sub(reserved)
			if under {
				free = money.Amount{}
			}
			b.Free, b.Reserved = new(amountOf(free, false, currency)), new(amountOf(reserved, false, currency))
		}
		if d.LowBalance != nil && have.Cmp(*d.LowBalance) < 0 {
			b.Low = new(amountOf(*d.LowBalance, false, currency))
		}
		b.Lasts = runwayText(have, all[w.ID].Week, books.CompleteDays(w, now))
		switch b.Lasting = sentence(b.Lasts); {
		case strings.HasPrefix(b.Lasts, "lasts"):
			b.Lasting = sentence(b.Lasts + " at the pace of the last 7 complete days")
		case b.Lasts == tooNew:
			b.Lasting = "After the first complete day, it says here how long the balance lasts."
		}
		return b, nil
	case errors.Is(err, pay.ErrNoAddress):
		return balance{Why: "This wallet has no address.", empty: true}, nil
	case errors.Is(err, pay.ErrNoChain):
		return balance{Why: "purser has no connection to this chain. Its operator sets " + d.Payer.RPCSetting(w.Network) + ", and balances appear here."}, nil
	}
	d.Logger.Warn("balance not known", "wallet", w.ID, "error", err)
	return balance{Why: "The chain's RPC does not answer at the moment. The wallet is not affected: try again soon."}, nil
}
