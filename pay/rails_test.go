package pay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// Ways in which a seller asks to be paid.
const (
	byToken   = `{"scheme":"exact","extra":{"name":"USD Coin","version":"2"},%s}`
	byPermit2 = `{"scheme":"exact","extra":{"assetTransferMethod":"permit2"},%s}`
	byUpto    = `{"scheme":"upto","extra":{"assetTransferMethod":"permit2","facilitatorAddress":"0x3333333333333333333333333333333333333333"},%s}`
)

// asking is a challenge that can be paid in some ways, all for one amount.
func asking(t testing.TB, amount string, ways ...string) x402.Challenge {
	t.Helper()
	var accepts []string
	for _, way := range ways {
		accepts = append(accepts, fmt.Sprintf(way, fmt.Sprintf(`"network":"eip155:8453","amount":%q,
			"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913","payTo":%q,"maxTimeoutSeconds":60`, amount, testSeller)))
	}
	return must(x402.DecodeHeader(`{"x402Version":2,"resource":{"url":"https://api.example.com/r"},"accepts":[` + strings.Join(accepts, ",") + `]}`))
}

// asks is a request at the proxy whose seller asks in some ways.
func (w *world) asks(url, amount string, ways ...string) pay.Request {
	r := w.proxied(url, amount, "")
	r.Challenge = asking(w.t, amount, ways...)
	return r
}

func anyScheme(o *pay.Options) { o.Schemes = []string{x402.SchemeExact, x402.SchemeUpto} }

func authorizationOf(t testing.TB, a *pay.Attempt) x402.Authorization {
	t.Helper()
	got, _, err := a.Payload().Authorization()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The token's own transfer needs no allowance, so it is preferred whatever the seller's order.
func TestPermit2ComesAfterTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	for _, c := range []struct {
		ways []string
		want x402.Rail
	}{
		{[]string{byPermit2, byUpto, byToken}, x402.RailEIP3009},
		{[]string{byPermit2, byUpto}, x402.RailPermit2},
		{[]string{byUpto, byPermit2}, x402.RailUpto},
	} {
		a := w.mustOpen(w.asks("https://api.example.com/"+c.want.String(), "100", c.ways...))
		if got := authorizationOf(t, a); got.Rail != c.want || a.Payment().Authorization != got {
			t.Errorf("paid by %s, want %s", got.Rail, c.want)
		}
		a.Finish(true)
		w.quiet()
	}
	w.checkBooks()
}

func TestPermit2IsPaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.chain.allowance = 100
	r := w.asks("https://api.example.com/r", "100", byPermit2)
	a := w.mustOpen(r)
	p := a.Payment()
	if !strings.Contains(string(a.Payload().JSON), fmt.Sprintf(`"deadline":"%d"`, p.Authorization.ValidBefore-1)) {
		t.Errorf("Permit2 takes its message until the deadline and then no more: %s", a.Payload().JSON)
	}
	first := authorizationOf(t, a)
	a.Finish(false) // the answer is lost
	w.quiet()
	w.restart()

	a = w.mustOpen(r)
	if got := authorizationOf(t, a); got != first || a.Payment().ID != p.ID {
		t.Errorf("the repeat has %+v, want %+v", got, first)
	}
	tx := w.sellerMoves(a.Payload())
	a.Answer402("permit2_invalid_nonce")
	a.Finish(false)
	w.quiet()
	if got := w.payment(p.ID); got.State != pay.Settled || got.Transaction != tx {
		t.Errorf("%s in %s, want settled in %s", got.State, got.Transaction, tx)
	}
	w.recoverAll()
	if got := w.payment(p.ID); !got.Confirmed || w.chain.moves() != 1 {
		t.Errorf("%v, %d moves", got.Labels(), w.chain.moves())
	}
	w.checkBooks()
}

// A seller that says that there is no allowance may be wrong, or late: the payload has left.
func TestPermit2RefusedForItsAllowance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.chain.allowance = 100
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byPermit2))
	a.Answer402("permit2_allowance_required")
	a.Finish(false)
	w.quiet()
	id := a.Payment().ID
	if got := w.payment(id); got.State != pay.Open {
		t.Errorf("%v, want open", got.Labels())
	}
	w.recoverAll()
	if got := w.payment(id); got.State != pay.Void || got.Doubted {
		t.Errorf("%v, want void", got.Labels())
	}
	w.checkBooks()
}

