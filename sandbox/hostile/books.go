package hostile

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

// Payment is a payment in purser's answers.
type Payment struct {
	ID          string
	State       string
	Flags       []string
	Settlement  string
	Amount      string // in the token's smallest unit
	PayTo       string
	RequestURL  string `json:"request_url"`
	Transaction string
	ValidBefore time.Time
	Reason      string
}

// Has reports whether the payment has a flag.
func (p Payment) Has(flag string) bool { return slices.Contains(p.Flags, flag) }

// Label returns the state, and the flag that casts doubt on it.
func (p Payment) Label() string {
	if p.State == "void" { // a void payment cannot be doubted
		return p.State
	}
	for _, flag := range []string{"disputed", "refused", "unresolved"} {
		if p.Has(flag) {
			return p.State + ", " + flag
		}
	}
	return p.State
}

// SpendEvent is an entry in purser's books.
type SpendEvent struct {
	ID        string
	Amount    string // negative for a correction
	PaymentID string `json:"payment_id"`
	Corrects  string
}

// Books holds a customer's payments and spend events, as purser lists them.
type Books struct {
	Payments []Payment
	Events   []SpendEvent
}

// page is the number of rows of one listing.
const page = 500

// ReadBooks reads all payments and spend events of a customer from purser.
func ReadBooks(ctx context.Context, c *Customer) (Books, error) {
	var b Books
	for before := ""; ; {
		var list struct{ Payments []Payment }
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("/v1/payments?limit=%d%s", page, before), nil, &list); err != nil {
			return b, err
		}
		b.Payments = append(b.Payments, list.Payments...)
		if len(list.Payments) < page {
			break
		}
		before = "&before=" + list.Payments[page-1].ID
	}
	for before := ""; ; {
		var list struct{ Events []SpendEvent }
		if err := c.call(ctx, http.MethodGet, fmt.Sprintf("/v1/spend?limit=%d%s", page, before), nil, &list); err != nil {
			return b, err
		}
		b.Events = append(b.Events, list.Events...)
		if len(list.Events) < page {
			return b, nil
		}
		before = "&before=" + list.Events[page-1].ID
	}
}

// Ledger holds a wallet's transfers, as the chain lists them.
type Ledger struct {
	Transfers []token.Transfer          // out of the wallet, oldest first
	Used      []token.UsedAuthorization // of the wallet, oldest first
	Received  *big.Int                  // the money that the wallet received
	Balance   *big.Int
}

// ReadLedger reads a wallet's transfers from the chain.
func ReadLedger(ctx context.Context, chain token.Chain, wallet x402.Address) (Ledger, error) {
	var l Ledger
	var err error
	account := common.Address(wallet.EVM())
	if l.Transfers, err = chain.Transfers(ctx, &account, nil, 0); err != nil {
		return l, err
	}
	in, err := chain.Transfers(ctx, nil, &account, 0)
	if err != nil {
		return l, err
	}
	l.Received = new(big.Int)
	for _, t := range in {
		l.Received.Add(l.Received, t.Value)
	}
	if l.Used, err = chain.AuthorizationsUsed(ctx, account); err != nil {
		return l, err
	}
	l.Balance, err = chain.Balance(ctx, account)
	return l, err
}

// PerOrder counts the transfers of each order.
func (l Ledger) PerOrder() map[uint64]int {
	n := map[uint64]int{}
	for _, t := range l.Transfers {
		n[OrderOf(t.Value)]++
	}
	return n
}
