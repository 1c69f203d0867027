package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// mustPay pays on REST and answers the caller.
func (w *world) mustPay(r pay.Request) *pay.Payment {
	w.t.Helper()
	a, err := w.payer.Pay(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
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
	a, err := w.store.Counter(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return a.String()
}

func (w *world) placeCount() string {
	return w.counter(pay.PlaceCounter(w.key.Owner(), w.chain.clock()))
}

func failedState(t *testing.T, err error) *pay.Payment {
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
	events, pending, err := w.payer.Spend(context.Background(), w.key, 10, "")
	if err != nil || len(events) != 1 || events[0].Amount.String() != "2500" || events[0].RequestURL != "https://api.example.com/a" {
		t.Fatalf("events %+v, %v", events, err)
	}
	if !pending.Count.IsZero() || !pending.Amount.IsZero() || w.placeCount() != "1" {
		t.Fatalf("pending %+v, place %s", pending, w.placeCount())
	}
}

func TestRefusalGivesThePlaceBackAtOnceAndMoneyLater(t *testing.T) {
	t.Parallel()
	limit := x402.NewAmount(1000)
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	w.key.Policy = &pay.Policy{DailyBudget: &limit}
	w.fac.mode("refuse", "")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "1000", ""))
	p := failedState(t, err)
	if p.State != pay.Open || !p.Refused || w.placeCount() != "0" {
		t.Fatalf("state %s %v, place %s", p.State, p.Flags(), w.placeCount())
	}
	w.quiet()
	w.fac.mode("", "")
	_, err = w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "1000", ""))
	var refused *pay.PolicyError
	if !errors.As(err, &refused) || refused.Rule != "daily-budget" {
		t.Fatalf("the refused payment's money must stay reserved, got %v", err)
	}
	w.chain.advance(60*time.Second + pay.RepeatGrace)
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "1000", "")); got.ID == p.ID {
		t.Fatal("a refused payment was driven on")
	}
}

func TestQuotaAtTheLimitAndBeforePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := x402.NewAmount(10)
	w.key.Policy = &pay.Policy{MaxPayment: &one}
	w.store.counters[pay.PlaceCounter(w.key.Owner(), w.chain.clock())] = x402.NewAmount(2999)
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

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "order-1")
	first := w.mustPay(r)
	if again := w.mustPay(r); again.ID != first.ID || w.chain.moves() != 1 {
		t.Fatalf("a repeat made payment %s, %d moves", again.ID, w.chain.moves())
	}
	other := w.rest(pay.SettlePayer, "https://a.example/x", "101", "order-1")
	if _, err := w.payer.Pay(context.Background(), other); !errors.Is(err, pay.ErrIdempotencyReused) {
		t.Fatalf("other terms: %v", err)
	}
	w.fac.mode("refuse", "")
	void := w.rest(pay.SettlePayer, "https://a.example/y", "100", "order-2")
	if _, err := w.payer.Pay(context.Background(), void); err == nil {
		t.Fatal("refused payment succeeded")
	}
	w.fac.mode("", "")
	void.Challenge = challenge(t, "555") // after a refusal the terms may differ
	if p := w.mustPay(void); p.Terms.Amount.String() != "555" {
		t.Fatalf("amount %s", p.Terms.Amount)
	}
}

func TestUnclearSettlementIsDrivenOnWithTheSamePayload(t *testing.T) {
	t.Parallel()
	for _, idem := range []string{"", "k-1"} {
		w := newWorld(t, nil)
		w.fac.mode("", "fail-moved")
		r := w.rest(pay.SettlePayer, "https://a.example/x", "100", idem)
		_, err := w.payer.Pay(context.Background(), r)
		p := failedState(t, err)
		if p.State != pay.Open || p.Refused {
			t.Fatalf("state %s %v", p.State, p.Flags())
		}
		w.quiet()
		w.restart()
		w.fac.mode("", "")
		got := w.mustPay(r)
		if got.ID != p.ID || got.State != pay.Settled || got.Transaction == "" || w.chain.moves() != 1 {
			t.Fatalf("idem %q: %s %s, %d moves", idem, got.ID, got.State, w.chain.moves())
		}
	}
}

func TestExpiredOpenPaymentIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "fail")
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k-1")
	_, err := w.payer.Pay(context.Background(), r)
	p := failedState(t, err)
	w.quiet()
	w.fac.mode("", "")
	w.chain.advance(55 * time.Second) // 5 s left: too late to send it again
	_, err = w.payer.Pay(context.Background(), r)
	var open *pay.OpenError
	if !errors.As(err, &open) || open.Payment.ID != p.ID {
		t.Fatalf("got %v", err)
	}
	w.chain.advance(20 * time.Second) // the chain can now say that it never moved
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.payment(p.ID); got.State != pay.Void {
		t.Fatalf("state %s", got.State)
	}
	if got := w.mustPay(r); got.ID == p.ID || w.chain.moves() != 1 {
		t.Fatalf("%d moves", w.chain.moves())
	}
}

func TestCallerGoneBeforeAndBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.payer.Pay(ctx, w.rest(pay.SettlePayer, "https://a.example/x", "100", "")); !errors.Is(err, pay.ErrCallerGone) {
		t.Fatalf("got %v", err)
	}
	if w.fac.called("verify") != 0 {
		t.Fatal("sent for nobody")
	}

	between := newWorld(t, nil)
	ctx, cancel = context.WithCancel(context.Background())
	f := &hangUp{facilitator: between.fac, cancel: cancel}
	between.opts.Facilitator = f
	between.restart()
	_, err := between.payer.Pay(ctx, between.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	if p := failedState(t, err); p.State != pay.Open || between.fac.called("settle") != 0 {
		t.Fatalf("state %s, settle called %d times", p.State, between.fac.called("settle"))
	}
}

// hangUp ends the caller while /verify is being asked.
type hangUp struct {
	*facilitator
	cancel func()
}

func (h *hangUp) Verify(ctx context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	h.cancel()
	return h.facilitator.Verify(ctx, x)
}

func TestSettleOutlivesItsCallerAndARepeatWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.RepeatWait = 10 * time.Second })
	w.fac.release, w.fac.entered = make(chan struct{}), make(chan struct{}, 2)
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan error, 1)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "")
	go func() {
		a, err := w.payer.Pay(ctx, r)
		if err == nil {
			a.Finish(false) // nobody there to take the answer
		}
		first <- err
	}()
	<-w.fac.entered
	cancel()
	second := make(chan *pay.Payment, 1)
	go func() {
		a, err := w.payer.Pay(context.Background(), r)
		if err != nil {
			t.Error(err)
			second <- nil
			return
		}
		a.Finish(true)
		second <- a.Payment()
	}()
	select {
	case <-second:
		t.Fatal("the repeat did not wait for the send in flight")
	case <-time.After(100 * time.Millisecond):
	}
	close(w.fac.release)
	if err := <-first; err != nil {
		t.Fatalf("the settlement was cancelled with its caller: %v", err)
	}
	if p := <-second; p == nil || p.State != pay.Settled || w.chain.moves() != 1 {
		t.Fatalf("%d moves", w.chain.moves())
	}
	// The answer has arrived now, so the next call is a new purchase.
	w.quiet()
	w.mustPay(r)
	if w.chain.moves() != 2 {
		t.Fatalf("%d moves, want a second purchase", w.chain.moves())
	}
}

func TestConcurrentCallersOfOneURLPaySeparately(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.release, w.fac.entered = make(chan struct{}), make(chan struct{}, 2)
	ids := make(chan string, 2)
	for range 2 {
		go func() {
			a, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
			if err != nil {
				t.Error(err)
				ids <- ""
				return
			}
			a.Finish(true)
			ids <- a.Payment().ID
		}()
	}
	<-w.fac.entered
	<-w.fac.entered
	close(w.fac.release)
	if a, b := <-ids, <-ids; a == b || w.chain.moves() != 2 {
		t.Fatalf("payments %s and %s, %d moves", a, b, w.chain.moves())
	}
}

