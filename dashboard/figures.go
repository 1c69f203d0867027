package dashboard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

const (
	// moneyWait bounds the wait for the chain while a page is made. Its first poll waits longer.
	moneyWait     = 100 * time.Millisecond
	moneyWaitLive = 2 * time.Second
	// moneyWallets bounds the wallets whose balances are added up, and moneyAtOnce those asked for at a time.
	moneyWallets, moneyAtOnce = 100, 8
	// paceDays is the number of complete days whose spending says how long the money lasts.
	paceDays = 7
	// budgetKeys bounds the keys whose budgets are compared.
	budgetKeys = 200
	// budgetsShown is the number of budgets on the overview: those with the largest part used.
	budgetsShown = 3
	// heldCounted bounds the held requests that are counted.
	heldCounted = 100
	// heldShown is the number of held requests on the overview: those that expire first.
	heldShown   = 3
	testNetwork = "base-sepolia"
)

// figures begin the overview.
type figures struct {
	Money        funds
	Budgets      []nearBudget
	Unlimited    bool // no key has a budget
	Held         held
	Declined     declinedFigure
	Today, Month spent
	MonthName    string
	Quota        quota
	Pending      pending
}

type spent struct {
	Net      amount
	Payments string
}

func spentOf(s pay.Sum) spent { return spent{netOf(s), payments(s.Count)} }

// pending sums up open payments.
type pending struct {
	Count  string
	Any    bool
	Amount amount
}

// held counts the requests that wait for a person, and has those that expire first.
type held struct {
	Count string
	Any   bool
	Rows  []approvalRow
	More  bool
	Menu  waitingCount // the same, beside the entry of the menu
}

// declinedFigure counts the requests that purser did not pay. They are counted by UTC day.
type declinedFigure struct {
	Today, Yesterday string
	Any              bool
}

// nearBudget is a budget with the part of it that is used.
type nearBudget struct {
	budgetBar
	Key, Path string
}

func (d *dashboard) figures(ctx context.Context, v visit, m funds) (f figures, err error) {
	sum, err := d.month(ctx, v, "")
	if err != nil {
		return f, err
	}
	use, err := d.Books.UsageIn(ctx, v.scope())
	if err != nil {
		return f, err
	}
	open, err := d.Books.PendingIn(ctx, v.scope())
	if err != nil {
		return f, err
	}
	f = figures{
		Money: m, Month: spentOf(sum.Total()), MonthName: v.now.Format("January"), Quota: d.quota(v, use),
		Pending: pending{Count: open.Count.String(), Any: !open.Count.IsZero(), Amount: amountOf(open.Amount, false, currency)},
	}
	if len(sum.Days) > 0 {
		f.Today = spentOf(sum.Days[len(sum.Days)-1].Sum)
	}
	if err := d.pace(ctx, v, &f.Money); err != nil {
		return f, err
	}
	if f.Budgets, f.Unlimited, err = d.nearBudgets(ctx, v); err != nil {
		return f, err
	}
	if f.Held, err = d.held(ctx, v); err != nil {
		return f, err
	}
	f.Declined, err = d.declinedLately(ctx, v)
	return f, err
}

// funds adds up what the wallets hold.
type funds struct {
	None    bool // there is no wallet with an address
	Known   bool // of at least one wallet
	Late    bool // a wallet is not known, and may be soon
	Amount  amount
	Wallets string // how many
	Missing string // a sentence about wallets that are not in the sum
	Lasts   string

	have money.Amount
}

// money asks the chain for the balances of a scope's wallets, and waits for a bounded time.
func (d *dashboard) money(ctx context.Context, v visit, wait time.Duration) (funds, error) {
	list, err := d.Books.WalletsIn(ctx, v.scope())
	if err != nil {
		return funds{}, err
	}
	list = slices.DeleteFunc(list, func(w pay.Wallet) bool { return w.Address == nil })
	if real := slices.DeleteFunc(slices.Clone(list), func(w pay.Wallet) bool { return w.Network == testNetwork }); len(real) > 0 {
		list = real // the money of a test network has no worth
	}
	m := funds{None: len(list) == 0, Wallets: walletsText(len(list))}
	asked := list[:min(len(list), moneyWallets)]
	missing := 0
	for _, b := range d.balances(ctx, asked, wait) {
		if !b.known {
			missing++
			m.Late = m.Late || b.late
			continue
		}
		m.Known, m.have = true, m.have.AddSaturated(b.amount)
	}
	m.Amount = amountOf(m.have, false, currency)
	switch {
	case m.None:
	case missing == len(asked):
		m.Missing = "The chain did not tell the balance yet."
		if !m.Late {
			m.Missing = "purser has no connection to the chain, so balances are not known."
		}
	case missing > 0:
		m.Missing = "Without " + walletsText(missing) + ", whose balance the chain did not tell."
	case len(asked) < len(list):
		m.Missing = "These are the " + count(len(asked)) + " oldest wallets."
	}
	return m, nil
}

