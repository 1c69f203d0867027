package bookkeeping

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Verdict says how a statement compares with the chain.
type Verdict string

// The verdicts, the best one first.
const (
	Equal       Verdict = "equal"        // the books equal the chain
	Explained   Verdict = "explained"    // each difference has a payment of the books that explains it
	NotCompared Verdict = "not-compared" // the chain was not asked, or did not answer
	Differs     Verdict = "differs"      // the chain and the books contradict each other
)

// Reason says why the chain and the books differ.
type Reason string

// The reasons of differences. Reasons before Missing are explained.
const (
	Timing      Reason = "timing"      // the books and the chain have it in different months
	Disputed    Reason = "disputed"    // booked, and taken back at another time, as the chain disproves it
	Open        Reason = "open"        // the chain has the transfer of a payment that is open
	Missing     Reason = "missing"     // booked, and the chain has no transfer of it
	Corrected   Reason = "corrected"   // taken back, and the chain has a transfer of it
	NotBooked   Reason = "unbooked"    // the chain has a transfer that the books do not know
	Unexplained Reason = "unexplained" // the rest
)

func (r Reason) explained() bool { return r == Timing || r == Disputed || r == Open }

// Signed is an amount with a sign, in the smallest unit.
type Signed struct{ big.Int }

// MarshalJSON writes a string, as all amounts are.
func (s Signed) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Signed) UnmarshalJSON(text []byte) error {
	return s.UnmarshalText([]byte(strings.Trim(string(text), `"`)))
}

// Sum counts bookings and adds them up.
type Sum struct {
	Count  int    `json:"count"`
	Amount Signed `json:"amount"`
}

func (s *Sum) add(n *big.Int) {
	s.Count++
	s.Amount.Add(&s.Amount.Int, n)
}

// KeySums adds up what one key moved out of a wallet.
type KeySums struct {
	KeyID       string `json:"key_id"`
	Label       string `json:"label"`
	Payments    Sum    `json:"payments"`
	Corrections Sum    `json:"corrections"`
	Withdrawals Sum    `json:"withdrawals"`
}

// Difference is one reason why the chain and the books differ.
type Difference struct {
	Reason Reason `json:"reason"`
	// Amount says how much more the chain has at the end than the books; it is negative if it has less.
	Amount      Signed    `json:"amount"`
	At          time.Time `json:"at,omitzero"`     // when it was booked
	Block       uint64    `json:"block,omitempty"` // of the transfer
	PaymentID   string    `json:"payment_id,omitempty"`
	Host        string    `json:"host,omitempty"`
	Tool        string    `json:"tool,omitempty"`
	Transaction string    `json:"transaction,omitempty"`
	Other       string    `json:"other,omitempty"` // address
}

// ChainWord holds what the chain tells of a wallet.
type ChainWord struct {
	Opening   pay.ChainBlock `json:"opening_block"`
	Closing   pay.ChainBlock `json:"closing_block"`
	Balance   Signed         `json:"balance"`
	Running   bool           `json:"running,omitempty"` // the month is not over, or not yet in a safe block
	Derived   bool           `json:"derived,omitempty"` // see [treasury.History]
	Transfers int            `json:"transfers"`
}

// WalletStatement sums up one wallet.
type WalletStatement struct {
	WalletID string `json:"wallet_id"`
	Network  string `json:"network"`
	Address  string `json:"address"`
	Symbol   string `json:"currency"`
	Digits   int    `json:"decimals"`
	// Opening, Deposits and Closing are nil without the chain's word.
	Opening     *Signed   `json:"opening"`
	Deposits    *Sum      `json:"deposits"`
	Payments    Sum       `json:"payments"`
	Corrections Sum       `json:"corrections"`
	Withdrawals Sum       `json:"withdrawals"`
	Closing     *Signed   `json:"closing"` // opening with all above, by the books
	Keys        []KeySums `json:"keys"`

	Verdict     Verdict      `json:"verdict"`
	Why         string       `json:"not_compared,omitempty"`
	Chain       *ChainWord   `json:"chain"`
	Differences []Difference `json:"differences"`
	// More counts differences that are not listed.
	More int `json:"more_differences,omitempty"`
}

// maxDifferences bounds the differences that a statement lists for a wallet.
const maxDifferences = 1000

// Change returns the change of the balance by the books, without deposits.
func (w *WalletStatement) Change() *big.Int {
	n := new(big.Int).Sub(&w.Corrections.Amount.Int, &w.Payments.Amount.Int)
	return n.Sub(n, &w.Withdrawals.Amount.Int)
}

// Statement sums up a time for each wallet.
type Statement struct {
	From    time.Time         `json:"from"`
	To      time.Time         `json:"to"` // not included
	Verdict Verdict           `json:"verdict"`
	Wallets []WalletStatement `json:"wallets"`
}

