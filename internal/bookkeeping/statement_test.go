package bookkeeping

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// month is a month of a wallet: blocks 100 to 200 are in it.
type month struct {
	*Tally
	history treasury.History
	name    WalletName
	owner   x402.Address
	n       int
}

func newMonth() *month {
	owner := x402.EVMAddress([20]byte{19: 1})
	n, _ := x402.NetworkByWire("base")
	return &month{Tally: NewTally(october), owner: owner, name: WalletName{"base", owner.String()}, history: treasury.History{
		Asset: n.Assets[0], Opening: pay.ChainBlock{Number: 100, Time: october.From.Add(-time.Second)},
		Closing:  pay.ChainBlock{Number: 200, Time: october.To.Add(-time.Second)},
		Balances: map[x402.Address][2]money.Amount{owner: {money.New(1000), money.New(1000)}},
	}}
}

// books books a payment of an amount.
func (m *month) books(amount uint64, at time.Time, change ...func(*Booking)) Booking {
	m.n++
	b := Booking{
		ID: fmt.Sprintf("event-%03d", m.n), Kind: Payment, At: at, Amount: money.New(amount), Symbol: "USDC", Digits: 6, Network: "base",
		Wallet: m.owner.String(), KeyID: "key", KeyLabel: "research", Host: "api.example.com", PaymentID: fmt.Sprintf("payment-%03d", m.n),
		Transaction: fmt.Sprintf("0x%064x", m.n), Other: x402.EVMAddress([20]byte{19: 9}).String(),
	}
	for _, c := range change {
		c(&b)
	}
	m.Add(b)
	return b
}

// takesBack corrects a booking.
func (m *month) takesBack(b Booking, at time.Time) {
	m.n++
	b.Corrects, b.ID, b.At = b.ID, fmt.Sprintf("event-%03d", m.n), at
	m.Add(b)
}

// moves moves money on the chain; the wallet's balance at the end changes, if it is inside.
func (m *month) moves(from, to x402.Address, amount, block uint64, transaction string) {
	t := treasury.Transfer{From: from, To: to, Value: money.New(amount), Transaction: transaction, Block: block, Index: uint64(len(m.history.Transfers))}
	m.history.Transfers = append(m.history.Transfers, t)
	if ends := m.history.Balances[m.owner]; m.history.Inside(t) {
		if to == m.owner {
			ends[1], _ = ends[1].Add(t.Value)
		}
		if from == m.owner {
			ends[1], _ = ends[1].Sub(t.Value)
		}
		m.history.Balances[m.owner] = ends
	}
}

// besides has the last transfer move more to others.
func (m *month) besides(amount uint64) {
	m.history.Transfers[len(m.history.Transfers)-1].Beside = money.New(amount)
	ends := m.history.Balances[m.owner]
	ends[1], _ = ends[1].Sub(money.New(amount))
	m.history.Balances[m.owner] = ends
}

// pays moves the money of a booking.
func (m *month) pays(b Booking, block uint64) {
	to, _ := x402.ParseAddress(b.Other)
	m.moves(m.owner, to, mustUint(b.Amount), block, b.Transaction)
}

func mustUint(a money.Amount) uint64 { return a.Big().Uint64() }

// statement compares, and checks that the differences are all that differs.
func (m *month) statement(t interface {
	Fatalf(string, ...any)
	Helper()
}, open ...OpenPayment,
) WalletStatement {
	t.Helper()
	if err := m.Compare(m.name, m.history, open); err != nil {
		t.Fatalf("%v", err)
	}
	s := m.Statement()
	if len(s.Wallets) != 1 || s.Verdict != s.Wallets[0].Verdict {
		t.Fatalf("statement %+v", s)
	}
	w := s.Wallets[0]
	sum := new(big.Int).Set(&w.Closing.Int)
	for _, d := range w.Differences {
		sum.Add(sum, &d.Amount.Int)
	}
	if sum.Cmp(&w.Chain.Balance.Int) != 0 {
		t.Fatalf("closing %v and the differences make %v, and the chain has %v: %+v", w.Closing.String(), sum, w.Chain.Balance.String(), w.Differences)
	}
	return w
}

var noon = time.Date(2026, 10, 15, 12, 0, 0, 0, time.UTC)

