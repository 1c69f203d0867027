package approvals

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox"
	"github.com/purserpay/purser/x402"
)

// A person approves by the command, and the money moves once. Denied, it stays, and the agent reads why.
func TestApprovedAndDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent("0.001")
	url := w.Money.SellerDirectURL() + cheap
	call := a.start(t.Context(), url)
	asked := a.pending(1)[0]
	if asked.Amount != fmt.Sprint(cheapPrice) || asked.URL != url || asked.Method != http.MethodGet {
		t.Errorf("asked about %+v", asked)
	}
	a.spent(0)
	w.Must(t, "approvals", "approve", asked.ID)
	a.paid(a.ended(call))
	a.spent(cheapPrice)
	if got := ofState(a, "used"); len(got) != 1 || got[0].ID != asked.ID || got[0].PaymentID == "" {
		t.Errorf("used: %+v", got)
	}

	call = a.start(t.Context(), url)
	again := a.pending(1)[0]
	w.Must(t, "approvals", "deny", again.ID, "--reason", "once is enough")
	got := a.ended(call)
	if id := a.declined(got, "approval-denied"); id != again.ID || !strings.Contains(got.Header.Get("Purser-Declined-Detail"), "once is enough") {
		t.Errorf("%v", got.Header)
	}
	a.declined(a.get(url), "approval-denied")
	a.spent(cheapPrice)
	w.End(t)
	w.Check(t)
}

func ofState(a *agent, state string) []adminapi.Approval {
	a.Helper()
	var page struct{ Approvals []adminapi.Approval }
	got, err := process.Ask(a.Context(), a.admin, http.MethodGet, "http://127.0.0.1/purser/approvals?limit=200&state="+state+a.ofKey(), "")
	if err == nil {
		err = got.Decode(http.StatusOK, &page)
	}
	a.must(err)
	return page.Approvals
}

// Without an answer in time nothing is paid, and the answer that comes later changes nothing.
func TestExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "PURSER_APPROVAL_EXPIRY=3s")
	a := w.newAgent("0.001")
	call := a.start(t.Context(), w.Money.SellerDirectURL()+cheap)
	asked := a.pending(1)[0]
	if got := a.ended(call); a.declined(got, "approval-needed") != asked.ID || !strings.Contains(got.Body, "in time") {
		t.Errorf("%s", got.Body)
	}
	if err := a.answers(asked.ID, pay.Approved); err == nil {
		t.Error("an approval was answered after its end")
	}
	a.spent(0)
}

// Only the price that a person has approved is paid, neither a higher one nor a lower one.
func TestPriceChangesWhileHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ above, first, then string }{{"0.001", cheap, dear}, {"0.015", dear, cheap}} {
		a, s := w.newAgent(c.above), w.newShop(c.first)
		call := a.start(t.Context(), s.URL+"/x")
		asked := a.pending(1)[0]
		s.good.Store(&c.then)
		a.must(a.answers(asked.ID, pay.Approved))
		got := a.ended(call)
		if id := a.declined(got, "approval-needed"); id == asked.ID || !strings.Contains(got.Body, "the seller asks for") {
			t.Errorf("%s", got.Body)
		}
		a.spent(0)
		s.good.Store(&c.first)
		a.paid(a.get(s.URL + "/x"))
		a.spent(map[string]uint64{cheap: cheapPrice, dear: dearPrice}[c.first])
	}
}

// A purser that is killed while a request waits pays nothing. It knows of the approval when it is back, and
// the repeat is paid once.
func TestKilledWhileHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent("0.001")
	url := w.Money.SellerDirectURL() + cheap
	call := a.start(t.Context(), url)
	asked := a.pending(1)[0]
	w.Kill()
	if got := a.ended(call); got.Status != 0 {
		t.Errorf("an answer of a killed purser: %+v", got)
	}
	w.Start(t, "PURSER_APPROVAL_WAIT=off")
	if id := a.declined(a.get(url), "approval-needed"); id != asked.ID {
		t.Errorf("the repeat names %s, not %s", id, asked.ID)
	}
	a.must(a.answers(asked.ID, pay.Approved))
	w.Kill()
	w.Start(t, "PURSER_APPROVAL_WAIT=off")
	a.spent(0) // no agent repeats it
	a.paid(a.get(url))
	a.spent(cheapPrice)
	a.declined(a.get(url), "approval-needed")
	w.End(t)
	w.Check(t)
	a.spent(cheapPrice)
}

