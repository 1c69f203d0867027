package protocol_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// thicket is clover where the payer pays a fee beside the price, and a gleaner gets a part of it. Purser itself sends
// what leaves a wallet.
type thicket struct{ clover }

const mostFee, theFee = 70, 5

var gleaner, stranger = x402.EVMAddress([20]byte{0x9e}), x402.EVMAddress([20]byte{0x57})

func (c thicket) Network() x402.Network {
	n := c.clover.Network()
	n.Rail = cloverNumber
	return n
}

func (c thicket) Authorize(ctx context.Context, a x402.Authorization, r x402.Requirement) (x402.Authorization, error) {
	a, err := c.clover.Authorize(ctx, a, r)
	a.Value = a.Value.AddSaturated(money.New(mostFee))
	return a, err
}

func (c thicket) Payees(x402.Requirement) []pay.Payee {
	to := gleaner
	if c.meadow.strange.Load() {
		to = stranger
	}
	return []pay.Payee{{To: to, Amount: money.New(1 + c.meadow.gleans.Load())}}
}

func (c thicket) Transfer(_ context.Context, a x402.Authorization, _ x402.Asset) (x402.Authorization, error) {
	a.Height = c.meadow.tip() + cloverLasts
	a.Message = fmt.Sprint(a.From, " ", a.To, " ", a.Value, " ", a.Height, " ", a.Nonce)
	a.Nonce = sha256.Sum256([]byte(a.Message))
	a.Value = a.Value.AddSaturated(money.New(mostFee))
	return a, nil
}

func (c thicket) Send(_ context.Context, p x402.Payload) error {
	var signed [2]string
	if err := json.Unmarshal(p.JSON, &signed); err != nil {
		return err
	}
	_, err := c.meadow.settle(signed[0], signed[1])
	return err
}

func newThicket(t *testing.T, limits *policy.Policy) *pasture {
	t.Helper()
	p := newPastureOf(t, stores["memory"], limits, func(m *meadow) pay.Rail { return thicket{clover{m}} })
	p.meadow.fee = theFee
	return p
}

func most(t *testing.T, units string) *policy.Cap {
	t.Helper()
	amount, err := money.Parse(units)
	if err != nil {
		t.Fatal(err)
	}
	return policy.CapOf(amount)
}

// A fee is held at its most, known by the chain only, and booked as it was paid.
func TestRailWithFees(t *testing.T) {
	t.Parallel()
	p := newThicket(t, &policy.Policy{DailyBudget: most(t, "20079")})
	if a, err := p.get(); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", a, err)
	}
	p.released()
	if rows, err := p.books.Payments(t.Context(), p.key, "", 10, ""); err != nil || rows[0].State != pay.Open || !rows[0].Charged.IsZero() {
		t.Errorf("a receipt is no word of the fee: %+v, %v", rows, err)
	}
	if a, err := p.get(); err != nil || a.Header.Get("Purser-Declined") != "daily-budget" { // 10,070 twice is too much
		t.Errorf("%v, %v", a, err)
	}
	p.looked(time.Minute)
	row := p.looked(time.Hour)
	if row.State != pay.Settled || !row.Confirmed || row.Charged != money.New(10_000+theFee) || row.Fee() != money.New(theFee) || row.Terms.Amount != money.New(10_000) {
		t.Errorf("%+v", row)
	}
	if left := p.meadow.has(p.wallet); left != 1_000_000-10_000-theFee {
		t.Errorf("the wallet has %d", left)
	}
	if a, err := p.get(); err != nil || a.StatusCode != http.StatusOK { // the rest of the first fee is free again
		t.Errorf("%v, %v", a, err)
	}
}

// The bounds of one payment count what gas can cost, and a person is asked by the price alone. The
// words name it.
func TestRailWithFeesAndBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits policy.Policy
		bound  uint64 // of the request
		says   string
	}{
		"of a key":           {limits: policy.Policy{MaxPayment: most(t, "10069")}, says: "per-payment"},
		"that fits":          {limits: policy.Policy{MaxPayment: most(t, "10070")}},
		"of a request":       {bound: 10_069, says: "max-amount"},
		"that fits, too":     {bound: 10_070},
		"of a budget":        {limits: policy.Policy{DailyBudget: most(t, "10069")}, says: "daily-budget"},
		"before asking":      {limits: policy.Policy{RequireApprovalAbove: most(t, "10000")}},
		"that asks a person": {limits: policy.Policy{RequireApprovalAbove: most(t, "9999")}, says: "approval-needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newThicket(t, &c.limits)
			if c.bound > 0 {
				p.bound = new(money.New(c.bound))
			}
			a, err := p.get()
			if err != nil || a.Header.Get("Purser-Declined") != c.says || c.says != "" && !strings.Contains(a.Header.Get("Purser-Declined-Detail"), "0.00007 USDC") {
				t.Errorf("%v, %v", a, err)
			}
		})
	}
}

// A dry run names the price, and the most that gas can cost beside it.
func TestQuotesNameGas(t *testing.T) {
	t.Parallel()
	p := newThicket(t, nil)
	p.dry = true
	a, err := p.get()
	if err != nil || a.Header.Get("Purser-Declined") != "dry-run" ||
		!strings.Contains(a.Header.Get("Purser-Declined-Detail"), "0.01 USDC and up to 0.00007 USDC for gas on ") {
		t.Errorf("%v, %v", a, err)
	}
}

