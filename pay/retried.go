package pay

import (
	"cmp"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/perclient"
)

const (
	// retriedTime bounds how long after an answer a call that says that it repeats an earlier one gets its payment.
	retriedTime = 2 * time.Minute
	// maxRecent bounds the answered payments of a key that are remembered for that.
	maxRecent = 1024
)

// recents remembers payments whose callers were answered, by key and identity.
type recents struct {
	mu sync.Mutex // of changes
	of *perclient.Memory[Hash, recent]
}

// recent is a payment whose caller was answered.
type recent struct {
	paymentID string
	at        time.Time
	answered  uint64 // the step of its answer: see arrivals.steps
	forgotten uint64 // calls that have begun behind this step are told from it; 0: none is
}

func newRecents() recents { return recents{of: perclient.NewMemory[Hash, recent](maxRecent)} }

func (r recent) old(now time.Time) bool {
	age := now.Sub(r.at)
	return age > retriedTime || age < -retriedTime
}

// remember keeps a payment whose caller was answered, for calls that say that they repeat its call.
func (p *Payer) remember(h *grip, answered uint64) {
	p.calls.recent.mu.Lock()
	defer p.calls.recent.mu.Unlock()
	now := p.now()
	p.calls.recent.of.Prune(h.keyID, func(r recent) bool { return r.old(now) })
	p.calls.recent.of.Set(h.keyID, h.identity, recent{paymentID: h.id, at: now, answered: answered})
}

// repeatedBy returns the answered payment that a call repeats, by when both began or by its own word; "": none.
func (p *Payer) repeatedBy(r Request, identity Hash, anew bool) (paymentID string) {
	if !anew && r.Arrival != nil {
		paymentID = cmp.Or(r.repeated, r.Arrival.repeated(identity))
	}
	if paymentID == "" && r.Retried {
		paymentID = p.remembered(r, identity)
	}
	return paymentID
}

// remembered returns the payment that a call says to repeat, which was answered a short time ago; "": none.
func (p *Payer) remembered(r Request, identity Hash) string {
	last := p.calls.recent.of.Get(r.Key.ID, identity)
	if last.old(p.now()) || last.forgotten > 0 && r.Arrival != nil && r.Arrival.number > last.forgotten {
		return ""
	}
	return last.paymentID
}

// forget notes the end of a call without a payment. A repeat that begins now is that call's, if it has begun behind the
// answer of the last payment. Else it may be that payment's as well.
func (p *Payer) forget(r Request) {
	if r.HTTP == nil || r.Retried || r.Unpaid || r.IdempotencyKey != "" || r.Again != "" || r.Arrival == nil {
		return
	}
	identity := identityOf(r.Task, r.HTTP.fingerprint(r.HTTP.Body))
	p.calls.recent.mu.Lock()
	defer p.calls.recent.mu.Unlock()
	if last := p.calls.recent.of.Get(r.Key.ID, identity); last.paymentID != "" && last.forgotten == 0 && r.Arrival.number > last.answered {
		last.forgotten = p.calls.arrivals.step()
		p.calls.recent.of.Set(r.Key.ID, identity, last)
	}
}
