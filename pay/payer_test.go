package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// mustPay pays on REST and answers the caller.
func (w *world) mustPay(r pay.Request) *pay.Payment {
	w.t.Helper()
	a := w.mustBegin(r)
	a.Finish(true)
	w.quiet()
	return w.payment(a.Payment().ID)
}

// quiet waits until no lease is held.
func (w *world) quiet() {
	w.t.Helper()
	m := &model{world: w}
	m.settleDown()
}

func (w *world) counter(c pay.Counter) string {
	a := must(w.store.Counter(context.Background(), c))
	return a.String()
}

func (w *world) placeCount() string {
	return w.counter(pay.PlaceCounter(w.key.Owner(), w.chain.clock()))
}

func failedState(t testing.TB, err error) *pay.Payment {
	t.Helper()
	var f *pay.FailedError
	if !errors.As(err, &f) || f.Payment == nil {
		t.Fatalf("got %v, want a failed payment", err)
	}
	return f.Payment
}

func TestPayerModeSettlesAndBooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.mustPay(w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""))
	if p.State != pay.Settled || p.Transaction != w.chain.transaction(p.Authorization.Nonce) || !p.Answered {
		t.Fatalf("payment %+v", p)
	}
	events, pending, err := w.books.Spend(context.Background(), w.key, pay.SpendQuery{Limit: 10})
	if err != nil || len(events) != 1 || events[0].Amount.String() != "2500" || events[0].RequestURL != "https://api.example.com/a" {
		t.Fatalf("events %+v, %v", events, err)
	}
	if !pending.Count.IsZero() || !pending.Amount.IsZero() || w.placeCount() != "1" {
		t.Fatalf("pending %+v, place %s", pending, w.placeCount())
	}
}

func TestRefusalGivesThePlaceBackAtOnceAndMoneyLater(t *testing.T) {
	t.Parallel()
	limit := money.New(1000)
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	w.key.Policy = &policy.Policy{DailyBudget: policy.CapOf(limit)}
	w.fac.mode("refuse", "")
	p := w.mustFail(w.rest(pay.SettlePayer, "https://a.example/x", "1000", ""))
	if p.State != pay.Open || !p.Refused || w.placeCount() != "0" {
		t.Fatalf("state %s %v, place %s", p.State, p.Flags(), w.placeCount())
	}
	w.quiet()
	w.fac.mode("", "")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/other", "1000", ""))
	if !isRule(err, "daily-budget") {
		t.Fatalf("the refused payment's money must stay reserved, got %v", err)
	}
	w.chain.advance(60*time.Second + pay.RepeatGrace)
	w.recoverOnce()
	if got := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "1000", "")); got.ID == p.ID {
		t.Fatal("a refused payment was driven on")
	}
}

func TestQuotaAtTheLimitAndBeforePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := money.New(10)
	w.key.Policy = &policy.Policy{MaxPayment: policy.CapOf(one)}
	w.store.count(pay.PlaceCounter(w.key.Owner(), w.chain.clock()), 2999)
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/1", "11", "")); !isRule(err, "per-payment") {
		t.Fatalf("got %v", err)
	}
	w.mustPay(w.rest(pay.SettlePayer, "https://a.example/1", "10", ""))
	for _, amount := range []string{"10", "11"} {
		if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/2", amount, "")); !errors.Is(err, pay.ErrQuota) {
			t.Fatalf("amount %s: got %v, want the quota", amount, err)
		}
	}
}

func isRule(err error, rule string) bool {
	var p *pay.PolicyError
	return errors.As(err, &p) && p.Rule == rule
}

func TestSignerFailuresVoid(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*keyring){
		"down":  func(k *keyring) { k.fail = true },
		"wrong": func(k *keyring) { k.wrong = true },
	} {
		w := newWorld(t, nil)
		breakIt(w.ring)
		p := w.mustFail(w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
		if p.State != pay.Void || w.placeCount() != "0" || w.fac.called("verify") != 0 {
			t.Fatalf("%s: state %s, place %s, verify called %d times", name, p.State, w.placeCount(), w.fac.called("verify"))
		}
	}
}

// provingRing is a keyring that says that it proves its keys.
type provingRing struct{ *keyring }

func (provingRing) ProvesKeys() {}

// A signature is recovered if it comes from outside the process, as TestSignerFailuresVoid shows,
// and only then.
func TestSignaturesOfProvenKeysAreNotRecovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Wallets = provingRing{o.Wallets.(*keyring)} })
	w.ring.wrong = true
	must(w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", "")))
}