// Gas raises no price: the guard goes by what the seller got.
func TestRailWithFeesAndAGuard(t *testing.T) {
	t.Parallel()
	p := newThicket(t, &policy.Policy{PriceGuard: new(2)})
	if a, err := p.get(); err != nil || a.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", a, err)
	}
	p.released()
	if row := p.looked(time.Minute); row.State != pay.Settled || row.Fee().IsZero() {
		t.Fatalf("%+v", row)
	}
	for i, want := range []string{"price-guard", ""} {
		p.farm.more.Store(10_001 - uint64(i))
		if a, err := p.get(); err != nil || a.Header.Get("Purser-Declined") != want {
			t.Errorf("price %d: %v, %v", i, a, err)
		}
	}
}

// A key whose wallet is empty asks on and on. The RPC is not asked as often.
func TestRailAsksNoFlood(t *testing.T) {
	t.Parallel()
	p := newThicket(t, nil)
	p.meadow.mu.Lock()
	p.meadow.funds[p.wallet] = 0
	p.meadow.mu.Unlock()
	for range 2_000 {
		a, err := p.get()
		if err != nil || a.StatusCode == http.StatusOK {
			t.Fatalf("%v, %v", a, err)
		}
		if a.Header.Get("Purser-Declined") == proxy.DeclinedOverloaded {
			if a.Header.Get("Retry-After") == "" {
				t.Errorf("%v", a.Header)
			}
			return
		}
	}
	t.Errorf("2000 purchases asked for %d authorizations", p.meadow.asked.Load())
}

// Each payee of a payment must be allowed.
func TestRailWithPayees(t *testing.T) {
	t.Parallel()
	p := newThicket(t, &policy.Policy{DenyPayees: []x402.Address{gleaner}})
	if a, err := p.get(); err != nil || a.Header.Get("Purser-Declined") != "payees" {
		t.Errorf("%v, %v", a, err)
	}
}

// People are told of a further payee that a known seller names anew, once.
func TestRailWithPayeesAndNotices(t *testing.T) {
	t.Parallel()
	p := newThicket(t, nil)
	for n, strange := range []bool{false, false, true, true, false} {
		p.meadow.strange.Store(strange)
		if a, err := p.get(); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%d: %v, %v", n, a, err)
		}
		list, err := p.store.Notices(t.Context(), pay.NoticeQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		list = slices.DeleteFunc(list, func(n pay.Notice) bool { return n.Kind != pay.NoticeNewPayee })
		if told := n >= 2; told != (len(list) == 1) || told && !strings.Contains(list[0].Text, stranger.String()) || len(list) > 1 {
			t.Errorf("%d: %+v", n, list)
		}
	}
}

// A person approves who gets which part. The same price that is shared out otherwise is another purchase.
func TestRailWithPayeesAndApprovals(t *testing.T) {
	t.Parallel()
	p := newThicket(t, &policy.Policy{RequireApprovalAbove: most(t, "9999")})
	a, err := p.get()
	if err != nil || !strings.Contains(a.Header.Get("Purser-Declined-Detail"), "of the price go 0.000001 USDC to "+gleaner.String()) {
		t.Fatalf("%v, %v", a, err)
	}
	yes := pay.ApprovalAnswering{ID: a.Header.Get("Purser-Approval"), Answer: pay.Approved}
	if _, err := p.payer.AnswerApproval(pay.WithActor(t.Context(), pay.Operator("ada")), yes); err != nil {
		t.Fatal(err)
	}
	p.meadow.gleans.Store(9_000)
	if a, err = p.get(); err != nil || a.Header.Get("Purser-Declined") != "approval-needed" || a.Header.Get("Purser-Approval") == yes.ID {
		t.Errorf("shared out otherwise: %v, %v", a, err)
	}
	p.meadow.gleans.Store(0)
	if a, err = p.get(); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("as approved: %v, %v", a, err)
	}
}

// An operator moves all out of a wallet, and the fee is left for its way.
func TestRailWithdraws(t *testing.T) {
	t.Parallel()
	p := newThicket(t, nil)
	wallets, err := p.books.ListWallets(t.Context(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	to := foreign(strings.Repeat("ab", 32))
	order := treasury.Withdrawal{Wallet: wallets[0], To: to}
	if _, err := treasury.Of(p.payer).Withdraw(t.Context(), treasury.Withdrawal{Wallet: wallets[0], To: to, Sign: true}); err == nil {
		t.Error("it is handed out")
	}
	if plan, err := treasury.Of(p.payer).PlanWithdrawal(t.Context(), order); err != nil || plan.Signs {
		t.Errorf("the plan hands it out: %+v, %v", plan, err)
	}
	_, err = treasury.Of(p.payer).PlanAllowance(t.Context(), treasury.AllowanceOrder{Wallet: wallets[0], Amount: money.New(1)})
	if input, is := errors.AsType[*pay.InputError](err); !is || !strings.Contains(input.Reason, "no such transactions") {
		t.Errorf("an allowance for Permit2: %v", err)
	}
	out, err := treasury.Of(p.payer).Withdraw(t.Context(), order)
	if err != nil || out.Payment.State != pay.Settled || out.Payment.Terms.Amount != money.New(1_000_000-mostFee) || out.Payment.Charged != money.New(1_000_000-mostFee+theFee) {
		t.Fatalf("%+v, %v", out.Payment, err)
	}
	if got, left := p.meadow.has(to.String()), p.meadow.has(p.wallet); got != 1_000_000-mostFee || left != mostFee-theFee {
		t.Errorf("%d came, and %d are left", got, left)
	}
	if again, err := treasury.Of(p.payer).Withdraw(t.Context(), order); err == nil && !again.Earlier {
		t.Errorf("%+v", again.Payment)
	}
}