func TestStatementEqualsTheChain(t *testing.T) {
	t.Parallel()
	m := newMonth()
	m.moves(x402.EVMAddress([20]byte{19: 7}), m.owner, 500, 110, "0xd")
	m.pays(m.books(10, noon), 120)
	m.pays(m.books(20, noon, func(b *Booking) { b.Kind = Withdrawal }), 121)
	unnamed := m.books(30, noon, func(b *Booking) { b.Transaction = "" })
	unnamed.Transaction = "0xunknown to the books"
	m.pays(unnamed, 122)
	disproved := m.books(40, noon, func(b *Booking) { b.Flags = []string{"disputed"} })
	m.takesBack(disproved, noon.Add(time.Hour))
	w := m.statement(t)
	if w.Verdict != Equal || w.Opening.String() != "1000" || w.Closing.String() != "1440" || w.Deposits.Count != 1 || w.Payments.Count != 3 ||
		w.Payments.Amount.String() != "80" || w.Corrections.Amount.String() != "40" || w.Withdrawals.Amount.String() != "20" || len(w.Keys) != 1 {
		t.Errorf("%+v", w)
	}
	text, err := json.Marshal(w)
	var again WalletStatement
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || again.Closing.String() != "1440" || again.Payments.Amount.String() != "80" {
		t.Errorf("%v: %s", err, text)
	}
	list, err := m.ChainBookings(func(string, uint64) (time.Time, error) { return noon, nil })
	if err != nil || len(list) != 1 || list[0].Kind != Deposit || !list[0].At.Equal(noon) || list[0].Amount.String() != "500" {
		t.Errorf("what only the chain knows is %+v, %v", list, err)
	}
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	disputed := func(b *Booking) { b.Flags = []string{"disputed"} }
	before, after := october.From.Add(-time.Minute), october.To.Add(time.Minute)
	for name, c := range map[string]struct {
		does func(m *month) []OpenPayment
		want []Reason
		is   Verdict
	}{
		"booked late":    {func(m *month) []OpenPayment { m.pays(m.books(5, after), 200); return nil }, []Reason{Timing}, Explained},
		"of last month":  {func(m *month) []OpenPayment { m.pays(m.books(5, october.From), 100); return nil }, []Reason{Timing}, Explained},
		"booked early":   {func(m *month) []OpenPayment { m.pays(m.books(5, before), 101); return nil }, []Reason{Timing}, Explained},
		"all last month": {func(m *month) []OpenPayment { m.pays(m.books(5, before), 100); return nil }, nil, Equal},
		"all next month": {func(m *month) []OpenPayment { m.pays(m.books(5, after), 201); return nil }, nil, Equal},
		"disputed later": {func(m *month) []OpenPayment { m.takesBack(m.books(5, noon, disputed), after); return nil }, []Reason{Disputed}, Explained},
		"disputed":       {func(m *month) []OpenPayment { m.books(5, noon, disputed); return nil }, []Reason{Disputed}, Explained},
		"taken back":     {func(m *month) []OpenPayment { m.takesBack(m.books(5, before, disputed), noon); return nil }, []Reason{Disputed}, Explained},
		"never on chain": {func(m *month) []OpenPayment { m.books(5, noon); return nil }, []Reason{Missing}, Differs},
		"wrongly disputed": {func(m *month) []OpenPayment {
			b := m.books(5, noon, disputed)
			m.pays(b, 120)
			m.takesBack(b, noon)
			return nil
		}, []Reason{Corrected}, Differs},
		"unknown": {func(m *month) []OpenPayment {
			m.moves(m.owner, x402.EVMAddress([20]byte{19: 9}), 5, 120, "0xe")
			return []OpenPayment{{ID: "p", To: x402.EVMAddress([20]byte{19: 9}), Amount: money.New(6)}}
		}, []Reason{NotBooked}, Differs},
		"open": {func(m *month) []OpenPayment {
			m.moves(m.owner, x402.EVMAddress([20]byte{19: 9}), 5, 120, "0xe")
			m.moves(m.owner, x402.EVMAddress([20]byte{19: 9}), 5, 121, "0xf") // a payment moves money once
			return []OpenPayment{{ID: "p", To: x402.EVMAddress([20]byte{19: 9}), Amount: money.New(5)}}
		}, []Reason{NotBooked, Open}, Differs},
		"burnt": {func(m *month) []OpenPayment {
			m.history.Balances[m.owner] = [2]money.Amount{money.New(1000), money.New(999)}
			return nil
		}, []Reason{Unexplained}, Differs},
		"another amount": {func(m *month) []OpenPayment {
			b := m.books(5, noon)
			b.Amount = money.New(4)
			m.pays(b, 120)
			return nil
		}, []Reason{Missing, NotBooked}, Differs},
		"not safe yet": {func(m *month) []OpenPayment {
			m.history.Running, m.history.Closing.Time = true, noon
			m.books(5, noon.Add(time.Minute))
			return nil
		}, []Reason{Timing}, Explained},
		"open, with gas": {func(m *month) []OpenPayment {
			m.moves(m.owner, x402.EVMAddress([20]byte{19: 9}), 5, 120, "0xe")
			m.besides(2)
			return []OpenPayment{{ID: "p", To: x402.EVMAddress([20]byte{19: 9}), Amount: money.New(5)}}
		}, []Reason{Open}, Explained},
		"with gas": {func(m *month) []OpenPayment {
			m.moves(m.owner, x402.EVMAddress([20]byte{19: 9}), 3, 120, m.books(5, noon).Transaction)
			m.besides(2)
			return nil
		}, nil, Equal},
		"to itself": {func(m *month) []OpenPayment { m.moves(m.owner, m.owner, 5, 120, "0xe"); return nil }, []Reason{NotBooked}, Differs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMonth()
			open := c.does(m)
			var got []Reason
			for _, d := range m.statement(t, open...).Differences {
				got = append(got, d.Reason)
			}
			if s := m.Statement(); !slices.Equal(got, c.want) || s.Verdict != c.is {
				t.Errorf("%v, %s; want %v, %s", got, s.Verdict, c.want, c.is)
			}
		})
	}
}

