package pay

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// apart is the time within which identical calls begin that are purchases of their own. Of calls
// that begin further apart and overlap, the later one is a repeat (docs/design/calls.md, repeats without a
// key): its client may have given the earlier one up on a connection that broke without a word.
const apart = time.Second

// Calls holds what payers of one process know of calls that may repeat each other, beside the rows: those that are
// undecided, and those that were answered a short time ago.
type Calls struct {
	arrivals arrivals
	recent   recents
}

// NewCalls makes Calls for payers of one store.
func NewCalls() *Calls {
	return &Calls{arrivals: arrivals{of: map[string]*undecided{}}, recent: newRecents()}
}

// Arrival is a call that has begun and may get a payment. The doors make it before they know what it
// costs, because a seller may take long to say so.
type Arrival struct {
	at     time.Time
	number uint64 // see arrivals.steps
	keyID  string
	all    *arrivals
	place  *list.Element // nil once the call is decided; guarded by arrivals.mu
}

// ending is a payment whose call has been answered.
type ending struct {
	identity  Hash
	paymentID string
	began     time.Time
	number    uint64 // see arrivals.steps
}

// arrivals holds the calls that are undecided, by key, and the answered ones that an undecided one may
// be a repeat of. It forgets those with the last call that could be.
type arrivals struct {
	mu sync.Mutex
	of map[string]*undecided
	// steps numbers the beginnings of calls and the ends of their answers in their order, because clocks may
	// stand still or jump.
	steps uint64
}

// step returns the next number.
func (all *arrivals) step() uint64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.steps++
	return all.steps
}

// undecided holds the calls of a key, the oldest first, and what they may be repeats of, by identity.
type undecided struct {
	calls list.List
	ended map[Hash][]ending
}

// Arrive notes that a call of a key has begun. The caller ends it with Decided.
func (p *Payer) Arrive(keyID string) *Arrival {
	a := &Arrival{at: p.now(), keyID: keyID, all: &p.calls.arrivals}
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	a.all.steps++
	a.number = a.all.steps
	of := a.all.of[keyID]
	if of == nil {
		of = &undecided{ended: map[Hash][]ending{}}
		a.all.of[keyID] = of
	}
	a.place = of.calls.PushBack(a)
	return a
}

// Decided ends an arrival: the call has its payment, or gets none. Once is enough.
func (a *Arrival) Decided() {
	if a == nil {
		return
	}
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	of := a.all.of[a.keyID]
	if a.place == nil {
		return
	}
	was := of.calls.Front()
	of.calls.Remove(a.place)
	first := of.calls.Front()
	if a.place = nil; first == nil {
		delete(a.all.of, a.keyID)
		return
	}
	if first == was { // a call may wait long, and many others come and go beside it
		return
	}
	oldest := first.Value.(*Arrival).number
	for identity, list := range of.ended {
		if list = slices.DeleteFunc(list, func(e ending) bool { return e.number <= oldest }); len(list) == 0 {
			delete(of.ended, identity)
		} else {
			of.ended[identity] = list
		}
	}
}

// end notes that a payment's caller was answered. It is kept for the calls that are undecided by now and
// did not begin together with the payment's.
func (all *arrivals) end(keyID string, e ending) {
	all.mu.Lock()
	defer all.mu.Unlock()
	of := all.of[keyID]
	if of == nil {
		return
	}
	for _, edge := range []*list.Element{of.calls.Front(), of.calls.Back()} {
		if a := edge.Value.(*Arrival); a.repeats(e.began) && a.number < e.number {
			of.ended[e.identity] = append(of.ended[e.identity], e)
			return
		}
	}
}

// repeats reports whether the call is no purchase beside an identical one that began then.
func (a *Arrival) repeats(began time.Time) bool { return a.at.Sub(began).Abs() > apart }

// repeated returns the newest payment that was answered while this call was on its way, and that the call
// repeats; "": none.
func (a *Arrival) repeated(identity Hash) (paymentID string) {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	of := a.all.of[a.keyID]
	if of == nil {
		return ""
	}
	for _, e := range of.ended[identity] {
		if a.repeats(e.began) && a.number < e.number {
			paymentID = e.paymentID
		}
	}
	return paymentID
}