func TestDuplicateOfAnIdempotencyKeyWaitsThenIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.release, w.fac.entered = make(chan struct{}), make(chan struct{}, 2)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	done := make(chan error, 1)
	go func() {
		a, err := w.payer.Pay(context.Background(), r)
		if err == nil {
			a.Finish(true)
		}
		done <- err
	}()
	<-w.fac.entered
	_, err := w.payer.Pay(context.Background(), r)
	var open *pay.OpenError
	if !errors.As(err, &open) {
		t.Fatalf("got %v", err)
	}
	close(w.fac.release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSignerFailuresVoid(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*keyring){
		"down":  func(k *keyring) { k.fail = true },
		"wrong": func(k *keyring) { k.wrong = true },
	} {
		w := newWorld(t, nil)
		breakIt(w.ring)
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
		p := failedState(t, err)
		if p.State != pay.Void || w.placeCount() != "0" || w.fac.called("verify") != 0 {
			t.Fatalf("%s: state %s, place %s, verify called %d times", name, p.State, w.placeCount(), w.fac.called("verify"))
		}
	}
}

func TestUnresolvedThenFoundOnChainIsCountedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	w.fac.mode("", "fail-moved")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	p := failedState(t, err)
	w.quiet()
	month := w.chain.clock()
	w.chain.advance(61 * time.Second)
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.payment(p.ID); !got.Unresolved || w.placeCount() != "0" {
		t.Fatalf("flags %v, place %s", got.Flags(), w.placeCount())
	}
	w.opts.Chain = w.chain
	w.restart()
	w.chain.advance(25 * time.Hour)
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := w.payment(p.ID)
	if got.State != pay.Settled || got.Unresolved || w.counter(pay.PlaceCounter(w.key.Owner(), month)) != "1" {
		t.Fatalf("state %s %v", got.State, got.Flags())
	}
	if err := w.store.checkCounters(); err != nil {
		t.Fatal(err)
	}
}

func TestALieIsDisputedWithACorrection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "lie")
	p := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	w.recoverAll()
	if got := w.payment(p.ID); !got.Disputed || got.State != pay.Settled {
		t.Fatalf("%s %v", got.State, got.Flags())
	}
	events, _, err := w.payer.Spend(context.Background(), w.key, 10, "")
	if err != nil || len(events) != 2 || events[0].SignedAmount() != "-100" || events[0].Corrects != events[1].ID {
		t.Fatalf("events %+v, %v", events, err)
	}
}

func TestForeignChainIsNoEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.store.world = "0x" + strings.Repeat("ab", 32)
	w.fac.mode("", "fail")
	_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/x", "100", ""))
	p := failedState(t, err)
	w.recoverAll()
	if got := w.payment(p.ID); got.State != pay.Open {
		t.Fatalf("another chain's silence made the payment %s", got.State)
	}
	if h := w.payer.Health(context.Background()); h.RPC.OK {
		t.Fatal("health calls the foreign RPC good")
	}
}

func TestSellerModeReceipts(t *testing.T) {
	t.Parallel()
	fits := func(p *pay.Payment, tx string) x402.Receipt {
		return x402.Receipt{Success: true, Transaction: tx, Network: "eip155:8453", Payer: strings.ToLower(p.Authorization.From.String())}
	}
	other := x402.NewAmount(99)
	for name, c := range map[string]struct {
		change func(*x402.Receipt)
		want   pay.State
	}{
		"fits":            {func(*x402.Receipt) {}, pay.Settled},
		"v1 network name": {func(r *x402.Receipt) { r.Network = "base" }, pay.Settled},
		"other network":   {func(r *x402.Receipt) { r.Network = "base-sepolia" }, pay.Open},
		"other payer":     {func(r *x402.Receipt) { r.Payer = testSeller }, pay.Open},
		"other amount":    {func(r *x402.Receipt) { r.Amount = &other }, pay.Open},
		"no transaction":  {func(r *x402.Receipt) { r.Transaction = "" }, pay.Open},
		"failure":         {func(r *x402.Receipt) { r.Success = false }, pay.Open},
	} {
		w := newWorld(t, nil)
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, "https://a.example/x", "100", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		w.quiet()
		r := fits(a.Payment(), w.sellerMoves(a.Payload()))
		c.change(&r)
		p, err := w.payer.PostReceipt(context.Background(), w.key, a.Payment().ID, r)
		if err != nil || p.State != c.want {
			t.Errorf("%s: state %v, %v", name, p.State, err)
		}
	}
}