// TestDifferencesAddUp has the books and the chain go any ways.
func TestDifferencesAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMonth()
		amount, block := rapid.Uint64Range(1, 3), rapid.Uint64Range(99, 202)
		hours := rapid.IntRange(-40, 31*24+40)
		for range rapid.IntRange(0, 20).Draw(t, "payments") {
			at := october.From.Add(time.Duration(hours.Draw(t, "hour")) * time.Hour)
			var flags []string
			back := rapid.Bool().Draw(t, "taken back")
			if back {
				flags = []string{"disputed"}
			}
			b := m.books(amount.Draw(t, "amount"), at, func(b *Booking) {
				b.Flags = flags
				if rapid.Bool().Draw(t, "unnamed") {
					b.Transaction = ""
				}
			})
			if back {
				m.takesBack(b, at.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "later"))*time.Hour))
			}
			if rapid.Bool().Draw(t, "moves") {
				m.pays(b, block.Draw(t, "block"))
			}
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "others") {
			ends := []x402.Address{m.owner, x402.EVMAddress([20]byte{19: 9})}
			if rapid.Bool().Draw(t, "in") {
				slices.Reverse(ends)
			}
			m.moves(ends[0], ends[1], amount.Draw(t, "amount"), block.Draw(t, "block"), fmt.Sprintf("0xf%d", i))
		}
		var open []OpenPayment
		if rapid.Bool().Draw(t, "open") {
			open = append(open, OpenPayment{ID: "open", To: x402.EVMAddress([20]byte{19: 9}), Amount: money.New(amount.Draw(t, "open amount"))})
		}
		if err := m.Compare(m.name, m.history, open); err != nil {
			t.Fatal(err)
		}
		if s := m.Statement(); len(s.Wallets) == 1 {
			w := s.Wallets[0]
			sum := new(big.Int).Set(&w.Closing.Int)
			for _, d := range w.Differences {
				sum.Add(sum, &d.Amount.Int)
			}
			if sum.Cmp(&w.Chain.Balance.Int) != 0 || (len(w.Differences) == 0) != (w.Verdict == Equal) {
				t.Fatalf("%s: closing %v and differences make %v, the chain has %v", w.Verdict, w.Closing.String(), sum, w.Chain.Balance.String())
			}
		}
	})
}