// Open payments of Permit2 share what the contract may move. One that only a receipt calls settled still
// takes its part, and one that the chain shows has taken it from the allowance itself.
func TestPermit2SharesItsAllowance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 250
	open := func(n int, way string) (*pay.Attempt, error) {
		a, err := w.payer.Open(context.Background(), w.asks(fmt.Sprintf("https://api.example.com/%d", n), "100", way))
		if err == nil {
			a.Finish(true)
			w.quiet()
		}
		return a, err
	}
	lacks := func(err error) {
		t.Helper()
		if failed, is := errors.AsType[*pay.FailedError](err); !is || pay.Code(failed.Cause) != pay.CodeAllowance || !strings.Contains(failed.Detail, "open payments") {
			t.Errorf("got %v, want that the allowance is taken", err)
		}
	}
	first := must(open(1, byPermit2))
	must(open(2, byUpto))
	_, err := open(3, byPermit2)
	lacks(err)
	must(w.payer.PostReceipt(context.Background(), w.key, first.Payment().ID, x402.Receipt{Success: true, Network: "base", Transaction: invented(1)}))
	w.chain.advance(6 * time.Second)
	_, err = open(3, byUpto)
	lacks(err)
	must(open(4, byToken)) // the token asks for none
	w.sellerMoves(first.Payload())
	w.chain.allowance = 200 // as the token counts
	w.chain.advance(6 * time.Second)
	must(open(5, byPermit2))
	_, err = open(6, byPermit2)
	lacks(err)
	w.recoverAll()
	w.checkBooks()
}

func TestPermit2NeedsAnAllowance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) { o.Names.Approve = "purser wallets approve" })
	w.chain.allowance = 99
	_, err := w.payer.Open(context.Background(), w.asks("https://api.example.com/r", "100", byPermit2))
	var failed *pay.FailedError
	if !errors.As(err, &failed) || pay.Code(failed.Cause) != pay.CodeAllowance || failed.Payment != nil ||
		!strings.Contains(failed.Detail, "purser wallets approve "+w.store.wallet().ID) || !strings.Contains(failed.Detail, "0.000099 USDC") {
		t.Errorf("got %v", err)
	}
	if n := len(w.store.payments()); n != 0 {
		t.Errorf("%d payments were journaled", n)
	}
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byPermit2, byToken))
	a.Finish(true)
	w.quiet()

	// Without an answer the payment goes on: the seller finds out, and the chain tells later.
	w.chain.rpc(true, false)
	a = w.mustOpen(w.asks("https://api.example.com/other", "100", byPermit2))
	a.Finish(false)
	w.quiet()
}

// Only the chain tells what became of a message to Permit2, so nothing is paid so without an RPC.
func TestPermit2NeedsAnRPC(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*pay.Options){
		"no RPC":                 func(o *pay.Options) { o.Chain = nil },
		"one that knows no rail": func(o *pay.Options) { o.Chain = struct{ pay.Chain }{o.Chain} },
	} {
		w := newWorld(t, change)
		_, err := w.payer.Open(context.Background(), w.asks("https://api.example.com/r", "100", byPermit2))
		var unsupported *x402.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "RPC") {
			t.Errorf("%s: %v", name, err)
		}
		a := w.mustOpen(w.asks("https://api.example.com/r", "100", byPermit2, byToken))
		a.Finish(true)
		w.quiet()
	}
}

func TestUptoIsOffUnlessAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.chain.allowance = 1_000_000
	var unsupported *x402.UnsupportedError
	if _, err := w.payer.Open(context.Background(), w.asks("https://api.example.com/r", "100", byUpto)); !errors.As(err, &unsupported) {
		t.Errorf("got %v", err)
	}
}

// receipt makes the word of a seller on a payment.
func receipt(tx, amount string) x402.Receipt {
	said := must(money.Parse(amount))
	return x402.Receipt{Success: true, Network: "eip155:8453", Transaction: tx, Amount: &said}
}

