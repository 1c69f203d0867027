package soak

import (
	"context"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/sandbox/hostile"
	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// totals holds the counts of the audit.
type totals struct {
	Payments, Settled, Void, Events, Transfers int
}

// audit compares the books of keys with the chain, once recovery is through.
func (l *load) audit(ctx context.Context, keys []key) (sum totals, findings []string) {
	for _, k := range keys {
		books, err := l.books(ctx, k)
		if err != nil {
			return sum, append(findings, fmt.Sprintf("the books of %s: %v", k.wallet, err))
		}
		ledger := l.world.account(k.wallet)
		for _, f := range hostile.Audit(books, ledger, nil) {
			if f.Rule != hostile.RuleOnce { // all that is sold has one price, which names orders elsewhere
				findings = append(findings, f.String())
			}
		}
		for _, p := range books.Payments {
			switch p.State {
			case "settled":
				sum.Settled++
			case "void":
				sum.Void++
			}
			if p.Has("disputed") || p.Has("unresolved") {
				findings = append(findings, fmt.Sprintf("payment %s is %s", p.ID, p.Label()))
			}
		}
		sum.Payments, sum.Events = sum.Payments+len(books.Payments), sum.Events+len(books.Events)
		sum.Transfers += len(ledger.Transfers)
	}
	return sum, findings[:min(len(findings), 50)]
}

// books reads the books of a key.
func (l *load) books(ctx context.Context, k key) (hostile.Books, error) {
	c, err := hostile.Deployment(ctx, l.purser.URL(""), k.secret)
	if err != nil {
		return hostile.Books{}, err
	}
	return hostile.ReadBooks(ctx, c)
}

// closed reports whether recovery is through: every settled payment was looked up on the chain, and none is open but those that
// were refused.
func (l *load) closed(t *testing.T) bool {
	t.Helper()
	for _, k := range l.keys {
		books, err := l.books(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range books.Payments {
			if p.State != "void" && !p.Has("confirmed") && !p.Has("refused") {
				return false
			}
		}
	}
	return true
}

// account returns the transfers and the balance of a wallet, which receives nothing but its first balance.
func (l *ledger) account(wallet x402.Address) hostile.Ledger {
	l.mu.RLock()
	defer l.mu.RUnlock()
	a := hostile.Ledger{Received: big.NewInt(funds), Balance: new(big.Int).SetUint64(l.balances[wallet])}
	for _, t := range l.transfers {
		if t.from == wallet {
			a.Transfers = append(a.Transfers, token.Transfer{
				From: common.Address(t.from.EVM()), To: common.Address(t.to.EVM()), Value: new(big.Int).SetUint64(t.value), Tx: t.tx(), Block: t.block,
			})
			a.Used = append(a.Used, token.UsedAuthorization{Nonce: t.nonce, Tx: t.tx()})
		}
	}
	return a
}
