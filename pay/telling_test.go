package pay_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// newTelling is a world that tells people. Its key pays at most 1,000 on a day.
func newTelling(t *testing.T, change func(*pay.Options)) *world {
	t.Helper()
	w := newWorld(t, func(o *pay.Options) {
		o.Telling.On = true
		if change != nil {
			change(o)
		}
	})
	w.set(policy.Policy{DailyBudget: usdc(1000)})
	return w
}

// notices lists the notices of some kinds, oldest first; without kinds all.
func (w *world) notices(kinds ...pay.NoticeKind) (list []pay.Notice) {
	w.t.Helper()
	for _, n := range must(w.store.NoticesAfter(context.Background(), 0, 1000)) {
		if len(kinds) == 0 || slices.Contains(kinds, n.Kind) {
			list = append(list, n)
		}
	}
	return list
}

// tells closes the payer, so that all is written, and demands the notices of a kind: so many, with these
// words in the last one.
func (w *world) tells(kind pay.NoticeKind, times int, words ...string) {
	w.t.Helper()
	w.restart()
	list := w.notices(kind)
	if len(list) != times {
		w.t.Fatalf("%d notices %s, want %d: %+v", len(list), kind, times, list)
	}
	for _, word := range words {
		if last := list[len(list)-1]; !strings.Contains(last.Title+" "+last.Text, word) {
			w.t.Errorf("no %q in %q", word, last.Text)
		}
	}
}

// bought pays at the proxy's door. answered: the seller has settled and delivered.
func (w *world) bought(url, amount string, answered bool) {
	w.t.Helper()
	a := w.mustOpen(w.proxied(url, amount, ""))
	if answered {
		a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: w.sellerMoves(a.Payload())})
	}
	a.Finish(answered)
	w.quiet()
}

func TestTellingOfBudgets(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	w.bought("https://a.example/1", "500", true)
	w.tells(pay.NoticeBudget50, 1, "Key test", "50 %", "daily budget", "0.0005")
	w.bought("https://a.example/2", "300", true)
	w.tells(pay.NoticeBudget80, 1)
	refused := func() {
		if _, err := w.payer.Open(t.Context(), w.proxied("https://a.example/3", "300", "")); rule(err) != "daily-budget" {
			t.Fatal(err)
		}
	}
	refused()
	refused()
	w.tells(pay.NoticeBudget100, 1, "declines")
	w.set(policy.Policy{DailyBudget: usdc(1200)})
	w.bought("https://a.example/3", "400", true)
	w.tells(pay.NoticeBudget100, 2) // of the raised budget
	w.chain.advance(24 * time.Hour)
	w.bought("https://a.example/4", "1200", true)
	w.tells(pay.NoticeBudget100, 3)
	if n := len(w.notices(pay.NoticeBudget50, pay.NoticeBudget80)); n != 2 {
		t.Errorf("a payment that crosses all parts tells %d smaller ones", n-2)
	}
}

// A payment that has moved its money and brought nothing is told from the first one on, with the rate of its host.
func TestTellingOfUndelivered(t *testing.T) {
	t.Parallel()
	heard := newEars()
	w := newTelling(t, func(o *pay.Options) { o.Observer = heard })
	buys := func(path string, receipt bool, failed *pay.Undelivered) *pay.Payment {
		a := w.mustOpen(w.proxied("https://a.example/"+path, "10", ""))
		moved := w.sellerMoves(a.Payload())
		if receipt {
			a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: moved})
		}
		a.Failed(failed)
		a.Finish(failed == nil)
		w.quiet()
		return w.payment(a.Payment().ID)
	}
	buys("1", true, nil)
	buys("2", true, &pay.Undelivered{Status: 500})
	w.tells(pay.NoticeUndelivered, 1, "Key test has paid 0.00001 USDC to a.example", "the seller answered 500", "1 of the last 2 payments")
	silent := buys("3", false, &pay.Undelivered{})
	if !slices.Equal(silent.Labels(), []string{"open", "undelivered"}) {
		t.Errorf("%v", silent.Labels())
	}
	w.tells(pay.NoticeUndelivered, 1) // nothing says that its money moved
	w.chain.advance(10 * time.Minute)
	w.recoverOnce()
	w.tells(pay.NoticeUndelivered, 2, "no answer came", "2 of the last 3 payments")
	if n := heard.count("undelivered"); n != 2 {
		t.Errorf("%d were counted", n)
	}
}