func (w *world) spentToday() string {
	c := pay.DailyCounter(w.key.ID, "USDC", w.chain.clock())
	return must(w.store.Counter(context.Background(), c)).String()
}

// What scheme upto may take is reserved; what it has taken, by the chain's word, is booked.
func TestUptoBooksWhatWasCharged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says, booked string
		takes              uint64
	}{
		{"less", "30", "30", 30},
		{"all", "100", "100", 100},
		{"more than the receipt says", "1", "100", 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, anyScheme)
			w.chain.allowance = 1_000_000
			a := w.mustOpen(w.asks("https://api.example.com/r", "100", byUpto))
			if got := w.spentToday(); got != "100" {
				t.Errorf("%s is reserved", got)
			}
			tx := must(w.chain.charge(authorizationOf(t, a), c.takes))
			a.Receipt(receipt(tx, c.says))
			a.Finish(true)
			w.quiet()
			id := a.Payment().ID
			if got := w.payment(id); got.State != pay.Open || got.Check.After(w.chain.clock().Add(5*time.Second)) {
				t.Errorf("%v before the chain has told, next look at %s", got.Labels(), got.Check)
			}
			w.chain.advance(5 * time.Second)
			w.recoverOnce()
			got := w.payment(id)
			events := w.store.events()
			if got.State != pay.Settled || got.Moved().String() != c.booked || len(events) != 1 || events[0].Amount.String() != c.booked {
				t.Errorf("%v of %s, booked as %+v", got.Labels(), got.Moved(), events)
			}
			if spent := w.spentToday(); spent != "100" {
				t.Errorf("the budget has %s, though the chain may take the block back", spent)
			}
			w.chain.advance(45 * time.Second)
			w.recoverOnce()
			if got := w.payment(id); !got.Confirmed || !w.chain.clock().Before(got.ValidBefore()) {
				t.Errorf("%v before the validity is over, at a safe block", got.Labels())
			}
			if spent := w.spentToday(); spent != c.booked {
				t.Errorf("the budget has %s in the end", spent)
			}
			w.checkBooks()
		})
	}
}

// A reorganization can bring another amount than the one that was booked. The budgets have what the safe
// block tells, and the payment's story says so.
func TestUptoChargedAnewAfterAReorganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byUpto))
	auth := authorizationOf(t, a)
	a.Receipt(receipt(must(w.chain.charge(auth, 30)), "30"))
	a.Finish(true)
	w.quiet()
	w.chain.advance(5 * time.Second)
	w.recoverOnce()
	if got, spent := w.payment(a.Payment().ID), w.spentToday(); got.State != pay.Settled || spent != "100" {
		t.Fatalf("%v, and the budget has %s", got.Labels(), spent)
	}
	w.chain.mu.Lock()
	w.chain.charged[auth.Nonce] = money.New(90)
	w.chain.mu.Unlock()
	w.recoverAll()
	got := w.payment(a.Payment().ID)
	if spent := w.spentToday(); !got.Confirmed || spent != "90" {
		t.Errorf("%v, and the budget has %s", got.Labels(), spent)
	}
	if !slices.ContainsFunc(got.Notes, func(n pay.Note) bool { return strings.Contains(n.Text, "90") }) {
		t.Errorf("%+v", got.Notes)
	}
	if faults := w.store.Check(context.Background()); faults != nil {
		t.Error(faults)
	}
}

// A seller may take nothing. Then nothing settles, and the end of the validity tells.
func TestUptoChargesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byUpto))
	a.Receipt(receipt("", "0"))
	a.Finish(true)
	w.quiet()
	id := a.Payment().ID
	w.chain.advance(5 * time.Second)
	w.recoverOnce()
	if got := w.payment(id); got.State != pay.Open || w.spentToday() != "100" {
		t.Errorf("%v, %s in the budget: it could still be charged", got.Labels(), w.spentToday())
	}
	w.recoverAll()
	if got := w.payment(id); got.State != pay.Void || w.spentToday() != "0" || len(w.store.events()) != 0 {
		t.Errorf("%v, %s in the budget", got.Labels(), w.spentToday())
	}
	w.checkBooks()
}

