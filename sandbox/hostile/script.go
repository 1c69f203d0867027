package hostile

import (
	"context"
	"slices"
	"sync"
)

// Fault replaces a party's answer to a call. C is a [Call] of the facilitator, or a [Visit] to the
// seller.
type Fault[C any] struct {
	Name string
	// On is the kind of call that fails: Verify or Settle, Unpaid or Paid.
	On string
	// Always makes every such call fail, not only one.
	Always bool
	// Hangs marks faults that make the caller wait for its time limit.
	Hangs bool
	Do    func(*C)
}

// Faults of the two parties.
type (
	FacilitatorFault = Fault[Call]
	SellerFault      = Fault[Visit]
)

// script decides which calls of a party fail.
type script[C any] struct {
	// Choose, when set, picks the fault of a call for which none is queued. Set it before the first
	// call.
	Choose func(*C) (Fault[C], bool)
	// met is called before a fault is played.
	met func()

	mu    sync.Mutex
	queue []Fault[C]
	kept  []func(context.Context)
}

// Meet replaces the queue of faults. The first fault of a kind goes to the first call of that kind,
// and so on.
func (s *script[C]) Meet(faults ...Fault[C]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.Clone(faults)
}

// Late performs the calls that faults have postponed, such as a settlement after a denial.
func (s *script[C]) Late(ctx context.Context) {
	s.mu.Lock()
	kept := s.kept
	s.kept = nil
	s.mu.Unlock()
	for _, do := range kept {
		do(ctx)
	}
}

// keep postpones a call until Late.
func (s *script[C]) keep(do func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, do)
}

// play plays the fault of a call, or serve without one.
func (s *script[C]) play(kind string, call *C, serve func()) {
	fault, due := s.next(kind, call)
	if !due {
		serve()
		return
	}
	s.met()
	fault.Do(call)
}

func (s *script[C]) next(kind string, call *C) (Fault[C], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.queue, func(f Fault[C]) bool { return f.On == kind })
	switch {
	case i >= 0:
		fault := s.queue[i]
		if !fault.Always {
			s.queue = slices.Delete(s.queue, i, i+1)
		}
		return fault, true
	case s.Choose != nil:
		return s.Choose(call)
	}
	return Fault[C]{}, false
}
