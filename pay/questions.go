package pay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/purserpay/purser/internal/perclient"
)

// Bounds of what calls of one key may ask the RPC: all keys share its quota. What is remembered costs
// nothing, and recovery asks by its own pace.
const (
	readsAtOnce     = 60  // of balances and allowances
	readsPerMinute  = 100 // a wallet that is paid from all the time takes 12 of each, and an empty one 60
	tracesAtOnce    = 30  // of what became of a payment; each is 10 to 30 questions
	tracesPerMinute = 30
	railsAtOnce     = 300 // new payments on other rails, each of some questions: few calls make one in vain
	railsPerMinute  = 600
	maxFindings     = 10_000
	// findingKept is the time for which the chain's word on a payment is remembered.
	findingKept = time.Second
)

// QuestionsError refuses a call whose key has had the RPC asked too often. Nothing was signed, because
// nothing is paid unchecked for that.
type QuestionsError struct{ RetryAfter time.Duration }

func (e *QuestionsError) Error() string {
	return fmt.Sprintf("calls of this key have had the RPC asked too often, so nothing can be checked for it now; the next call may come in %s",
		max(e.RetryAfter, time.Second).Round(time.Second))
}

// RetryAfter returns when a key that has failed or asked too often may go on, and what to tell it.
func RetryAfter(err error) (wait time.Duration, text string, is bool) {
	if e, failures := errors.AsType[*FailuresError](err); failures {
		return e.RetryAfter, e.Error(), true
	}
	if e, questions := errors.AsType[*QuestionsError](err); questions {
		return e.RetryAfter, e.Error(), true
	}
	return 0, "", false
}

// questions bounds what each key asks the RPC. A call of an operator has no key, and is not bounded.
type questions struct{ reads, traces, rails *perclient.Limiter[string] }

func newQuestions() questions {
	return questions{
		perclient.NewLimiter[string](readsAtOnce, readsPerMinute), perclient.NewLimiter[string](tracesAtOnce, tracesPerMinute),
		perclient.NewLimiter[string](railsAtOnce, railsPerMinute),
	}
}

func (q questions) read(keyID string, now time.Time) error  { return ask(q.reads, keyID, now) }
func (q questions) rail(keyID string, now time.Time) error  { return ask(q.rails, keyID, now) }
func (q questions) trace(keyID string, now time.Time) error { return ask(q.traces, keyID, now) }

func ask(l *perclient.Limiter[string], keyID string, now time.Time) error {
	if keyID == "" {
		return nil
	}
	if wait := l.Take(keyID, 1, now); wait > 0 {
		return &QuestionsError{wait}
	}
	return nil
}

// finding holds the chain's last word on a payment, for claims about it.
type finding struct {
	reading chan struct{} // of one: a payment is traced once at a time for claims

	mu    sync.Mutex
	until time.Time
	trace Trace
	err   error
}

// findings remembers the chain's word on payments for a moment, because clients decide how many receipts
// they post.
type findings struct {
	mu   sync.Mutex
	seen *lru.Cache[string, *finding]
}

func (f *findings) of(paymentID string) *finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.seen.Get(paymentID)
	if !known {
		one = &finding{reading: make(chan struct{}, 1)}
		f.seen.Add(paymentID, one)
	}
	return one
}

func (f *finding) remembered(now time.Time) (t Trace, err error, known bool) { //nolint:revive,staticcheck // err is what is remembered
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trace, f.err, now.Before(f.until)
}

// traceSoon is trace for a claim that callers can repeat at will: the chain is asked about a payment once
// in a second at most, and claims that come meanwhile are told the same. *QuestionsError.
func (p *Payer) traceSoon(ctx context.Context, row *Payment) (Trace, error) {
	f := p.findings.of(row.ID)
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return Trace{}, fmt.Errorf("waiting for a look at a payment: %w", ctx.Err())
	}
	if t, err, known := f.remembered(p.now()); known {
		return t, err
	}
	if err := p.questions.trace(row.KeyID, p.now()); err != nil {
		return Trace{}, err
	}
	t, err := p.trace(ctx, row)
	if ctx.Err() == nil { // a caller that has left proves nothing
		f.mu.Lock()
		f.trace, f.err, f.until = t, err, p.now().Add(findingKept)
		f.mu.Unlock()
	}
	return t, err
}