func walletsText(n int) string {
	if n == 1 {
		return "1 wallet"
	}
	return count(n) + " wallets"
}

type walletMoney struct {
	amount      money.Amount
	known, late bool
}

// balances asks for balances, several at a time.
func (d *dashboard) balances(ctx context.Context, list []pay.Wallet, wait time.Duration) []walletMoney {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	all := make([]walletMoney, len(list))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(len(list), moneyAtOnce) {
		asking.Go(func() {
			for i := range next {
				have, err := d.Payer.WalletBalance(ctx, list[i])
				all[i] = walletMoney{have, err == nil, err != nil && !errors.Is(err, pay.ErrNoChain)}
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	asking.Wait()
	return all
}

// pace says how long the money lasts, if spending goes on as in the last complete days.
func (d *dashboard) pace(ctx context.Context, v visit, m *funds) error {
	if !m.Known {
		return nil
	}
	keys, err := d.Books.KeysIn(ctx, v.scope())
	if err != nil || len(keys) == 0 {
		return err
	}
	today := pay.DayOf(v.now)
	oldest := slices.MinFunc(keys, func(a, b pay.Key) int { return a.Created.Compare(b.Created) })
	days := min(paceDays, int(today.Sub(pay.DayOf(oldest.Created))/(24*time.Hour)))
	if days < 1 {
		m.Lasts = runwayText(m.have, pay.Sum{}, 0)
		return nil
	}
	sum, err := d.Books.SummaryIn(ctx, v.scope(), books.SummaryQuery{From: today.AddDate(0, 0, -days), To: today.AddDate(0, 0, -1)})
	m.Lasts = runwayText(m.have, sum.Total(), days)
	return err
}

// nearBudgets returns the budgets with the largest part used.
func (d *dashboard) nearBudgets(ctx context.Context, v visit) (near []nearBudget, none bool, err error) {
	keys, err := d.Books.KeysIn(ctx, v.scope())
	if err != nil {
		return nil, false, err
	}
	keys = slices.DeleteFunc(keys, func(k pay.Key) bool { return k.Revoked() })
	for _, k := range keys[:min(len(keys), budgetKeys)] {
		whole := d.Payer.PolicyOf(k, policy.DoorProxy).Whole()
		if !slices.ContainsFunc(policy.Periods[:], func(p policy.Period) bool { return (*whole.Of(p)).Max() != nil }) {
			continue
		}
		bars, err := d.barsOf(ctx, v, k)
		if err != nil {
			return nil, false, err
		}
		for _, b := range bars {
			if b.Limit != "" {
				near = append(near, nearBudget{b, label(k), keyPath(k.ID)})
			}
		}
	}
	none = len(near) == 0
	near = slices.DeleteFunc(near, func(b nearBudget) bool { return b.Booked == 0 })
	slices.SortStableFunc(near, func(a, b nearBudget) int { return cmp.Compare(b.Booked, a.Booked) })
	return near[:min(len(near), budgetsShown)], none, nil
}

func (d *dashboard) held(ctx context.Context, v visit) (h held, err error) {
	list, err := d.Books.ApprovalsIn(ctx, v.scope(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: heldCounted + 1, Now: v.now})
	if err != nil {
		return h, err
	}
	h = held{Count: count(len(list)), Any: len(list) > 0, Menu: waitingCount{Text: waitingText(len(list))}}
	if len(list) > heldCounted {
		h.Count = "more than " + count(heldCounted)
	}
	if h.More = len(list) > heldShown; !h.Any {
		return h, nil
	}
	keys, err := d.Books.KeysIn(ctx, v.scope())
	named := names(keys)
	for _, a := range list[:min(len(list), heldShown)] {
		row := approvalRowOf(v, a, named)
		row.Left = "" // it changes by itself, and would replace all parts of the page each minute
		h.Rows = append(h.Rows, row)
	}
	return h, err
}

func (d *dashboard) declinedLately(ctx context.Context, v visit) (declinedFigure, error) {
	today := pay.DayOf(v.now)
	list, err := d.Books.DeclinesIn(ctx, v.scope(), books.SummaryQuery{From: today.AddDate(0, 0, -1), To: today})
	now, before := 0, 0
	for _, one := range list {
		if one.Day.Equal(today) {
			now += one.Count
		} else {
			before += one.Count
		}
	}
	return declinedFigure{Today: count(now), Yesterday: count(before), Any: now+before > 0}, err
}
