package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// heldWorld has a key that needs approvals above half of the usual price.
type heldWorld struct {
	*world
	store pay.Store
}

func newHeld(t *testing.T, wait time.Duration, change ...func(*setup)) *heldWorld {
	t.Helper()
	var store pay.Store
	w := newWorld(t, append(change, func(s *setup) {
		s.store = func(own pay.Store) pay.Store { store = own; return own }
		s.pay.DefaultPolicy = policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(5_000))}
		s.pay.ApprovalWait, s.pay.NoPlans = wait, true
	})...)
	w.door = w.transport(nil, TransportOptions{PayOptions: PayOptions{Admission: admission.Options{Concurrent: 1, Queued: 200}}})
	return &heldWorld{w, store}
}

// start sends a request that will wait.
func (w *heldWorld) start(r *http.Request) <-chan proxytest.Answer {
	answered := make(chan proxytest.Answer, 1)
	go func() { answered <- w.send(w.door, w.Key, r) }()
	return answered
}

// waiting waits until people were asked about n payments.
func (w *heldWorld) waiting(n int) {
	w.T.Helper()
	proxytest.Eventually(w.T, "calls are held", func() bool { return len(w.pending()) == n })
}

func (w *heldWorld) ended(c <-chan proxytest.Answer) proxytest.Answer {
	w.T.Helper()
	select {
	case a := <-c:
		return a
	case <-time.After(20 * time.Second):
		w.T.Fatal("the call goes on")
		return proxytest.Answer{}
	}
}

func (w *heldWorld) pending() []pay.Approval {
	w.T.Helper()
	list, err := w.store.Approvals(context.Background(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: 200})
	if err != nil {
		w.T.Fatal(err)
	}
	return list
}

func (w *heldWorld) answer(id string, answer pay.ApprovalAnswer) {
	w.T.Helper()
	ctx := pay.WithActor(context.Background(), pay.Operator("ada"))
	if _, err := w.Payer.AnswerApproval(ctx, pay.ApprovalAnswering{ID: id, Answer: answer}); err != nil {
		w.T.Fatal(err)
	}
}

func TestHeldRequestIsPaidOnceApproved(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		for _, v1 := range []bool{false, true} {
			t.Run(fmt.Sprint(method, " v1 ", v1), func(t *testing.T) {
				t.Parallel()
				w, s := newHeld(t, time.Minute), proxytest.NewSeller(t, func(s *proxytest.Seller) { s.V1 = v1 })
				var body io.Reader
				if method == "POST" {
					body = strings.NewReader("a question")
				}
				call := w.start(proxytest.Request(t, method, s.URL+"/x", body))
				w.waiting(1)
				s.Expect(1, 0, 0)
				// A call that waits takes no room from others.
				if a := w.get(s.URL + "/free"); a.StatusCode != 200 {
					t.Errorf("beside it: %d", a.StatusCode)
				}
				asked := w.pending()[0]
				w.answer(asked.ID, pay.Approved)
				a := w.ended(call)
				id := a.Paid(t)
				s.Expect(2, 1, 1) // the seller was asked for its terms once more
				if len(w.Payments()) != 1 || method == "POST" && s.Bodies[0] != "a question" {
					t.Errorf("%d payments, for %q", len(w.Payments()), s.Bodies)
				}
				if used, err := w.store.Approval(t.Context(), asked.ID); err != nil || used.PaymentID != id {
					t.Errorf("the approval is %+v, %v", used, err)
				}
			})
		}
	}
}

// A seller that asks by x402 first, and by MPP when it is asked again, sells the same for the same money: a person is
// asked once.
func TestHeldRequestOfASellerThatChangesItsProtocol(t *testing.T) {
	t.Parallel()
	s := newCharges(t, func(s *charges) {
		s.alter = func(h http.Header) {
			if s.n == 1 {
				h.Del(mpp.HeaderChallenge)
				h.Set(x402.HeaderRequired, proxytest.V2Challenge("10000", s.URL+"/x", ""))
			}
		}
	})
	w := newHeld(t, time.Minute, func(o *setup) { o.pay.Chain = s.ledger })
	call := w.start(proxytest.Request(t, "GET", s.URL+"/x", nil))
	w.waiting(1)
	asked := w.pending()[0]
	w.answer(asked.ID, pay.Approved)
	id := w.ended(call).Paid(t)
	s.expect(1, 1, 1)
	if used, err := w.store.Approval(t.Context(), asked.ID); err != nil || used.PaymentID != id || used.Terms.Scheme != x402.SchemeExact {
		t.Errorf("the approval is %+v, %v", used, err)
	}
	if row := w.Payments()[0]; row.Terms.Scheme != x402.SchemeCharge {
		t.Errorf("paid by %+v", row.Terms)
	}
}

func TestHeldRequestThatIsNotApproved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, reason string
		wait         time.Duration
		end          func(w *heldWorld, id string)
	}{
		{"denied", "approval-denied", time.Minute, func(w *heldWorld, id string) { w.answer(id, pay.Denied) }},
		{"no answer", "approval-needed", 20 * time.Millisecond, func(*heldWorld, string) {}},
		{"the configuration ends", "approval-needed", time.Minute, func(w *heldWorld, _ string) { w.Payer.StopWaiting() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, s := newHeld(t, c.wait), proxytest.NewSeller(t)
			call := w.start(proxytest.Request(t, "GET", s.URL+"/x", nil))
			w.waiting(1)
			asked := w.pending()[0]
			c.end(w, asked.ID)
			a := w.ended(call)
			a.Declined(t, c.reason, true)
			s.Expect(1, 0, 0)
			var told struct {
				Approval struct{ ID, Expires string }
				Price    string
			}
			if err := json.Unmarshal([]byte(a.Text), &told); err != nil {
				t.Fatal(err)
			}
			if told.Approval.ID != asked.ID || told.Approval.Expires != asked.Expires.Format(time.RFC3339) || told.Price != "0.01 USDC" ||
				a.Header.Get("Purser-Approval") != asked.ID || !strings.Contains(a.Header.Get("Purser-Declined-Detail"), asked.ID) {
				t.Errorf("%v %s", a.Header, a.Text)
			}
			if len(w.Payments()) != 0 {
				t.Error("it was paid")
			}
		})
	}
}