// A settlement of nothing spends the nonce. The books have nothing for it, not the amount that was signed.
func TestUptoSettledForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byUpto))
	a.Receipt(receipt(must(w.chain.charge(authorizationOf(t, a), 0)), "0"))
	a.Finish(true)
	w.quiet()
	w.chain.advance(5 * time.Second)
	w.recoverOnce()
	w.recoverAll()
	if got := w.payment(a.Payment().ID); got.State != pay.Void || got.Doubted || w.spentToday() != "0" || len(w.store.events()) != 0 {
		t.Errorf("%v, %s in the budget, events %+v", got.Labels(), w.spentToday(), w.store.events())
	}
	w.checkBooks()
}

// Our own facilitator settles scheme upto for all that was signed, if the seller named it.
func TestUptoByOurFacilitator(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	r := w.rest(pay.SettlePayer, "https://api.example.com/r", "100", "")
	r.Challenge = asking(t, "100", byUpto)
	a := w.mustBegin(r)
	if got := a.Payment(); got.State != pay.Settled || got.Moved().String() != "100" || !got.Charged.IsZero() {
		t.Errorf("%v of %s", got.Labels(), got.Moved())
	}
	a.Finish(true)
	w.quiet()
	w.checkBooks()
}

// An operator cancels a message to Permit2 by a transaction of the wallet, which no signature can stand for.
func TestPermit2IsCanceled(t *testing.T) {
	t.Parallel()
	w, c := newPool(t, nil)
	c.allowed = money.New(1_000_000)
	a := w.mustOpen(w.asks("https://api.example.com/r", "100", byPermit2))
	a.Finish(false)
	w.quiet()
	p := a.Payment()
	var uncancelable *pay.UncancelableError
	order := treasury.Cancel{Wallet: w.store.wallet(), PaymentID: p.ID, Sign: true}
	if _, err := treasury.Of(w.payer).Cancel(context.Background(), order); !errors.As(err, &uncancelable) {
		t.Errorf("a signed cancellation: %v", err)
	}
	w.mustCancel(p.ID)
	tx := c.sent[0]
	if x402.EVMAddress(*tx.To()) != x402.Permit2 || !bytes.Equal(tx.Data(), p.Authorization.GiveUpCall()) {
		t.Errorf("sent %x to %s", tx.Data(), tx.To())
	}
	if got := w.payment(p.ID); got.State != pay.Open {
		t.Errorf("%v, and the chain has not told yet", got.Labels())
	}
}

// What was paid through Permit2 after a backup is booked from the chain, with what moved.
func TestPermit2IsReconciled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyScheme)
	w.chain.allowance = 1_000_000
	backup, taken := w.store.snapshot(), w.chain.clock()
	w.chain.advance(time.Minute)
	exact := w.mustOpen(w.asks("https://api.example.com/exact", "100", byPermit2))
	must(w.chain.move(authorizationOf(t, exact)))
	exact.Finish(true)
	order := w.rest(pay.SettleSeller, "https://api.example.com/upto", "100", "metered")
	order.Challenge = asking(t, "100", byUpto)
	upto := w.mustBegin(order)
	must(w.chain.charge(authorizationOf(t, upto), 30))
	upto.Finish(true)
	w.idle()
	w.restore(backup, taken, false)
	w.chain.advance(time.Hour)
	w.mustReconcile()
	booked := map[string]string{}
	for _, p := range w.store.payments() {
		booked[p.Authorization.Rail.String()+" "+p.Terms.Scheme] = p.Moved().String()
	}
	if len(booked) != 2 || booked["permit2 exact"] != "100" || booked["upto upto"] != "30" || len(w.store.events()) != 2 {
		t.Errorf("booked %v", booked)
	}
	again := w.mustBegin(order)
	if p := again.Payment(); !p.Reconciled || p.Moved().String() != "30" {
		t.Errorf("the repeat of what the seller took less for: %+v", p)
	}
	again.Finish(true)
	order.Challenge = asking(t, "29", byUpto)
	if _, err := w.payer.Pay(t.Context(), order); !errors.Is(err, pay.ErrIdempotencyReused) {
		t.Errorf("a maximum below what was taken: %v", err)
	}
	w.checkBooks()
}