// A request waits on across reloads and is paid by one answer, within the limits of the newest configuration. The end of the
// program ends a wait at once.
func TestReloadWhileHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent("0.001")
	url := w.Money.SellerDirectURL() + cheap
	call := a.start(t.Context(), url)
	asked := a.pending(1)[0]
	for range 3 {
		w.Must(t, "reload")
	}
	a.must(a.answers(asked.ID, pay.Approved))
	a.paid(a.ended(call))
	a.spent(cheapPrice)

	call = a.start(t.Context(), url+"?n=2")
	asked = a.pending(1)[0]
	lower := process.Shipped(t, process.AppBlock, process.AppBlock+"max_payment 0.005\n")
	w.Must(t, "reload", "--config", lower, "--adapter", "caddyfile", "--force")
	a.must(a.answers(asked.ID, pay.Approved))
	a.declined(a.ended(call), "per-payment")
	a.spent(cheapPrice)
	w.Must(t, "reload", "--config", process.Shipped(t), "--adapter", "caddyfile", "--force")
	a.paid(a.get(url + "?n=2")) // the approval was not used up

	began := time.Now()
	call = a.start(t.Context(), url)
	asked = a.pending(1)[0]
	w.End(t)
	if id := a.declined(a.ended(call), "approval-needed"); id != asked.ID {
		t.Errorf("at the end it names %s", id)
	}
	if took := time.Since(began); took > 20*time.Second { // the grace period is 30 s
		t.Errorf("it took %s", took)
	}
	a.spent(2 * cheapPrice)
	w.Check(t)
}

// By default a held request is answered before its client gives up. It says when to ask again, and the same request is paid
// once after the approval.
func TestHeldForLessThanClientsWait(t *testing.T) {
	t.Parallel()
	w := ask(sandboxed.New(t, process.Plain))
	a := w.newAgent("0.001")
	a.client.Timeout = 5 * time.Second // that of httpx
	url := w.Money.SellerDirectURL() + cheap
	held := a.get(url)
	id := a.declined(held, "approval-needed")
	if held.Header.Get("Retry-After") != "5" || !strings.Contains(held.Header.Get("Purser-Declined-Detail"), "Ask again with the same request") {
		t.Errorf("%v", held.Header)
	}
	if again := a.get(url); a.declined(again, "approval-needed") != id {
		t.Errorf("another approval: %v", again.Header)
	}
	a.must(a.answers(id, pay.Approved))
	a.paid(a.get(url))
	a.spent(cheapPrice)
	w.End(t)
	w.Check(t)
}

// As many requests as may be held are held at once. All of them are approved, and each is paid once.
func TestHundredAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent("0.001")
	var calls []<-chan process.Answer
	for i := range pay.MaxPendingApprovals {
		calls = append(calls, a.start(t.Context(), fmt.Sprintf("%s%s?n=%d", w.Money.SellerDirectURL(), cheap, i)))
	}
	asked := a.pending(pay.MaxPendingApprovals)
	if id := a.declined(a.get(w.Money.SellerDirectURL()+cheap+"?n=more"), "approval-needed"); id != "" {
		t.Errorf("a person is asked about one more: %s", id)
	}
	people, _ := errgroup.WithContext(context.Background())
	people.SetLimit(10)
	for _, one := range asked {
		people.Go(func() error { return a.answers(one.ID, pay.Approved) })
	}
	a.must(people.Wait())
	for _, call := range calls {
		a.paid(a.ended(call))
	}
	a.spent(pay.MaxPendingApprovals * cheapPrice)
	w.End(t)
	w.Check(t)
}