func TestChoosesTheFirstPayableRequirement(t *testing.T) {
	t.Parallel()
	entry := func(scheme, network, asset, amount string, timeout int) string {
		return fmt.Sprintf(`{"scheme":%q,"network":%q,"amount":%q,"asset":%q,"payTo":%q,"maxTimeoutSeconds":%d,"extra":{"name":"USD Coin","version":"2"}}`, scheme, network, amount, asset, testSeller, timeout)
	}
	const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	good := entry("exact", "eip155:8453", usdc, "7", 60)
	for name, c := range map[string]struct {
		entries []string
		want    pay.ErrorCode // "": paid
	}{
		"solana first":   {[]string{entry("exact", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "So1", "1", 60), good}, ""},
		"foreign asset":  {[]string{entry("exact", "eip155:8453", testSeller, "1", 60), good}, ""},
		"upto":           {[]string{entry("upto", "eip155:8453", usdc, "1", 60), good}, ""},
		"too short":      {[]string{entry("exact", "eip155:8453", usdc, "1", 9), good}, ""},
		"only too short": {[]string{entry("exact", "eip155:8453", usdc, "1", 9)}, pay.CodePolicy},
		"only solana":    {[]string{entry("exact", "solana:x", "So1", "1", 60)}, pay.CodeNoWallet},
		"only upto":      {[]string{entry("upto", "eip155:8453", usdc, "1", 60)}, pay.CodeUnsupported},
		"sepolia is off": {[]string{entry("exact", "eip155:84532", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "1", 60)}, pay.CodeNoWallet},
		"negative":       {[]string{entry("exact", "eip155:8453", usdc, "-1", 60)}, pay.CodeHeader},
	} {
		w := newWorld(t, nil)
		ch, err := x402.DecodeHeader(`{"x402Version":2,"resource":{"url":"https://a.example/"},"accepts":[` + strings.Join(c.entries, ",") + `]}`)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := w.rest(pay.SettlePayer, "https://a.example/", "1", "")
		r.Challenge = ch
		a, err := w.payer.Pay(context.Background(), r)
		switch {
		case err != nil && pay.Code(err) != c.want, err == nil && c.want != "", c.want == pay.CodePolicy && !isRule(err, "validity"):
			t.Errorf("%s: got %v", name, err)
		case err == nil && a.Payment().Terms.Amount.String() != "7":
			t.Errorf("%s: paid %s", name, a.Payment().Terms.Amount)
		}
		if err == nil {
			a.Finish(true)
		}
	}
}

// journalDown is a store that begins no payment.
type journalDown struct{ *memStore }

func (journalDown) Begin(context.Context, *pay.Begin) (pay.Begun, error) {
	return pay.Begun{}, pay.ErrUnavailable
}

func TestNothingIsSignedWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.opts.Store = journalDown{w.store}
	w.restart()
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "1", "")); !errors.Is(err, pay.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if w.fac.called("verify") != 0 {
		t.Fatal("something was sent")
	}
}

func TestWithoutAFacilitator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	p := w.mustPay(r)
	w.opts.Facilitator = nil
	w.restart()
	if again := w.mustPay(r); again.ID != p.ID {
		t.Fatal("the stored answer of a settled payment was not given")
	}
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/y", "100", ""))
	var f *pay.FailedError
	if !errors.As(err, &f) || f.Payment != nil || !errors.Is(err, pay.ErrNoFacilitator) {
		t.Fatalf("got %v", err)
	}
	must(w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, "https://a.example/y", "100", "")))
}

// panicking is a wallet provider with a bug.
type panicking struct{ *keyring }

func (panicking) Sign(context.Context, pay.Wallet, pay.Message) (x402.Signature, error) { panic("bug") }

func TestAPanicReleasesTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.opts.Wallets = panicking{w.ring}
	w.restart()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	}()
	w.quiet()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := w.payer.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// turns is a facilitator that counts the turns that it has given out.
type turns struct {
	*facilitator
	out int
}

func (f *turns) Ready(string) (giveBack func(), err error) { f.out++; return func() { f.out-- }, nil }

// orgless is a store that cannot tell plans.
type orgless struct{ *memStore }

func (orgless) Organization(context.Context, string) (pay.Organization, error) {
	return pay.Organization{}, pay.ErrUnavailable
}

