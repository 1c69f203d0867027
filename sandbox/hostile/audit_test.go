package hostile

import (
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/sandbox/evm"
)

const (
	txOne   = "0x1111111111111111111111111111111111111111111111111111111111111111"
	txTwo   = "0x2222222222222222222222222222222222222222222222222222222222222222"
	payee   = "0x3333333333333333333333333333333333333333"
	thePaid = "paid"
)

// consistent returns the books of a customer with a settled, a disputed and a void payment.
func consistent() (Books, Ledger) {
	b := Books{
		Payments: []Payment{
			{ID: thePaid, State: "settled", Flags: []string{"confirmed"}, Amount: "100", PayTo: payee, Transaction: txOne},
			{ID: "lied about", State: "settled", Flags: []string{"disputed"}, Amount: "200", PayTo: payee, Transaction: txTwo},
			{ID: "never sent", State: "void", Amount: "300", PayTo: payee},
			{ID: "refused", State: "open", Flags: []string{"refused"}, Amount: "400", PayTo: payee},
		},
		Events: []SpendEvent{
			{ID: "3", Amount: "-200", PaymentID: "lied about", Corrects: "2"},
			{ID: "2", Amount: "200", PaymentID: "lied about"},
			{ID: "1", Amount: "100", PaymentID: thePaid},
		},
	}
	l := Ledger{
		Transfers: []evm.Transfer{{To: common.HexToAddress(payee), Value: big.NewInt(100), Tx: txOne}},
		Used:      []evm.UsedAuthorization{{Tx: txOne}},
		Received:  big.NewInt(1000), Balance: big.NewInt(900),
	}
	return b, l
}

// Every rule finds its kind of fault, and none in correct books.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	transfer := func(l *Ledger, value int64, tx string) {
		l.Transfers = append(l.Transfers, evm.Transfer{To: common.HexToAddress(payee), Value: big.NewInt(value), Tx: tx})
		l.Used = append(l.Used, evm.UsedAuthorization{Tx: tx})
		l.Balance.Sub(l.Balance, big.NewInt(value))
	}
	for name, c := range map[string]struct {
		change func(*Books, *Ledger)
		want   []Rule // all findings, in any order
	}{
		"nothing": {func(*Books, *Ledger) {}, nil},
		"a transfer that no payment claims": {
			func(_ *Books, l *Ledger) { transfer(l, 500, txTwo) }, []Rule{RuleBooked, RuleSum},
		},
		"a transfer that two payments claim": {func(b *Books, _ *Ledger) {
			b.Payments = append(b.Payments, Payment{ID: "twin", State: "settled", Flags: []string{"confirmed"}, Amount: "100", PayTo: payee, Transaction: txOne})
			b.Events = append(b.Events, SpendEvent{ID: "4", Amount: "100", PaymentID: "twin"})
		}, []Rule{RuleBooked, RuleSum}},
		"a transfer to another payee": {func(b *Books, _ *Ledger) { b.Payments[0].PayTo = "0x4444444444444444444444444444444444444444" }, []Rule{RuleBooked}},
		"a transfer of another amount": {func(b *Books, _ *Ledger) {
			b.Payments[0].Amount, b.Events[2].Amount = "90", "90"
		}, []Rule{RuleBooked, RuleSum}},
		"a payment whose transfer is missing": {func(b *Books, _ *Ledger) {
			b.Payments[0].Transaction = txTwo
		}, []Rule{RuleMoved, RuleBooked}},
		"a payment without its event": {func(b *Books, _ *Ledger) { b.Events = b.Events[:2] }, []Rule{RuleEvents, RuleSum}},
		"a payment with two events": {func(b *Books, _ *Ledger) {
			b.Events = append(b.Events, SpendEvent{ID: "4", Amount: "100", PaymentID: thePaid})
		}, []Rule{RuleEvents, RuleSum}},
		"a dispute without its correction": {func(b *Books, _ *Ledger) { b.Events = b.Events[1:] }, []Rule{RuleEvents, RuleSum}},
		"a void payment with an event": {func(b *Books, _ *Ledger) {
			b.Events = append(b.Events, SpendEvent{ID: "4", Amount: "300", PaymentID: "never sent"})
		}, []Rule{RuleEvents, RuleSum}},
		"an event of nobody's": {func(b *Books, _ *Ledger) {
			b.Events = append(b.Events, SpendEvent{ID: "4", Amount: "1", PaymentID: "nobody"})
		}, []Rule{RuleEvents, RuleSum}},
		"an event without an amount": {func(b *Books, _ *Ledger) {
			b.Events[2].Amount = "ten"
		}, []Rule{RuleEvents, RuleSum, RuleSum}},
		"a payment that stays open": {func(b *Books, _ *Ledger) {
			b.Payments = append(b.Payments, Payment{ID: "forgotten", State: "open", Amount: "50", PayTo: payee})
		}, []Rule{RuleClosed}},
		"a payment that purser does not know about, and says so": {func(b *Books, l *Ledger) {
			b.Payments = append(b.Payments, Payment{ID: "?", State: "open", Flags: []string{"unresolved"}, Amount: "50", PayTo: payee})
			transfer(l, 50, txTwo)
		}, nil},
		"a payment that nobody has checked":        {func(b *Books, _ *Ledger) { b.Payments[0].Flags = nil }, []Rule{RuleChecked}},
		"money that went without an authorization": {func(_ *Books, l *Ledger) { l.Used = nil }, []Rule{RuleAuthorized}},
		"money that is simply gone":                {func(_ *Books, l *Ledger) { l.Balance.SetInt64(1) }, []Rule{RuleAuthorized}},
		"an order that was paid twice": {func(b *Books, l *Ledger) {
			b.Payments = append(b.Payments, Payment{ID: "again", State: "settled", Flags: []string{"confirmed"}, Amount: "105", PayTo: payee, Transaction: txTwo})
			b.Events = append(b.Events, SpendEvent{ID: "4", Amount: "105", PaymentID: "again"})
			transfer(l, 105, txTwo)
		}, []Rule{RuleOnce}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := consistent()
			c.change(&b, &l)
			requireRules(t, Audit(b, l, nil), c.want)
		})
	}
}

