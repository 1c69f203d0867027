package notices

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/sandbox/hostile"
)

func most(units uint64) *policy.Cap { return policy.CapOf(money.New(units)) }

// asks has the seller ask for other terms, and take what is paid by them.
func asks(change func(*hostile.Terms)) []hostile.SellerFault {
	return []hostile.SellerFault{
		{Name: "other terms", On: hostile.Unpaid, Always: true, Do: func(v *hostile.Visit) { v.Challenge("Payment required", change) }},
		{Name: "takes them", On: hostile.Paid, Always: true, Do: func(v *hostile.Visit) {
			tx, _ := v.Settle()
			v.Deliver(v.Receipt(tx))
		}},
	}
}

// Each kind of notice comes once to each destination, with the words that people act by.
func TestEachKindIsToldOnce(t *testing.T) {
	t.Parallel()
	requireMailServer(t)
	chat, post := startChat(t), startMail(t)
	w := newWorld(t, append(post.settings(boss), chat.webhooks(), "PURSER_LOW_BALANCE=0.5")...)
	w.start()

	shop := w.customer("shop", rich, policy.Policy{DailyBudget: most(100)})
	w.bought(shop, 5, "")
	w.bought(shop, 3, "")
	w.bought(shop, 2, "")
	for _, key := range []string{"a", "b"} { // the second decline of the hour is not told
		if r := w.buy(shop, 1, key); r.Done || r.Reason != "daily-budget" {
			t.Fatal(r)
		}
	}
	w.await(pay.NoticeDeclined)

	jump := w.customer("jump", rich, policy.Policy{})
	w.bought(jump, 1, "a")
	w.settled("jump") // a price counts once the books have the payment
	w.Seller.Meet(asks(func(q *hostile.Terms) { q.Amount = "31" })...)
	w.bought(jump, 1, "b")
	w.Seller.Meet(asks(func(q *hostile.Terms) { q.PayTo = "0x2222222222222222222222222222222222222222" })...)
	w.bought(jump, 2, "")
	w.Calm()

	w.bought(w.customer("poor", 100_000, policy.Policy{}), 7, "")
	w.await(pay.NoticeLowBalance)

	silent := w.customer("silent", rich, policy.Policy{})
	w.Seller.Meet(hostile.SellerFault{Name: "hangs up", On: hostile.Paid, Always: true, Do: (*hostile.Visit).Reset})
	for order := range uint64(5) {
		if r := w.buy(silent, order+1, ""); r.Done {
			t.Fatal("the seller has answered")
		}
	}
	w.Calm()
	w.await(pay.NoticeUnansweredRun)

	gate := w.customer("gate", rich, policy.Policy{RequireApprovalAbove: most(10)})
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { // waited for through left
		defer close(left)
		gate.Buy(ctx, w.SellerURL, hostile.ProxyDoor, hostile.Order{ID: 2})
	}()
	w.await(pay.NoticeApproval)
	leave()
	<-left

	w.purser.Must(w.T, "pause", "--reason", "end of the month")
	w.purser.Must(w.T, "resume")

	liar := w.customer("liar", rich, policy.Policy{})
	w.Seller.Meet(hostile.InventsReceipt)
	w.bought(liar, 3, "")
	w.awaitWith(w.clock, pay.NoticeDisputed)

	lost := w.customer("lost", rich, policy.Policy{})
	w.Seller.Meet(hostile.SellerFault{Name: "hangs up", On: hostile.Paid, Always: true, Do: (*hostile.Visit).Reset})
	w.buy(lost, 4, "")
	w.RPC.Show(hostile.View{NoLogs: true, NoSafe: true})
	w.purser.End(t)
	w.purser.Settings = append(w.purser.Settings, "PURSER_RPC_URL=") // without a chain nothing more is known
	w.start()
	w.awaitWith(w.clock, pay.NoticeUnresolved)

	w.audit(chat, post)

	if out := w.purser.Must(w.T, "webhooks", "test"); strings.Contains(out, "failed") {
		t.Error(out)
	}
	for _, path := range chatPaths() {
		list := chat.got(path)
		if last := list[len(list)-1]; !strings.Contains(last.text, "This is a test") {
			t.Errorf("%s has no test, but %s", path, last.text)
		}
	}
}