// Tally adds up bookings for a statement. Add takes those of the range, and those up to TallyMargin before
// and behind it, which may belong to transfers of the range.
type Tally struct {
	over    Range
	wallets map[WalletName]*tally
}

// TallyMargin is the time around the range in which bookings are looked at.
const TallyMargin = 48 * time.Hour

// WalletName names a wallet: an address on a network.
type WalletName struct{ Network, Address string }

// tally collects the statement of a wallet.
type tally struct {
	WalletStatement
	keys     map[string]*KeySums
	payments map[string]*paid
	deposits []treasury.Transfer
	strange  []treasury.Transfer // out of the wallet, and not in the books
}

// paid holds a payment with the sum of its bookings: each of them has the payment's amount.
type paid struct {
	Booking
	in, all  int // booked less taken back, in the range and at any time
	transfer *treasury.Transfer
}

// NewTally begins a statement.
func NewTally(over Range) *Tally { return &Tally{over, map[WalletName]*tally{}} }

// Name names the wallet of a booking.
func (b Booking) Name() WalletName { return WalletName{b.Network, strings.ToLower(b.Wallet)} }

// AddWallet adds a wallet that may have no bookings.
func (t *Tally) AddWallet(name WalletName, id, symbol string, digits int) {
	w := t.wallet(name)
	w.WalletID, w.Symbol, w.Digits = id, symbol, digits
}

func (t *Tally) wallet(name WalletName) *tally {
	name.Address = strings.ToLower(name.Address)
	w := t.wallets[name]
	if w == nil {
		w = &tally{keys: map[string]*KeySums{}, payments: map[string]*paid{}}
		w.Network, w.Address, w.Verdict, w.Keys, w.Differences = name.Network, name.Address, NotCompared, []KeySums{}, []Difference{}
		if a, err := x402.ParseAddress(name.Address); err == nil {
			w.Address = a.String() // as people know it
		}
		t.wallets[name] = w
	}
	return w
}

// Add adds a booking of the books.
func (t *Tally) Add(b Booking) {
	w := t.wallet(b.Name())
	w.WalletID, w.Symbol, w.Digits = b.WalletID, b.Symbol, b.Digits
	p := w.payments[b.PaymentID]
	if p == nil {
		p = &paid{Booking: b}
		if b.Corrects != "" {
			p.all = 1 // it was booked earlier
		}
		w.payments[b.PaymentID] = p
	}
	one := 1
	if b.Corrects != "" {
		one = -1
	}
	if p.all += one; slices.Contains(b.Flags, "disputed") && p.all > 0 {
		p.all = 0 // it is taken back later
	}
	if !t.over.Has(b.At) {
		return
	}
	p.in += one
	k := w.keys[b.KeyID]
	if k == nil {
		k = &KeySums{KeyID: b.KeyID, Label: b.KeyLabel}
		w.keys[b.KeyID] = k
	}
	n := b.Amount.Big()
	switch {
	case b.Corrects != "":
		w.Corrections.add(n)
		k.Corrections.add(n)
	case b.Kind == Withdrawal:
		w.Withdrawals.add(n)
		k.Withdrawals.add(n)
	default:
		w.Payments.add(n)
		k.Payments.add(n)
	}
}

// Wallets lists the wallets that were added, by network and address.
func (t *Tally) Wallets() []WalletName {
	return slices.SortedFunc(maps.Keys(t.wallets), func(a, b WalletName) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.Address, b.Address))
	})
}

// NotCompared notes why a wallet is not compared with the chain.
func (t *Tally) NotCompared(name WalletName, why string) { t.wallet(name).Why = why }

// OpenPayment is a payment that may have moved its money, and is not booked.
type OpenPayment struct {
	ID, Host, Tool string
	To             x402.Address
	Amount         money.Amount
}

// Statement ends the tally. Wallets without money and bookings are left out.
func (t *Tally) Statement() Statement {
	s := Statement{From: t.over.From, To: t.over.To, Verdict: Equal, Wallets: []WalletStatement{}}
	worst := []Verdict{Equal, Explained, NotCompared, Differs}
	for _, name := range t.Wallets() {
		w := t.wallets[name]
		for _, id := range slices.Sorted(maps.Keys(w.keys)) {
			w.Keys = append(w.Keys, *w.keys[id])
		}
		still := w.Payments.Count+w.Corrections.Count+w.Withdrawals.Count+len(w.Differences) == 0
		if still && (w.Chain == nil || w.Chain.Balance.Sign() == 0 && w.Chain.Transfers == 0) {
			continue
		}
		if slices.Index(worst, w.Verdict) > slices.Index(worst, s.Verdict) {
			s.Verdict = w.Verdict
		}
		s.Wallets = append(s.Wallets, w.WalletStatement)
	}
	return s
}