// A call that ends before its payment is journaled gives the facilitator's turn back.
func TestTurnIsGivenBack(t *testing.T) {
	t.Parallel()
	fac := new(turns)
	w := newWorld(t, func(o *pay.Options) {
		fac.facilitator = o.Facilitator.(*facilitator)
		o.Facilitator, o.Store = fac, orgless{o.Store.(*memStore)}
	})
	w.key.OrganizationID = "org"
	_, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, "https://a.example/", "1", ""))
	if !errors.Is(err, pay.ErrUnavailable) || fac.out != 0 {
		t.Fatalf("%v, %d turns are out", err, fac.out)
	}
}

func TestFundsAreNamed(t *testing.T) {
	t.Parallel()
	failed := func(err error) *pay.FailedError {
		t.Helper()
		var f *pay.FailedError
		if !errors.As(err, &f) {
			t.Fatalf("got %v", err)
		}
		return f
	}
	w := newWorld(t, nil)
	_, err := w.open(buy{door: policy.DoorProxy, url: numbered(1), amount: 1_000_000_001}) // the chain says 1_000_000_000
	if f := failed(err); !f.Funds {
		t.Errorf("balance: %+v", f)
	}
	w.fac.mode("refuse", "") // insufficient_funds
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, numbered(2), "1", ""))
	if f := failed(err); !f.Funds || f.Stage != pay.StageVerify {
		t.Errorf("verify: %+v", f)
	}
	w.fac.mode("", "refuse")
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, numbered(3), "1", ""))
	if f := failed(err); !f.Funds || f.Stage != pay.StageSettle {
		t.Errorf("settle: %+v", f)
	}
	w.fac.mode("fail", "")
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, numbered(4), "1", ""))
	if f := failed(err); f.Funds {
		t.Errorf("unreachable: %+v", f)
	}
	for reason, want := range map[string]bool{
		"insufficient_funds": true, "invalid_exact_evm_insufficient_balance": true, "Insufficient_Funds: 0": true, "": false, "invalid_payload": false,
	} {
		if pay.FundsReason(reason) != want {
			t.Errorf("%q", reason)
		}
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want pay.ErrorCode
	}{
		{nil, pay.CodeInternal},
		{errors.New("unknown"), pay.CodeInternal},
		{fmt.Errorf("journaling a payment: %w", pay.ErrQuota), pay.CodeQuota},
		{fmt.Errorf("deep: %w", fmt.Errorf("deeper: %w", &pay.PolicyError{Rule: "hosts"})), pay.CodePolicy},
		{&pay.FailuresError{}, pay.CodeFailures},
		{&pay.QuestionsError{}, pay.CodeQuestions},
		{&pay.HeaderError{Cause: errors.New("x")}, pay.CodeHeader},
		{&pay.NoWalletError{}, pay.CodeNoWallet},
		{&x402.UnsupportedError{}, pay.CodeUnsupported},
		{&pay.InputError{}, pay.CodeInput},
		{&pay.UnresolvableError{}, pay.CodeUnresolvable},
		{pay.ErrNotReconciling, pay.CodeNotReconciling},
		{&pay.SpentError{Payment: &pay.Payment{}}, pay.CodeSpent},
		// The lost lease is an open payment to the caller.
		{fmt.Errorf("%w: %w", &pay.OpenError{Payment: &pay.Payment{}}, pay.ErrLeaseLost), pay.CodeOpen},
		{pay.ErrLeaseLost, pay.CodeLeaseLost},
		// A failed payment is one, whatever made it fail; why, its cause says.
		{&pay.FailedError{Cause: pay.ErrCallerGone}, pay.CodeFailed},
		{&pay.FailedError{Cause: fmt.Errorf("reading a wallet: %w", pay.ErrUnavailable)}, pay.CodeFailed},
		// Both are an ErrUnavailable as well.
		{&pay.ReconcilingError{Taken: time.Now()}, pay.CodeReconciling},
		{&pay.ClockError{}, pay.CodeClock},
		{fmt.Errorf("%w: %w", pay.ErrUnavailable, pay.ErrPolicyChanged), pay.CodeUnavailable},
		{pay.ErrCallerGone, pay.CodeCallerGone},
		{fmt.Errorf("asking: %w", context.DeadlineExceeded), pay.CodeEnded},
		{context.Canceled, pay.CodeEnded},
	} {
		if got := pay.Code(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