// kinds lists what this test brings about, with words that each has for people.
func kinds() map[pay.NoticeKind][]string {
	return map[pay.NoticeKind][]string{
		pay.NoticeBudget50:      {"Key shop", "50 %", "0.00005 of 0.0001 USDC"},
		pay.NoticeBudget80:      {"Key shop", "80 %"},
		pay.NoticeBudget100:     {"Key shop", "100 %", "declines"},
		pay.NoticeDeclined:      {"key shop", "daily-budget", "0.00001 USDC"},
		pay.NoticeApproval:      {"Key gate asks to pay 0.00002 USDC", "Approve or deny it before"},
		pay.NoticeDisputed:      {"key liar", "0.00003 USDC", "did not move"},
		pay.NoticeUnresolved:    {"Key lost", "0.00004 USDC", "purser payments resolve"},
		pay.NoticeLowBalance:    {"key poor", "0.1", "0.50 USDC", "To refill it"},
		pay.NoticeNewHost:       {"for the first time", "0x"},
		pay.NoticeNewPayee:      {"key jump", "0x2222222222222222222222222222222222222222"},
		pay.NoticePriceJump:     {"Key jump", "0.000031 USDC", "0.00001 USDC the last time"},
		pay.NoticeUnansweredRun: {"Key silent has sent 5 payments in a row"},
		pay.NoticePaused:        {"purser makes no new payments", "end of the month"},
		pay.NoticeResumed:       {"purser makes new payments again"},
	}
}

// audit compares what the destinations have with the notices in the store.
func (w *world) audit(c *chat, post *mailServer) {
	w.Helper()
	all := w.events()
	for kind, words := range kinds() {
		of := slices.DeleteFunc(slices.Clone(all), func(n adminapi.Notice) bool { return n.Kind != kind })
		if len(of) == 0 || len(of) > 1 && kind != pay.NoticeNewHost { // each key has a first host
			w.Errorf("%d notices %s: %+v", len(of), kind, of)
			continue
		}
		for _, word := range words {
			if !strings.Contains(of[0].Title+"\n"+of[0].Text, word) {
				w.Errorf("%s has no %q: %s\n%s", kind, word, of[0].Title, of[0].Text)
			}
		}
	}
	for _, path := range chatPaths() {
		w.complete(path, all, func() ([]message, error) { return c.got(path), nil })
	}
	w.complete("mail", all, post.got)
	if faults := c.faults(); len(faults) > 0 {
		w.Errorf("%d messages were not understood, such as %s", len(faults), faults[0])
	}
}

// complete waits until a destination has all notices, and demands each once, in order of their numbers but for
// mail, in full, and with the page that it is about.
func (w *world) complete(name string, all []adminapi.Notice, got func() ([]message, error)) {
	w.Helper()
	var list []message
	process.Eventually(w.T, patience, func() string {
		var err error
		if list, err = got(); err != nil {
			w.Fatal(err)
		}
		if len(list) >= len(all) {
			return ""
		}
		return fmt.Sprintf("%s has %d messages of %d notices", name, len(list), len(all))
	})
	if len(list) != len(all) {
		w.Errorf("%s has %d messages of %d notices", name, len(list), len(all))
	}
	for _, n := range all {
		at := slices.IndexFunc(list, func(m message) bool { return m.id == n.ID })
		if at < 0 {
			w.Errorf("%s has no message of %s", name, n.Title)
			continue
		}
		m := list[at]
		if !strings.Contains(m.text, n.Title) || !strings.Contains(m.text, n.Text) {
			w.Errorf("%s has\n%s\ninstead of\n%s\n%s", name, m.text, n.Title, n.Text)
		}
		// That of an approval has a signed link, too, by which it is answered.
		if n.Kind == pay.NoticeApproval && !slices.ContainsFunc(m.link, func(l string) bool {
			return strings.HasPrefix(l, publicURL+"/dashboard/approve/"+n.ApprovalID+"#")
		}) {
			w.Errorf("%s has no link to answer by: %v", name, m.link)
		}
		if !slices.ContainsFunc(m.link, func(l string) bool { return strings.HasPrefix(l, publicURL+"/dashboard/") }) {
			w.Errorf("%s has no page of %s: %v", name, n.Title, m.link)
		}
	}
}
