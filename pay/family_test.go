package pay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// bears makes a child of the world's key, which draws from the same wallet.
func (w *world) bears(own policy.Policy) pay.Key {
	k, _, err := w.books.CreateKey(context.Background(), books.KeyRequest{
		Label: "child", Policy: &own, Parent: w.key.ID, Operator: w.key.Operator, OrganizationID: w.key.OrganizationID,
	})
	if err == nil {
		err = w.books.ShareWallet(context.Background(), w.store.wallet().ID, k.ID)
	}
	return must(k, err)
}

// buysAs begins a payment of a key.
func (w *world) buysAs(k pay.Key, b buy) error {
	r := w.request(b)
	r.Key = must(w.store.Key(context.Background(), k.ID))
	a, err := w.payer.Open(context.Background(), r)
	if err == nil {
		a.Finish(true)
		w.quiet()
	}
	return err
}

// At every door, a payment of a child needs room in its own budgets and in those of its parent, and takes of both.
func TestChildrenShareBudgets(t *testing.T) {
	t.Parallel()
	for _, door := range allDoors {
		w := newWorld(t, nil)
		w.at("2026-11-30T12:00:00Z")
		w.set(policy.Policy{DailyBudget: usdc(20), MaxPayment: usdc(3), Tasks: map[string]policy.Budget{"nightly": totalOf(6, "", false)}})
		first, second := w.bears(policy.Policy{DailyBudget: usdc(12)}), w.bears(policy.Policy{HourlyBudget: usdc(100)})
		buys := func(k pay.Key, amount uint64, task, path, want string) error {
			t.Helper()
			err := w.buysAs(k, buy{door: door, amount: amount, task: task, url: "https://api.example.com/" + path})
			if rule(err) != want {
				t.Fatalf("%s: got %v, want %q", path, err, want)
			}
			return err
		}
		_ = buys(first, 10, "", "1", "") // the parent's limit of one payment is its own
		_ = buys(first, 3, "", "2", "daily-budget")
		_ = buys(second, 5, "nightly", "3", "")
		if err := buys(second, 2, "nightly", "4", "task-total"); !strings.Contains(err.Error(), "the parent key "+w.key.Name()+": ") {
			t.Fatal(err)
		}
		_ = buys(second, 6, "", "5", "daily-budget")
		_ = buys(w.key, 3, "", "6", "")
		_ = buys(w.key, 3, "", "7", "daily-budget")
		_ = buys(second, 2, "", "8", "")
		shared := must(limits.OfParent(context.Background(), w.payer, second, door))
		if len(shared) != 2 || !shared[0].Parent || shared[0].Spent.String() != "20" || shared[1].Left.String() != "1" {
			t.Fatalf("%+v", shared)
		}
		w.chain.advance(24 * time.Hour)
		_ = buys(first, 12, "", "9", "")
		w.checkBooks()
	}
}

// A stop of the parent stops its children at once. A stop of a child leaves the others.
func TestChildrenStopWithTheirParent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := w.bears(policy.Policy{}), w.bears(policy.Policy{})
	stop := func(k pay.Key, do pay.Stop) {
		t.Helper()
		reason := ""
		if do == pay.StopPause {
			reason = "lunch"
		}
		if _, err := w.books.StopKey(context.Background(), k.ID, pay.KeyStop{Do: do, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	buys := func(k pay.Key, path string) error {
		return w.buysAs(k, buy{door: policy.DoorProxy, amount: 1, url: "https://api.example.com/" + path})
	}
	stop(w.key, pay.StopPause)
	if err := buys(first, "1"); rule(err) != pay.RulePaused || !strings.Contains(err.Error(), "is paused: lunch") {
		t.Fatal(err)
	}
	stop(w.key, pay.StopResume)
	stop(first, pay.StopRevoke)
	if err := buys(second, "2"); err != nil {
		t.Fatal(err)
	}
	stop(w.key, pay.StopRevoke)
	if err := buys(second, "3"); !errors.Is(err, pay.ErrKeyNotFound) {
		t.Fatal(err)
	}
}

// The secret of a revoked parent's child finds no key.
func TestChildOfARevokedKeyIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	k, secret, err := w.books.CreateKey(context.Background(), books.KeyRequest{Parent: w.key.ID, Operator: w.key.Operator, OrganizationID: w.key.OrganizationID})
	if err != nil {
		t.Fatal(err)
	}
	if got := must(w.payer.Resolve(context.Background(), secret)); got.ID != k.ID {
		t.Fatal(got)
	}
	if _, err := w.books.StopKey(context.Background(), w.key.ID, pay.KeyStop{Do: pay.StopRevoke}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.payer.Resolve(context.Background(), secret); !errors.Is(err, pay.ErrKeyNotFound) {
		t.Fatal(err)
	}
}

// People are told once that the budget of a parent is used, whichever of its children pays.
func TestTellingOfSharedBudgets(t *testing.T) {
	t.Parallel()
	w := newTelling(t, nil)
	w.set(policy.Policy{DailyBudget: usdc(100)})
	first, second := w.bears(policy.Policy{}), w.bears(policy.Policy{})
	for path, k := range map[string]pay.Key{"a": first, "b": second, "c": first} {
		if err := w.buysAs(k, buy{door: policy.DoorProxy, amount: 30, url: "https://api.example.com/" + path}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.buysAs(second, buy{door: policy.DoorProxy, amount: 30, url: "https://api.example.com/z"}); rule(err) != "daily-budget" {
		t.Fatal(err)
	}
	w.tells(pay.NoticeBudget50, 1, "Key "+w.key.Name()+" has used 60 %")
	w.tells(pay.NoticeBudget80, 1, "Key "+w.key.Name()+" has used 90 %")
	w.tells(pay.NoticeBudget100, 1, "Key "+w.key.Name()+" has used 90 %")
}

// After a restore, what the chain tells of a child counts in the budgets of both.
func TestReconcilingCountsForTheFamily(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	child := w.bears(policy.Policy{})
	w.set(policy.Policy{HourlyBudget: usdc(100)})
	backup, taken := w.store.snapshot(), w.chain.clock()
	for amount, k := range map[string]pay.Key{"7": child, "5": w.key} {
		r := w.proxied("https://one.example/"+amount, amount, "")
		r.Key = k
		w.settles(r)
	}
	w.restore(backup, taken, true)
	w.chain.advance(10 * time.Minute)
	w.mustReconcile()
	hour := pay.Counter("hour/" + w.key.ID + "/USDC/" + taken.UTC().Format("2006-01-02T15"))
	for c, want := range map[pay.Counter]string{pay.DailyCounter(w.key.ID, "USDC", taken): "12", pay.DailyCounter(child.ID, "USDC", taken): "7", hour: "12"} {
		if got := w.counter(c); got != want {
			t.Errorf("%s is %s, want %s", c, got, want)
		}
	}
	w.checkBooks()
}
