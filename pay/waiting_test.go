package pay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// waitersWatch tells when calls begin to wait for answers.
type waitersWatch struct {
	pay.Observer
	mu    sync.Mutex
	now   int
	more  chan struct{}
	moved []pay.ApprovalAnswer
}

func newWaitersWatch() *waitersWatch {
	return &waitersWatch{Observer: newEars(), more: make(chan struct{}, 1000)}
}

func (w *waitersWatch) Waiting(change int) {
	w.mu.Lock()
	w.now += change
	w.mu.Unlock()
	if change > 0 {
		w.more <- struct{}{}
	}
}

func (w *waitersWatch) Answered(a pay.ApprovalAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved = append(w.moved, a)
}

func (w *waitersWatch) count() int { w.mu.Lock(); defer w.mu.Unlock(); return w.now }

// approvals is a world whose key needs approvals, and whose calls wait for them.
type approvals struct {
	*world
	watch *waitersWatch
}

func newApprovals(t *testing.T, change func(*pay.Options)) *approvals {
	t.Helper()
	watch := newWaitersWatch()
	w := newWorld(t, func(o *pay.Options) {
		o.ApprovalWait, o.Observer, o.NoPlans = time.Minute, watch, true
		if change != nil {
			change(o)
		}
	})
	w.key = must(w.store.SetPolicy(context.Background(), w.key.ID, &policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(1000))}))
	return &approvals{w, watch}
}

// result tells the end of a call.
type result struct {
	attempt *pay.Attempt
	err     error
}

// call makes a call as the doors do. again returns the request with the terms of the second look; nil: those
// of the first one.
func (w *approvals) call(ctx context.Context, r pay.Request, again func(pay.Request) pay.Request) <-chan result {
	ended := make(chan result, 1)
	go func() { ended <- w.try(ctx, r, again) }()
	return ended
}

func (w *approvals) try(ctx context.Context, r pay.Request, again func(pay.Request) pay.Request) result {
	a, err := w.payer.Pay(ctx, r)
	if err == nil {
		return result{a, nil}
	}
	approved, err := w.payer.AwaitApproval(ctx, r, err)
	if err != nil {
		return result{nil, err}
	}
	if again != nil {
		r = again(r)
	}
	r.Approved = approved
	if a, err = w.payer.Pay(ctx, r); err != nil {
		_, err = w.payer.AwaitApproval(ctx, r, err)
	}
	return result{a, err}
}

// waiting waits until n more calls wait.
func (w *approvals) waiting(n int) {
	w.t.Helper()
	for range n {
		select {
		case <-w.watch.more:
		case <-time.After(20 * time.Second):
			w.t.Fatal("no call waits for an answer")
		}
	}
}

func (w *approvals) ended(c <-chan result) result {
	w.t.Helper()
	select {
	case got := <-c:
		return got
	case <-time.After(20 * time.Second):
		w.t.Fatal("the call goes on")
		return result{}
	}
}

func (w *approvals) pending() []pay.Approval {
	w.t.Helper()
	return must(w.store.Approvals(context.Background(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: 1000}))
}

func person(name string) context.Context {
	return pay.WithActor(context.Background(), pay.Operator(name))
}

func (w *approvals) answer(id string, answer pay.ApprovalAnswer) error {
	_, err := w.payer.AnswerApproval(person("ada"), pay.ApprovalAnswering{ID: id, Answer: answer})
	return err
}

func (w *approvals) payments() []*pay.Payment {
	w.t.Helper()
	return must(w.store.Payments(context.Background(), pay.PaymentQuery{KeyID: w.key.ID, Limit: 1000}))
}

// isApproval returns the error's approval, if its word is the wanted one.
func (w *approvals) isApproval(err error, word string) pay.Approval {
	w.t.Helper()
	held, is := errors.AsType[*pay.ApprovalError](err)
	if !is || held.Rule() != word {
		w.t.Fatalf("got %v, want %s", err, word)
	}
	return held.Approval
}