// A client that asks on after its budget is used does not have the store written to each time.
func TestTellingOfRefusalsOnce(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	w.bought("https://a.example/1", "1000", true)
	before := w.store.told.Load()
	for range 20 {
		if _, err := w.payer.Open(t.Context(), w.proxied("https://a.example/2", "300", "")); rule(err) != "daily-budget" {
			t.Fatal(err)
		}
		w.quiet()
	}
	w.tells(pay.NoticeBudget100, 1)
	if n := w.store.told.Load() - before; n > 1 {
		t.Errorf("%d writes", n)
	}
}

// Five payments in a row without an answer are told, also if purser is started anew between them. An
// answer ends the row.
func TestTellingOfUnanswered(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	urls := []string{"https://a.example/1", "https://a.example/2", "https://a.example/3", "https://a.example/4"}
	for _, url := range urls {
		w.bought(url, "1", false)
	}
	w.tells(pay.NoticeUnansweredRun, 0)
	w.bought("https://a.example/5", "1", true)
	for _, url := range urls {
		w.bought(url+"/again", "1", false)
	}
	w.bought("https://b.example/1", "1", false)
	w.tells(pay.NoticeUnansweredRun, 0)
	w.bought("https://a.example/6", "1", false)
	w.bought("https://a.example/7", "1", false)
	w.tells(pay.NoticeUnansweredRun, 1, "a.example has left 5 payments in a row unanswered", "Key test")
}

// What a client pays for by itself is unanswered until it hands in the receipt.
func TestTellingOfReceiptsToCome(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	for _, path := range []string{"1", "2", "3", "4", "5", "6"} {
		a := w.mustBegin(w.rest(pay.SettleSeller, "https://a.example/"+path, "1", ""))
		a.Finish(true)
		w.quiet()
	}
	w.tells(pay.NoticeUnansweredRun, 0)
}

func TestTellingOfDeclines(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	price := money.New(2_500_000)
	d := pay.Decline{KeyID: w.key.ID, Reason: "per-payment", Host: "a.example", Price: &price, Detail: "2.50 USDC is more than 1.00 USDC"}
	for range 3 {
		w.payer.NoteDecline(d)
	}
	for _, quiet := range []string{"paused", "approval-needed", "approval-denied", "caller-gone"} {
		w.payer.NoteDecline(pay.Decline{KeyID: w.key.ID, Reason: quiet, Host: "a.example"})
	}
	w.payer.NoteDecline(pay.Decline{Reason: "per-payment", Host: "a.example"}) // without a key
	w.tells(pay.NoticeDeclined, 1, "key test", "a.example", "2.50 USDC", "per-payment")
	w.payer.NoteDecline(d) // as after a crash: the store knows
	w.tells(pay.NoticeDeclined, 1)
	d.Reason = "hosts"
	w.payer.NoteDecline(d)
	w.tells(pay.NoticeDeclined, 2)
	w.chain.advance(time.Hour)
	w.payer.NoteDecline(d)
	w.tells(pay.NoticeDeclined, 3)
}

func TestTellingOfHostsPayeesAndPrices(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	w.bought("https://a.example/x", "10", true)
	w.chain.advance(2 * time.Hour)
	w.bought("https://a.example/x", "20", true)
	w.chain.advance(2 * time.Hour)
	w.tells(pay.NoticeNewHost, 1, "Key test pays", "a.example", testSeller)
	w.tells(pay.NoticePriceJump, 0) // twice the price is not more than twice
	w.bought("https://a.example/x", "41", true)
	w.tells(pay.NoticePriceJump, 1, "0.000041 USDC", "0.00002 USDC")
	r := w.proxied("https://a.example/y", "10", "")
	r.Challenge.Accepts[0].PayTo = x402.EVMAddress([20]byte(append([]byte{0x22}, r.Challenge.Accepts[0].PayTo.Bytes()[1:]...)))
	w.mustOpen(r).Finish(true)
	w.quiet()
	w.tells(pay.NoticeNewPayee, 1, "0x2211111111111111111111111111111111111111", "a.example")
	w.tells(pay.NoticeNewHost, 1)
}

func TestTellingOfLowBalances(t *testing.T) {
	t.Parallel()
	mark := money.New(2_000_000_000) // the chain has half of it
	w := newTelling(t, func(o *pay.Options) { o.Telling.LowBalance = &mark })
	look := func() {
		w.t.Helper()
		w.chain.advance(time.Minute)
		must(w.payer.WalletBalance(t.Context(), w.store.wallet()))
	}
	look()
	look()
	w.tells(pay.NoticeLowBalance, 1, "key test", "1000.00 USDC", "2000.00 USDC", w.store.wallet().Address.String())
	look()
	w.tells(pay.NoticeLowBalance, 1) // as after a crash
	mark = money.New(1)
	w.restart()
	look() // enough
	mark = money.New(2_000_000_000)
	w.restart()
	look()
	w.tells(pay.NoticeLowBalance, 2)
}