// The REST API and the sidecar hold payments as the proxy does. The sidecar's key has the configured limits.
func TestOtherDoors(t *testing.T) {
	t.Parallel()
	money, err := sandbox.Start(context.Background(), sandbox.Options{})
	process.CloseAtEnd(t, money, err)
	w := ask(sandboxed.On(t, money, process.Plain, "PURSER_UPSTREAM="+money.SellerDirectURL(), "PURSER_REQUIRE_APPROVAL_ABOVE=0.001", "PURSER_APPROVAL_WAIT=60s", "PURSER_FACILITATOR_URL="+money.FacilitatorURL()))
	a := w.newAgent("default")
	answered := make(chan process.Answer, 1)
	ask := func(method, url, body string, header ...string) {
		go func() {
			got, err := process.Ask(t.Context(), http.DefaultClient, method, url, body, header...)
			if err != nil {
				got.Body = err.Error()
			}
			answered <- got
		}()
	}

	unpaid, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, money.SellerDirectURL()+cheap, "")
	a.must(err)
	order, err := json.Marshal(map[string]string{
		"paymentRequiredHeader": unpaid.Header.Get(x402.HeaderRequired), "requestUrl": money.SellerDirectURL() + cheap, "settlement": "payer",
	})
	a.must(err)
	ask(http.MethodPost, w.URL("/v1/pay"), string(order), "X-Api-Key", a.key)
	a.must(a.answers(a.pending(1)[0].ID, pay.Approved))
	if got := a.ended(answered); got.Status != http.StatusOK || !strings.Contains(got.Body, `"settled":true`) {
		t.Fatalf("%+v", got)
	}
	a.spent(cheapPrice)

	a.id = ""
	ask(http.MethodGet, w.SidecarURL()+cheap, "")
	a.must(a.answers(a.pending(1)[0].ID, pay.Approved))
	a.paid(a.ended(answered))
	a.spent(2 * cheapPrice)
	w.End(t)
	w.Check(t)
}

// A purser that is killed at any place after the answer pays once, with the one approval. The repeat gets what
// was paid for.
func TestKilledAfterTheAnswer(t *testing.T) {
	t.Parallel()
	w := ask(sandboxed.New(t, process.Failpoints))
	a := w.newAgent("0.001")
	places := []string{failpoint.Journaled, failpoint.Signed, failpoint.ProxySending, failpoint.ProxyAnswered, failpoint.ProxyFinishing}
	for i, place := range places {
		w.Kill()
		url := fmt.Sprintf("%s%s?at=%d", w.Money.SellerDirectURL(), cheap, i)
		var asked adminapi.Approval
		w.KilledAt(t, place, func() {
			call := a.start(t.Context(), url)
			asked = a.pending(1)[0]
			_ = a.answers(asked.ID, pay.Approved) // purser may die before the person is answered
			a.ended(call)
		})
		clock := process.NewClock(t)
		w.Start(t, "PURSER_APPROVAL_WAIT=off", clock.Setting())
		clock.Forward(t, pay.LeaseTime+time.Second) // of the send that was killed
		process.Eventually(t, 20*time.Second, func() string {
			got := a.get(url)
			if reason := got.Header.Get("Purser-Declined"); got.Status != http.StatusOK && reason != "paid-not-delivered" && reason != "paid-before" {
				return fmt.Sprintf("%s: %d %s %s", place, got.Status, reason, got.Body)
			}
			return ""
		})
		if id := a.declined(a.get(url), "approval-needed"); id == asked.ID {
			t.Errorf("%s: the approval counts twice", place)
		}
		for _, more := range a.pending(1) {
			a.must(a.answers(more.ID, pay.Denied))
		}
		if used := ofState(a, "used"); len(used) != i+1 {
			t.Errorf("%s: %d approvals were used", place, len(used))
		}
		a.spent(uint64(i+1) * cheapPrice)
	}
	w.End(t)
	w.Check(t)
}