func TestOneTransactionDoesNotSettleTwoPaymentsByReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var last *pay.Payment
	tx := "0x" + strings.Repeat("7", 64)
	for i := range 2 {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, fmt.Sprintf("https://a.example/%d", i), "100", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		if last, err = w.payer.PostReceipt(context.Background(), w.key, a.Payment().ID, x402.Receipt{Success: true, Transaction: tx, Network: "base"}); err != nil {
			t.Fatal(err)
		}
	}
	if last.State != pay.Open {
		t.Fatalf("the second payment is %s by the first one's transaction", last.State)
	}
}

func TestSellerModeOnRESTRepeatsUntilTheReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	buy := func() (string, string) {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, "https://a.example/x", "100", ""))
		if err != nil {
			t.Fatal(err)
		}
		a.Finish(true)
		w.quiet()
		return a.Payment().ID, a.Payload().Header()
	}
	id, header := buy()
	if again, h := buy(); again != id || h != header {
		t.Fatal("a repeat before the receipt got another payload")
	}
	p := w.payment(id)
	tx, err := w.chain.move(p.Authorization)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.payer.PostReceipt(context.Background(), w.key, id, x402.Receipt{Success: true, Transaction: tx, Network: "base"}); err != nil {
		t.Fatal(err)
	}
	if again, _ := buy(); again == id {
		t.Fatal("a call after the receipt got the old payment")
	}
}

func TestSellerModeShowsThePayloadOnceWithoutAnRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Chain = nil })
	pays := func(url string) error {
		a, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, url, "100", ""))
		if err == nil {
			a.Finish(true)
		}
		return err
	}
	w.fac.mode("refuse", "")
	if p := failedState(t, pays("https://a.example/1")); !p.Refused {
		t.Fatal("a payload that /verify refused was handed out")
	}
	w.fac.mode("fail", "")
	if err := pays("https://a.example/2"); err != nil {
		t.Fatalf("an unreachable facilitator stopped a seller payment: %v", err)
	}
	w.fac.mode("", "")
	before := w.fac.called("verify")
	for i := range 3 {
		if err := pays(fmt.Sprintf("https://a.example/v%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.fac.called("verify") - before; n != 1 {
		t.Fatalf("/verify was asked %d times for the same terms", n)
	}
}

func TestAlreadyUsedChallengeIsRefusedInPayerMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "")
	p := w.mustPay(r)
	r.Challenge.Error = "invalid_exact_evm_nonce_already_used"
	_, err := w.payer.Pay(context.Background(), r)
	var f *pay.FailedError
	if !errors.As(err, &f) || !strings.Contains(f.Detail, `"settlement":"seller"`) || !strings.Contains(f.Detail, p.ID) || w.chain.moves() != 1 {
		t.Fatalf("got %v", err)
	}
}

func TestUnansweredPaymentsPerHostAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fac.mode("", "fail")
	for i := range pay.MaxUnansweredPerHost {
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, fmt.Sprintf("https://a.example/%d", i), "100", ""))
		failedState(t, err)
	}
	w.quiet()
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/more", "100", "")); !isRule(err, "unanswered") {
		t.Fatalf("got %v", err)
	}
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://b.example/more", "100", "")); isRule(err, "unanswered") {
		t.Fatal("another host is bounded as well")
	}
}

