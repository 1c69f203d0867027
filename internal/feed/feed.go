// Package feed keeps the newest payments and declines of a running purser for operators who watch it. It holds them in
// memory only: the books are in the store, and package adminapi serves and filters the feed.
package feed

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Kept bounds the events that a feed has. A reader who is slower misses some, and is told how many.
const Kept = 1024

// Declined is the state of an event about a request that was not paid.
const Declined = "declined"

// Event tells of a change of a payment, or of a request that was not paid. It has no secret, and no
// URL: a query may hold a seller's key.
type Event struct {
	Number      uint64    // from 1; each has the next
	At          time.Time // when it was added, in UTC
	Door        policy.Door
	KeyID       string
	Task        string
	Host        string
	Payment     string        // its id; "" where none was made
	State       string        // a state or flag of the payment, or Declined
	Amount      *money.Amount // in the smallest unit; nil: not known
	Means       pay.Means     // of the payment; zero where none was made
	Transaction string
	Reason      string // of a decline, a word; else the payment's
	Detail      string // of a decline, in words and figures
}

// Of makes an event of a payment that has got a state or flag.
func Of(p *pay.Payment, state string) Event {
	amount := p.Moved()
	return Event{
		Door: p.Door, KeyID: p.KeyID, Task: p.Task, Host: p.Host, Payment: p.ID, State: state,
		Amount: &amount, Means: p.Means(), Transaction: p.Transaction, Reason: p.Reason,
	}
}

// OfDecline makes an event of a request that was not paid.
func OfDecline(door policy.Door, d pay.Decline) Event {
	return Event{
		Door: door, KeyID: d.KeyID, Task: d.Task, Host: d.Host, Payment: d.Payment, State: Declined,
		Amount: d.Price, Reason: d.Reason, Detail: d.Detail,
	}
}

// Feed is safe for concurrent use. Writers never wait for readers.
type Feed struct {
	id  string
	now pay.Clock

	mu     sync.Mutex
	ring   [Kept]Event
	last   uint64        // the number of the newest event
	news   chan struct{} // closed at the next event; nil while no reader waits
	closed bool
}

// New makes an empty feed. The clock may be nil: time.Now.
func New(clock pay.Clock) *Feed {
	if clock == nil {
		clock = time.Now
	}
	return &Feed{id: uuid.NewString(), now: clock}
}

// ID tells this feed from that of an earlier process.
func (f *Feed) ID() string { return f.id }

// Add appends an event and gives it its number and time.
func (f *Feed) Add(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	e.Number, e.At = f.last, f.now().UTC()
	f.ring[e.Number%Kept] = e
	f.wake()
}

// Close ends the feed: readers get what is left of it and do not wait.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.wake()
}

func (f *Feed) wake() {
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// Last returns the number of the newest event.
func (f *Feed) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Page holds the events behind a number.
type Page struct {
	Events []Event
	Missed uint64 // older ones that the feed has no more
	Ended  bool   // there will be no others
}

// After returns the events behind a number. Without one it waits for the next, until ctx ends.
func (f *Feed) After(ctx context.Context, number uint64) Page {
	for {
		page, news := f.read(number)
		if len(page.Events) > 0 || page.Ended {
			return page
		}
		select {
		case <-news:
		case <-ctx.Done():
			return page
		}
	}
}

// read returns what there is, and a channel that is closed when there is more.
func (f *Feed) read(number uint64) (page Page, news <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page.Ended = f.closed
	first := min(number, f.last) + 1
	if f.last >= Kept && first <= f.last-Kept {
		page.Missed = f.last - Kept + 1 - first
		first = f.last - Kept + 1
	}
	for n := first; n <= f.last; n++ {
		page.Events = append(page.Events, f.ring[n%Kept])
	}
	if len(page.Events) == 0 && !page.Ended {
		if f.news == nil {
			f.news = make(chan struct{})
		}
		news = f.news
	}
	return page, news
}
