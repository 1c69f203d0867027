// Package bookkeeping writes what wallets spent in the formats of accounting programs, and makes
// monthly statements that are compared with the chain. It is pure: bookings go in, text comes out.
package bookkeeping

import (
	"fmt"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Kind says why a wallet's balance changed.
type Kind string

// The kinds of bookings.
const (
	Payment    Kind = "payment"    // a seller got the money
	Withdrawal Kind = "withdrawal" // an operator moved it out
	Deposit    Kind = "deposit"    // the chain tells that it came in
	Unbooked   Kind = "unbooked"   // the chain tells that it went out, and the books do not know the transfer
)

// Booking is one change of a wallet's balance.
type Booking struct {
	// ID stays the same in each export. It is that of the spend event. A transfer that only the chain
	// tells of has its transaction and its place among the logs.
	ID      string       `json:"id"`
	Kind    Kind         `json:"kind"`
	At      time.Time    `json:"at"`
	Amount  money.Amount `json:"amount"` // in the smallest unit of the currency
	Symbol  string       `json:"currency"`
	Digits  int          `json:"decimals"`
	Network string       `json:"network"`
	Wallet  string       `json:"wallet"` // address
	// WalletID is empty in books that name no wallet.
	WalletID string `json:"wallet_id"`
	KeyID    string `json:"key_id"`
	KeyLabel string `json:"key_label"`
	// KeyName is the key's part of account names: see [KeyNames].
	KeyName     string   `json:"key_name"`
	Host        string   `json:"host"`
	Task        string   `json:"task"`
	URL         string   `json:"url"` // without its query
	PaymentID   string   `json:"payment_id"`
	Corrects    string   `json:"corrects,omitempty"` // the booking that this one takes back
	Transaction string   `json:"transaction"`
	Other       string   `json:"other"` // address at the other end of the transfer
	Settlement  string   `json:"settlement,omitempty"`
	Protocol    string   `json:"protocol,omitempty"`
	Rail        string   `json:"rail,omitempty"` // by both, see [pay.Means]
	Flags       []string `json:"flags,omitempty"`
}

// Of makes the booking of a spend event. name is the key's part of account names.
func Of(e pay.SpendEntry, label, name string) Booking {
	where, _, _ := strings.Cut(e.RequestURL, "?") // the query may hold a seller's key
	b := Booking{
		ID: e.ID, Kind: Payment, At: e.Created.UTC(), Amount: e.Amount, Symbol: e.Currency, Digits: digitsOf(e.Network, e.Asset), Network: e.Network,
		Wallet: e.From.String(), WalletID: e.WalletID, KeyID: e.KeyID, KeyLabel: label, KeyName: name, Host: e.Host, Task: e.Task, URL: where,
		PaymentID: e.PaymentID, Corrects: e.Corrects, Transaction: e.Transaction, Other: e.PayTo.String(), Settlement: e.Settlement, Protocol: e.Protocol, Rail: e.Rail, Flags: e.Flags,
	}
	if e.Withdraws() {
		b.Kind = Withdrawal
	}
	return b
}

// digitsOf returns the decimals of a pinned token. All of them have 6 so far.
func digitsOf(network string, asset x402.Address) int {
	if n, ok := x402.NetworkByWire(network); ok {
		if a, ok := n.Asset(asset); ok {
			return a.Decimals
		}
	}
	return 6
}

// Enters reports whether the wallet has more money after the booking.
func (b Booking) Enters() bool { return (b.Kind == Deposit) != (b.Corrects != "") }

// units writes the amount with all decimals, such as 0.010000, without a sign.
func (b Booking) units() string { return fixed(b.Amount, b.Digits) }

// change writes the change of the wallet's balance, such as -0.010000.
func (b Booking) change() string {
	if b.Enters() {
		return b.units()
	}
	return "-" + b.units()
}

// fixed writes an amount with all decimals.
func fixed(a money.Amount, digits int) string {
	text := a.Format(digits)
	whole, fraction, _ := strings.Cut(text, ".")
	if digits <= 0 {
		return whole
	}
	return whole + "." + fraction + strings.Repeat("0", digits-len(fraction))
}

// payee names the other side for people.
func (b Booking) payee() string {
	switch {
	case b.Kind == Withdrawal:
		return "withdrawal to " + short(b.Other)
	case b.Kind == Deposit:
		return "deposit from " + short(b.Other)
	case b.Kind == Unbooked:
		return "transfer to " + short(b.Other)
	case b.Host == "":
		return "unknown host" // the payment was found on the chain after a restore
	}
	return b.Host
}

// narration says what was booked.
func (b Booking) narration() string {
	text := string(b.Kind)
	switch {
	case b.Corrects != "":
		text = "correction of " + b.Corrects + ": the chain disproves it"
	case b.Kind == Unbooked:
		text = "transfer that the books do not know"
	case b.Task != "":
		text = b.Task
	}
	if tool := policy.ToolOf(b.URL); tool != "" {
		text += ", " + tool
	}
	return text
}

// details lists what formats keep beside the amount. Empty values are left out.
func (b Booking) details() [][2]string {
	all := [][2]string{
		{"time", b.At.UTC().Format(time.RFC3339)},
		{"event", b.ID},
		{"payment", b.PaymentID},
		{"corrects", b.Corrects},
		{"transaction", b.Transaction},
		{"network", b.Network},
		{"protocol", b.Protocol},
		{"rail", b.Rail},
		{"wallet", b.Wallet},
		{map[bool]string{false: "pay-to", true: "from"}[b.Kind == Deposit], b.Other},
		{"key", b.KeyLabel},
		{"key-id", b.KeyID},
		{"host", b.Host},
		{"task", b.Task},
		{"url", b.URL},
		{"flags", strings.Join(b.Flags, " ")},
	}
	kept := all[:0]
	for _, d := range all {
		if d[1] != "" {
			kept = append(kept, d)
		}
	}
	return kept
}

// check refuses a booking that no format can write.
func (b Booking) check() error {
	if b.ID == "" || b.At.IsZero() || b.Symbol == "" || b.Digits < 0 || b.Digits > 30 {
		return fmt.Errorf("booking %q is not complete", b.ID)
	}
	return nil
}