func TestProxyDefaultsAndDoors(t *testing.T) {
	t.Parallel()
	maxPay, day := x402.NewAmount(1_000_000), x402.NewAmount(1_500_000)
	w := newWorld(t, func(o *pay.Options) { o.ProxyPolicy = pay.Policy{MaxPayment: &maxPay, DailyBudget: &day} })
	open := func(amount string) error {
		a, err := w.payer.Open(context.Background(), w.proxied("https://a.example/"+amount, amount, ""))
		if err == nil {
			a.Finish(true)
		}
		return err
	}
	if err := open("1000001"); !isRule(err, "per-payment") {
		t.Fatalf("got %v", err)
	}
	if err := open("1000000"); err != nil {
		t.Fatal(err)
	}
	if err := open("500001"); !isRule(err, "daily-budget") {
		t.Fatalf("got %v", err)
	}
	if err := open("500000"); err != nil {
		t.Fatal(err)
	}
	w.mustPay(w.rest(pay.SettlePayer, "https://a.example/rest", "5000000", "")) // no limits on REST
	w.key.Policy = &pay.Policy{Doors: []pay.Door{pay.DoorProxy}}
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/rest", "1", "")); !isRule(err, "doors") {
		t.Fatalf("got %v", err)
	}
}

func TestChoosesTheFirstPayableRequirement(t *testing.T) {
	t.Parallel()
	entry := func(scheme, network, asset, amount string, timeout int) string {
		return fmt.Sprintf(`{"scheme":%q,"network":%q,"amount":%q,"asset":%q,"payTo":%q,"maxTimeoutSeconds":%d}`, scheme, network, amount, asset, testSeller, timeout)
	}
	const usdc = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	good := entry("exact", "eip155:8453", usdc, "7", 60)
	for name, c := range map[string]struct {
		entries []string
		check   func(error) bool
	}{
		"solana first":   {[]string{entry("exact", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "So1", "1", 60), good}, nil},
		"foreign asset":  {[]string{entry("exact", "eip155:8453", testSeller, "1", 60), good}, nil},
		"upto":           {[]string{entry("upto", "eip155:8453", usdc, "1", 60), good}, nil},
		"too short":      {[]string{entry("exact", "eip155:8453", usdc, "1", 9), good}, nil},
		"only too short": {[]string{entry("exact", "eip155:8453", usdc, "1", 9)}, func(err error) bool { return isRule(err, "validity") }},
		"only solana": {[]string{entry("exact", "solana:x", "So1", "1", 60)}, func(err error) bool {
			var e *pay.NoWalletError
			return errors.As(err, &e)
		}},
		"only upto": {[]string{entry("upto", "eip155:8453", usdc, "1", 60)}, func(err error) bool {
			var e *x402.UnsupportedError
			return errors.As(err, &e)
		}},
		"sepolia is off": {[]string{entry("exact", "eip155:84532", "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "1", 60)}, func(err error) bool {
			var e *pay.NoWalletError
			return errors.As(err, &e)
		}},
		"negative": {[]string{entry("exact", "eip155:8453", usdc, "-1", 60)}, func(err error) bool {
			var e *pay.HeaderError
			return errors.As(err, &e)
		}},
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
		case c.check == nil && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.check == nil && a.Payment().Terms.Amount.String() != "7":
			t.Errorf("%s: paid %s", name, a.Payment().Terms.Amount)
		case c.check != nil && !c.check(err):
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil {
			a.Finish(true)
		}
	}
}

func TestRetiresAfterThirtyDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	p := w.mustPay(r)
	w.recoverAll() // confirms
	w.chain.advance(pay.RetainPayload)
	if _, err := w.payer.RecoverOnce(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := w.payment(p.ID); !got.Retired || !got.Confirmed || got.Signature != nil {
		t.Fatalf("%+v", got)
	}
	if again := w.mustPay(r); again.ID == p.ID {
		t.Fatal("the idempotency key still stands for a retired payment")
	}
}

func TestNothingIsSignedWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.store.down = true
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
	if !errors.As(err, &f) || f.Payment != nil || !strings.Contains(f.Detail, "PURSER_FACILITATOR_URL") {
		t.Fatalf("got %v", err)
	}
	if _, err := w.payer.Pay(context.Background(), w.rest(pay.SettleSeller, "https://a.example/y", "100", "")); err != nil {
		t.Fatal(err)
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.payer.Close(ctx); err != nil {
		t.Fatal(err)
	}
}