func TestCallWaitsForItsApproval(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	call := w.call(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""), nil)
	w.waiting(1)
	asked := w.pending()
	if len(asked) != 1 || len(w.payments()) != 0 {
		t.Fatalf("%d approvals, %d payments", len(asked), len(w.payments()))
	}
	w.chain.advance(10 * time.Minute) // an authorization that was made before would be over
	if err := w.answer(asked[0].ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	got := w.ended(call)
	if got.err != nil {
		t.Fatal(got.err)
	}
	got.attempt.Finish(true)
	w.quiet()
	p := w.payment(got.attempt.Payment().ID)
	used := must(w.store.Approval(t.Context(), asked[0].ID))
	if p.State != pay.Settled || used.PaymentID != p.ID || len(w.payments()) != 1 {
		t.Errorf("payment %+v, approval %+v", p, used)
	}
	if until := p.ValidBefore(); !until.After(w.chain.clock()) {
		t.Errorf("the authorization was over at %s", until)
	}
	if n := w.watch.count(); n != 0 || len(w.watch.moved) != 1 {
		t.Errorf("%d calls wait still, answers %v", n, w.watch.moved)
	}
	// The approval is for one payment.
	_, err := w.payer.Pay(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""))
	if next := w.isApproval(err, "approval-needed"); next.ID == asked[0].ID {
		t.Error("the approval counts twice")
	}
}

func TestCallWhosePaymentIsDenied(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	r := w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", "")
	call := w.call(t.Context(), r, nil)
	w.waiting(1)
	if err := w.answer(w.pending()[0].ID, pay.Denied); err != nil {
		t.Fatal(err)
	}
	w.isApproval(w.ended(call).err, "approval-denied")
	_, err := w.payer.Pay(t.Context(), r)
	w.isApproval(err, "approval-denied")
	if len(w.payments()) != 0 {
		t.Error("it was paid")
	}
}

// Whatever a wait ends with but a yes: nothing is paid, and the answer says why.
func TestWaitEndsWithoutAPayment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		wait   time.Duration
		end    func(w *approvals, leave context.CancelFunc)
		gone   bool
		detail string
	}{
		{"the time to wait is over", 20 * time.Millisecond, func(*approvals, context.CancelFunc) {}, false, "a person must approve"},
		{"the approval expires", time.Minute, func(w *approvals, _ context.CancelFunc) { w.chain.advance(2 * time.Hour) }, false, "in time"},
		{"the caller leaves", time.Minute, func(_ *approvals, leave context.CancelFunc) { leave() }, true, ""},
		{"waiting ends", time.Minute, func(w *approvals, _ context.CancelFunc) { w.payer.StopWaiting() }, false, "configuration"},
		{"the payer closes", time.Minute, func(w *approvals, _ context.CancelFunc) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := w.payer.Close(ctx); err != nil {
				w.t.Error(err)
			}
		}, false, "configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newApprovals(t, func(o *pay.Options) { o.ApprovalWait = c.wait })
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			call := w.call(ctx, w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""), nil)
			w.waiting(1)
			c.end(w, leave)
			got := w.ended(call)
			if c.gone != errors.Is(got.err, pay.ErrCallerGone) || got.err == nil {
				t.Fatalf("got %v", got.err)
			}
			if !c.gone {
				w.isApproval(got.err, "approval-needed")
				if !strings.Contains(got.err.Error(), c.detail) {
					t.Errorf("says %q", got.err)
				}
			}
			if len(w.payments()) != 0 || w.watch.count() != 0 {
				t.Errorf("%d payments, %d calls wait", len(w.payments()), w.watch.count())
			}
		})
	}
}

func TestCallThatIsNotToWait(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, func(o *pay.Options) { o.ApprovalWait = 0 })
	r := w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", "")
	got := w.try(t.Context(), r, nil)
	asked := w.isApproval(got.err, "approval-needed")
	if err := w.answer(asked.ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	if got = w.try(t.Context(), r, nil); got.err != nil {
		t.Fatal(got.err)
	}
	got.attempt.Finish(true)
}

// A seller that asks for something else after the answer gets nothing: neither more nor less, nor for
// another payee.
func TestTermsThatChangeDuringTheWait(t *testing.T) {
	t.Parallel()
	for _, amount := range []string{"2501", "5000", "900", "1"} { // the last two need no approval by the rules
		t.Run(amount, func(t *testing.T) {
			t.Parallel()
			w := newApprovals(t, nil)
			call := w.call(t.Context(), w.proxied("https://api.example.com/a", "2500", ""), func(r pay.Request) pay.Request {
				r.Challenge = challenge(t, amount)
				return r
			})
			w.waiting(1)
			first := w.pending()[0]
			if err := w.answer(first.ID, pay.Approved); err != nil {
				t.Fatal(err)
			}
			got := w.ended(call)
			anew := w.isApproval(got.err, "approval-needed")
			if anew.ID == first.ID || anew.Terms.Amount.String() != amount || len(w.payments()) != 0 {
				t.Errorf("%d payments, approval %+v", len(w.payments()), anew)
			}
			if !strings.Contains(got.err.Error(), "the seller asks for") {
				t.Errorf("says %q", got.err)
			}
			// The first terms are approved still, for one payment.
			a, err := w.payer.Open(t.Context(), w.proxied("https://api.example.com/a", "2500", ""))
			if err != nil {
				t.Fatal(err)
			}
			a.Abandon("test")
		})
	}
}