// Where a network has several tokens, what a wallet has of all of them counts.
func TestTellingOfLowBalancesOfSeveralTokens(t *testing.T) {
	t.Parallel()
	base, _ := x402.NetworkByWire("base")
	base.Assets = append(base.Assets, x402.Asset{Symbol: "USDx", Unit: "USDC", Decimals: 6, Address: x402.EVMAddress([20]byte{0xaa})})
	mark := money.New(1_500_000_000) // the chain has two thirds of it of each token
	w := newTelling(t, func(o *pay.Options) { o.Telling.LowBalance, o.Networks = &mark, []x402.Network{base} })
	look := func() {
		w.t.Helper()
		w.chain.advance(time.Minute)
		must(w.payer.WalletBalance(t.Context(), w.store.wallet()))
	}
	look()
	w.tells(pay.NoticeLowBalance, 0)
	mark = money.New(2_500_000_000)
	w.restart()
	look()
	for deadline := time.Now().Add(10 * time.Second); len(w.notices(pay.NoticeLowBalance)) == 0 && time.Now().Before(deadline); {
		runtime.Gosched() // no payment waits for the other balance
	}
	w.tells(pay.NoticeLowBalance, 1, "key test", "2000.00 USDC", "2500.00 USDC", "send USDC or USDx on base")
}

// Outcomes tell in the transaction that writes them.
func TestTellingOfOutcomes(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	a := w.mustOpen(w.proxied("https://a.example/x", "100", ""))
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: "0x" + strings.Repeat("ab", 32)}) // a lie
	a.Finish(true)
	w.quiet()
	w.recoverAll()
	w.tells(pay.NoticeDisputed, 1, "key test", "0.0001 USDC", "a.example")

	blind := newTelling(t, func(o *pay.Options) { o.Chain = nil })
	blind.mustOpen(blind.proxied("https://a.example/x", "100", "")).Finish(false)
	blind.quiet()
	blind.chain.advance(5 * time.Minute)
	blind.recoverAll()
	blind.tells(pay.NoticeUnresolved, 1, "Key test", "0.0001 USDC", "a.example", "resolve")
}

// A payer that is not told to tell writes no notices.
func TestTellingNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(1000)})
	w.bought("https://a.example/x", "1000", false)
	w.payer.NoteDecline(pay.Decline{KeyID: w.key.ID, Reason: "hosts"})
	w.restart()
	if list := w.notices(); len(list) != 0 {
		t.Errorf("told %+v", list)
	}
}

// Labels and hosts are the words of others: a command in a notice stays one command, about the key that
// the notice is about.
func TestTellingCommands(t *testing.T) {
	t.Parallel()
	const itself = "its id"
	for label, want := range map[string]string{
		"a'b $(date)": `'a'\''b $(date)'`, "agent-7": "agent-7", "exec-2": "exec-2", "ünter": "'ünter'",
		"--yes": itself, "-": itself, "-rf /": itself, // flags
		"a\x1b[201~date\r": itself, "a\nb": itself, "a\u202eb": itself, "agent\u200b-7": itself, " a": itself, // not what is seen
		"exec": itself, "exe\u200bc": itself, "": itself, // another key
		"0199a1b2": itself, "0199A1B2-0000-7000-8000-000000000000": itself,
	} {
		w := newTelling(t, nil)
		w.key, _, _ = w.books.CreateKey(t.Context(), books.KeyRequest{Label: label})
		if must(w.books.CreateWallet(t.Context(), w.key, "base")); want == itself {
			want = w.key.ID
		}
		w.bought("https://a.example/x", "10", true)
		w.tells(pay.NoticeNewHost, 1, "purser keys pause "+want+", or forbid the host with purser limits "+want+" --add-deny-host a.example.")
	}
	for host, want := range map[string]string{"-x.example": "HOST", "a'$(id)": `'a'\''$(id)'`} {
		w := newTelling(t, nil)
		w.bought("https://"+host+"/x", "10", true)
		w.tells(pay.NoticeNewHost, 1, " --add-deny-host "+want+".")
	}
}
