package payapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/metrics"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// heldCalls tells of calls that begin to wait for an answer.
type heldCalls struct {
	pay.Observer
	waits chan struct{}
}

func (h heldCalls) Waiting(change int) {
	if change > 0 {
		h.waits <- struct{}{}
	}
}

// newHeld makes a world with a key that needs approvals above 10 units, and room for one request at once.
func newHeld(t *testing.T, wait time.Duration) (w *world, secret string, waits <-chan struct{}) {
	t.Helper()
	calls := heldCalls{metrics.Observer{Feed: feed.New(nil)}, make(chan struct{}, 10)}
	w = newWorld(t, func(s *setup) {
		s.pay.ApprovalWait, s.pay.Observer = wait, calls
		s.api.Admission = admission.Options{Concurrent: 1}
	})
	_, secret = w.limited(policy.Policy{RequireApprovalAbove: most(10)})
	return w, secret, calls.waits
}

func (w *world) answerApproval(answer pay.ApprovalAnswer) pay.Approval {
	w.t.Helper()
	asked, err := w.store.Approvals(w.t.Context(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: 10})
	if err != nil || len(asked) != 1 {
		w.t.Fatalf("%d approvals, %v", len(asked), err)
	}
	ctx := pay.WithActor(context.Background(), pay.Operator("ada"))
	a, err := w.payer.AnswerApproval(ctx, pay.ApprovalAnswering{ID: asked[0].ID, Answer: answer, Reason: "as I say"})
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func TestPaymentThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	for _, answer := range []pay.ApprovalAnswer{pay.Approved, pay.Denied} {
		t.Run(string(answer), func(t *testing.T) {
			t.Parallel()
			w, secret, waits := newHeld(t, time.Minute)
			ended := make(chan answerOf, 1)
			go func() {
				a, err := w.try(t.Context(), "POST", "/v1/pay", secret, order(11))
				ended <- answerOf{a, err}
			}()
			<-waits
			// A call that waits takes no room from others.
			w.call("GET", "/wallets/me", secret, nil).is(200, "")
			a := w.answerApproval(answer)
			got := <-ended
			if got.err != nil {
				t.Fatal(got.err)
			}
			n, _ := w.facilitator.moved()
			if answer == pay.Approved {
				if got.is(200, ""); n != 1 {
					t.Errorf("%d payments", n)
				}
				return
			}
			got.is(402, refusedByPolicy).want("rule", "approval-denied").want("approval.id", a.ID)
			w.call("POST", "/v1/pay", secret, order(11)).is(402, refusedByPolicy).want("rule", "approval-denied")
			if n != 0 {
				t.Errorf("%d payments", n)
			}
		})
	}
}

type answerOf struct {
	answer
	err error
}

func TestPaymentThatIsApprovedLater(t *testing.T) {
	t.Parallel()
	w, secret, _ := newHeld(t, 0)
	w.call("POST", "/v1/quote", secret, order(11)).is(402, refusedByPolicy).want("rule", "approval-needed").want("approval", nil)
	first := w.call("POST", "/v1/pay", secret, order(11)).is(402, refusedByPolicy).want("rule", "approval-needed").want("payment", nil)
	first.want("price", "0.000011 USDC")
	again := w.call("POST", "/v1/pay", secret, order(11)).is(402, refusedByPolicy)
	a := w.answerApproval(pay.Approved)
	expires := a.Expires.UTC().Format(time.RFC3339)
	first.want("approval.id", a.ID).want("approval.expires", expires)
	again.want("approval.id", a.ID)
	w.call("POST", "/v1/pay", secret, order(12)).is(402, refusedByPolicy).want("rule", "approval-needed")
	w.call("POST", "/v1/pay", secret, order(11)).is(200, "")
	w.call("POST", "/v1/pay", secret, order(11)).is(402, refusedByPolicy).want("rule", "approval-needed")
	if n, _ := w.facilitator.moved(); n != 1 {
		t.Errorf("%d payments", n)
	}
}