// All other limits hold once more after an answer.
func TestLimitsAfterAnApproval(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	call := w.call(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""), nil)
	w.waiting(1)
	most := policy.CapOf(money.New(2000))
	must(w.store.SetPolicy(context.Background(), w.key.ID, &policy.Policy{MaxPayment: most, RequireApprovalAbove: policy.CapOf(money.New(1000))}))
	if err := w.answer(w.pending()[0].ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	if got := w.ended(call); !isRule(got.err, "per-payment") || len(w.payments()) != 0 {
		t.Errorf("got %v, %d payments", got.err, len(w.payments()))
	}
}

// A key that was revoked during the wait pays nothing.
func TestKeyRevokedDuringTheWait(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	call := w.call(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""), nil)
	w.waiting(1)
	asked := w.pending()[0]
	if _, err := w.store.StopKey(context.Background(), w.key.ID, pay.KeyStop{Do: pay.StopRevoke, At: w.chain.clock()}); err != nil {
		t.Fatal(err)
	}
	if err := w.answer(asked.ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	if got := w.ended(call); !errors.Is(got.err, pay.ErrKeyNotFound) || len(w.payments()) != 0 {
		t.Errorf("got %v, %d payments", got.err, len(w.payments()))
	}
}

// A client with the earlier secret of a key gets nothing by an approval that comes after the reissue.
func TestKeyReissuedDuringTheWait(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	r := w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", "")
	call := w.call(t.Context(), r, nil)
	w.waiting(1)
	asked := w.pending()[0]
	k := must(w.store.ReissueKey(context.Background(), pay.Reissue{KeyID: w.key.ID, Secret: "another secret of the key", At: w.chain.clock()}))
	if err := w.answer(asked.ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	if got := w.ended(call); !errors.Is(got.err, pay.ErrSecretReplaced) || len(w.payments()) != 0 {
		t.Errorf("got %v, %d payments", got.err, len(w.payments()))
	}
	// The client with the new secret is paid for.
	r.Key = k
	if got := w.try(t.Context(), r, nil); got.err != nil {
		t.Error(got.err)
	} else {
		got.attempt.Finish(true)
	}
}

// While an overlap lasts, the client with the earlier secret is paid for, and afterwards it is not.
func TestKeyReissuedWithAnOverlapDuringTheWait(t *testing.T) {
	t.Parallel()
	for name, lasts := range map[string]bool{"lasts": true, "ended": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newApprovals(t, nil)
			call := w.call(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""), nil)
			w.waiting(1)
			asked := w.pending()[0]
			must(w.store.ReissueKey(context.Background(), pay.Reissue{
				KeyID: w.key.ID, Secret: "another secret of the key", At: w.chain.clock(), Overlap: time.Hour,
			}))
			if !lasts {
				must(w.store.StopKey(context.Background(), w.key.ID, pay.KeyStop{Do: pay.StopOverlap, At: w.chain.clock()}))
			}
			if err := w.answer(asked.ID, pay.Approved); err != nil {
				t.Fatal(err)
			}
			switch got := w.ended(call); {
			case !lasts && (!errors.Is(got.err, pay.ErrSecretReplaced) || len(w.payments()) != 0):
				t.Errorf("got %v, %d payments", got.err, len(w.payments()))
			case lasts && got.err != nil:
				t.Error(got.err)
			case lasts:
				got.attempt.Finish(true)
			}
		})
	}
}