// The seller may ask for something else once the answer is there. Only what was approved is paid.
func TestSellerChangesItsTermsDuringTheWait(t *testing.T) {
	t.Parallel()
	for _, price := range []string{"10001", "9999", "100", "1000000"} {
		t.Run(price, func(t *testing.T) {
			t.Parallel()
			var now atomic.Pointer[string]
			first := "10000"
			now.Store(&first)
			w, s := newHeld(t, time.Minute), proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
				s.WriteChallenge(rw, r, *now.Load(), "")
			})
			call := w.start(proxytest.Request(t, "GET", s.URL+"/x", nil))
			w.waiting(1)
			asked := w.pending()[0]
			now.Store(&price)
			w.answer(asked.ID, pay.Approved)
			a := w.ended(call)
			a.Declined(t, "approval-needed", true)
			s.Expect(2, 0, 0)
			anew := w.pending()
			if len(anew) != 1 || anew[0].ID == asked.ID || anew[0].Terms.Amount.String() != price || a.Header.Get("Purser-Approval") != anew[0].ID {
				t.Errorf("%v, pending %+v", a.Header, anew)
			}
			// Once the seller is back at its price, the repeat is paid, once.
			now.Store(&first)
			w.get(s.URL + "/x").Paid(t)
			s.Expect(3, 1, 1)
			if p := w.Payments(); len(p) != 1 || p[0].Terms.Amount.String() != first {
				t.Errorf("payments %+v", p)
			}
		})
	}
}

// A seller that wants nothing any more gets nothing.
func TestSellerBecomesFreeDuringTheWait(t *testing.T) {
	t.Parallel()
	var free atomic.Bool
	w, s := newHeld(t, time.Minute), proxytest.Challenges(t, func(s *proxytest.Seller, rw http.ResponseWriter, r *http.Request) {
		if free.Load() {
			_, _ = io.WriteString(rw, "as a gift")
			return
		}
		s.WriteChallenge(rw, r, "10000", "")
	})
	call := w.start(proxytest.Request(t, "POST", s.URL+"/x", strings.NewReader("q")))
	w.waiting(1)
	free.Store(true)
	w.answer(w.pending()[0].ID, pay.Approved)
	if a := w.ended(call); a.StatusCode != 200 || a.Text != "as a gift" || len(w.Payments()) != 0 {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
}

// A client that leaves while its call waits pays nothing. Its repeat is paid, as it was approved.
func TestClientLeavesDuringTheWait(t *testing.T) {
	t.Parallel()
	w, s := newHeld(t, time.Minute), proxytest.NewSeller(t)
	ctx, leave := context.WithCancel(t.Context())
	call := w.start(proxytest.Request(t, "GET", s.URL+"/x", nil).WithContext(ctx))
	w.waiting(1)
	leave()
	w.ended(call)
	w.answer(w.pending()[0].ID, pay.Approved)
	s.Expect(1, 0, 0)
	w.get(s.URL + "/x").Paid(t)
	s.Expect(2, 1, 1)
}

// A dry run says that the payment would be held. It asks no person, and does not wait for one.
func TestDryRunOfAHeldRequest(t *testing.T) {
	t.Parallel()
	w, s := newHeld(t, time.Minute), proxytest.NewSeller(t)
	a := w.get(s.URL+"/x", "Purser-Dry-Run", "1")
	a.Declined(t, "approval-needed", true)
	if len(w.pending()) != 0 || a.Header.Get("Purser-Approval") != "" || !strings.Contains(a.Text, `"payTo"`) {
		t.Errorf("%v %s", a.Header, a.Text)
	}
	call := w.start(proxytest.Request(t, "GET", s.URL+"/x", nil))
	w.waiting(1)
	id := w.pending()[0].ID
	if a = w.get(s.URL+"/x", "Purser-Dry-Run", "1"); a.Header.Get("Purser-Approval") != id {
		t.Errorf("while a person was asked: %v", a.Header)
	}
	w.answer(id, pay.Denied)
	w.ended(call)
}

// A hundred requests wait at once, and each is paid once.
func TestManyRequestsAreHeldAtOnce(t *testing.T) {
	t.Parallel()
	const many = pay.MaxPendingApprovals
	w, s := newHeld(t, time.Minute), proxytest.NewSeller(t)
	var calls []<-chan proxytest.Answer
	for i := range many {
		calls = append(calls, w.start(proxytest.Request(t, "GET", fmt.Sprintf("%s/%d", s.URL, i), nil)))
	}
	w.waiting(many)
	w.get(s.URL+"/more").Declined(t, "approval-needed", true)
	asked := w.pending()
	var people sync.WaitGroup
	for _, a := range asked {
		people.Go(func() { w.answer(a.ID, pay.Approved) })
	}
	people.Wait()
	for _, c := range calls {
		a := w.ended(c)
		a.Paid(t)
	}
	s.Expect(2*many+1, many, many)
}