// An order that was bought twice may be paid for twice, and not three times.
func TestAuditCountsWhatWasBought(t *testing.T) {
	t.Parallel()
	b, l := consistent()
	b.Payments = append(b.Payments, Payment{ID: "again", State: "settled", Flags: []string{"confirmed"}, Amount: "105", PayTo: payee, Transaction: txTwo})
	b.Events = append(b.Events, SpendEvent{ID: "4", Amount: "105", PaymentID: "again"})
	l.Transfers = append(l.Transfers, evm.Transfer{To: common.HexToAddress(payee), Value: big.NewInt(105), Tx: txTwo})
	l.Used = append(l.Used, evm.UsedAuthorization{Tx: txTwo})
	l.Balance.SetInt64(795)
	requireRules(t, Audit(b, l, map[uint64]int{10: 2}), nil)
	requireRules(t, Audit(b, l, map[uint64]int{10: 1}), []Rule{RuleOnce})
}

// Each expectation of a scenario can fail by itself.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	fine := Scenario{Money: Once, Ends: []string{settled, disputed, void, "open, refused"}}
	for name, c := range map[string]struct {
		change func(*Played, *World)
		want   []Rule
	}{
		"nothing":             {func(*Played, *World) {}, nil},
		"money that moved":    {func(p *Played, _ *World) { p.Scenario.Money = Never }, []Rule{RuleEnd}},
		"money that did not":  {func(p *Played, _ *World) { p.Orders = []uint64{77} }, []Rule{RuleEnd}},
		"a state":             {func(p *Played, _ *World) { p.Scenario.Ends = p.Scenario.Ends[1:] }, []Rule{RuleEnd}},
		"a stolen payload":    {func(_ *Played, w *World) { w.Thief.stolen.Add(1) }, []Rule{RuleKept}},
		"a lure":              {func(p *Played, _ *World) { p.Results = []Result{{Status: 402, Lured: true}} }, []Rule{RuleLured}},
		"payments at a decoy": {func(p *Played, _ *World) { p.Scenario.Ends = nil }, []Rule{RuleEnd, RuleEnd, RuleEnd, RuleEnd}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, l := consistent()
			p, w := Played{Scenario: fine, Orders: []uint64{10}}, &World{Thief: &Thief{}}
			c.change(&p, w)
			requireRules(t, p.Judge(w, b, l), c.want)
		})
	}
}

// A decision that recovery must not make with a failing RPC is found.
func TestMeanwhileFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	before := Books{Payments: []Payment{
		{ID: "moved", State: "open", Amount: "100"},
		{ID: "unmoved", State: "open", Amount: "200"},
		{ID: "claimed", State: "settled", Amount: "300"},
	}}
	ledger := Ledger{Transfers: []evm.Transfer{{Value: big.NewInt(100), Tx: txOne}}}
	for name, c := range map[string]struct {
		fault  RPCFault
		change func([]Payment)
		want   int
	}{
		"nothing":                    {Lags, func([]Payment) {}, 0},
		"moved and void":             {Forgets, func(p []Payment) { p[0].State = void }, 1},
		"unmoved and settled":        {Forgets, func(p []Payment) { p[1].State = settled }, 1},
		"claimed and confirmed":      {Forgets, func(p []Payment) { p[2].Flags = []string{"confirmed"} }, 1},
		"moved and settled":          {Forgets, func(p []Payment) { p[0].State = settled }, 0},
		"unmoved and void":           {NoLogs, func(p []Payment) { p[1].State = void }, 0},
		"settled by a blind RPC":     {Lags, func(p []Payment) { p[0].State = settled }, 1},
		"void by a blind RPC":        {OtherChain, func(p []Payment) { p[1].State = void }, 1},
		"disputed by a blind RPC":    {OtherToken, func(p []Payment) { p[2].Flags = []string{"disputed"} }, 1},
		"confirmed by a blind RPC":   {Refusing, func(p []Payment) { p[2].Flags = []string{"confirmed"} }, 1},
		"several at once, all wrong": {Silent, func(p []Payment) { p[0].State, p[1].State = void, settled }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := Books{Payments: slices.Clone(before.Payments)}
			c.change(now.Payments)
			found := Played{Scenario: Scenario{RPC: &c.fault}}.Meanwhile(before, now, ledger)
			for _, f := range found {
				if f.Rule != RuleHeld {
					t.Errorf("found %s", f)
				}
			}
			if len(found) != c.want {
				t.Errorf("found %v, want %d findings", found, c.want)
			}
		})
	}
}

func requireRules(t *testing.T, found []Finding, want []Rule) {
	t.Helper()
	var got []Rule
	for _, f := range found {
		got = append(got, f.Rule)
	}
	slices.Sort(got)
	want = slices.Clone(want)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