// A person approves the host that the page shows. Another upstream under the same URL of clients needs an
// approval of its own, even if it asks for the same payment.
func TestApprovalIsForOneUpstream(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	at := func(upstream string) pay.Request {
		r := w.rest(pay.SettleSeller, upstream, "2500", "")
		r.Door, r.HTTP = policy.DoorTransport, &pay.HTTPRequest{Method: "GET", URL: "https://front.example/a"}
		return r
	}
	_, err := w.payer.Open(t.Context(), at("https://one.example/a"))
	asked := w.isApproval(err, "approval-needed")
	if err := w.answer(asked.ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	_, err = w.payer.Open(t.Context(), at("https://two.example/a"))
	if other := w.isApproval(err, "approval-needed"); other.ID == asked.ID || other.Host != "two.example" {
		t.Errorf("held by %+v", other)
	}
	a := must(w.payer.Open(t.Context(), at("https://one.example/a")))
	a.Finish(true)
	if p := w.payments(); len(p) != 1 || p[0].Host != "one.example" {
		t.Errorf("payments %+v", p)
	}
}

// An approval from a backup allows nothing, even while the clock is behind the time of the backup.
func TestRestoredApprovalAllowsNothing(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	a := pay.Approval{ID: "a", Created: now, Expires: now.Add(time.Hour)}
	for _, answer := range []pay.ApprovalAnswer{"", pay.Approved} {
		a.Answer = answer
		for _, late := range []time.Duration{-24 * time.Hour, -time.Second, 0, time.Second} {
			restored := a.Restored()
			if s := restored.State(now.Add(late)); s != pay.ApprovalExpired || !restored.Over(now.Add(late)) {
				t.Errorf("%q, %s: %s", answer, late, s)
			}
		}
	}
}

// Two calls like each other share an approval. It pays for one of them.
func TestIdenticalCallsShareAnApprovalOnce(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	r := w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", "")
	one, other := w.call(t.Context(), r, nil), w.call(t.Context(), r, nil)
	w.waiting(2)
	if n := len(w.pending()); n != 1 {
		t.Fatalf("%d approvals", n)
	}
	if err := w.answer(w.pending()[0].ID, pay.Approved); err != nil {
		t.Fatal(err)
	}
	paid := 0
	for _, got := range []result{w.ended(one), w.ended(other)} {
		if got.err == nil {
			paid++
			got.attempt.Finish(true)
			continue
		}
		w.isApproval(got.err, "approval-needed")
	}
	if paid != 1 || len(w.payments()) != 1 {
		t.Errorf("%d were paid, %d payments", paid, len(w.payments()))
	}
}

// Of two answers at once one counts, and the call does what that one says.
func TestTwoAnswersAtOnce(t *testing.T) {
	t.Parallel()
	for range 10 {
		w := newApprovals(t, nil)
		call := w.call(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/a", "2500", ""), nil)
		w.waiting(1)
		id := w.pending()[0].ID
		errs := make(chan error, 2)
		for _, answer := range []pay.ApprovalAnswer{pay.Approved, pay.Denied} {
			go func() { errs <- w.answer(id, answer) }()
		}
		first, second := <-errs, <-errs
		if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), pay.ErrApprovalClosed) {
			t.Fatalf("%v, %v", first, second)
		}
		got := w.ended(call)
		switch a := must(w.store.Approval(t.Context(), id)); a.Answer {
		case pay.Approved:
			if got.err != nil {
				t.Fatal(got.err)
			}
			got.attempt.Finish(true)
		default:
			w.isApproval(got.err, "approval-denied")
			if len(w.payments()) != 0 {
				t.Fatal("it was denied, and paid")
			}
		}
	}
}

// As many calls as a key may have wait at once, and each is paid once. One more is declined.
func TestManyCallsWaitAtOnce(t *testing.T) {
	t.Parallel()
	w := newApprovals(t, nil)
	var calls []<-chan result
	for i := range pay.MaxPendingApprovals {
		calls = append(calls, w.call(t.Context(), w.rest(pay.SettlePayer, fmt.Sprintf("https://api.example.com/%d", i), "2500", ""), nil))
	}
	w.waiting(pay.MaxPendingApprovals)
	got := w.try(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/more", "2500", ""), nil)
	if a := w.isApproval(got.err, "approval-needed"); a.ID != "" {
		t.Errorf("a person was asked about one too many: %+v", a)
	}
	// Nor do more calls wait that ask about the same as one of them.
	got = w.try(t.Context(), w.rest(pay.SettlePayer, "https://api.example.com/0", "2500", ""), nil)
	if w.isApproval(got.err, "approval-needed"); !strings.Contains(got.err.Error(), "too many") {
		t.Errorf("says %q", got.err)
	}
	asked := w.pending()
	if len(asked) != pay.MaxPendingApprovals {
		t.Fatalf("%d approvals", len(asked))
	}
	for _, a := range asked {
		go func() {
			if err := w.answer(a.ID, pay.Approved); err != nil {
				t.Error(err)
			}
		}()
	}
	for _, c := range calls {
		got := w.ended(c)
		if got.err != nil {
			t.Fatal(got.err)
		}
		got.attempt.Finish(true)
	}
	w.quiet()
	urls := map[string]bool{}
	for _, p := range w.payments() {
		urls[p.RequestURL] = true
	}
	if len(urls) != len(asked) || len(w.payments()) != len(asked) {
		t.Errorf("%d payments for %d requests", len(w.payments()), len(urls))
	}
}
