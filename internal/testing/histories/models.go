package histories

import (
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// Operations on a budget.
type (
	// Reserve takes an amount for a purchase. A repeat of the purchase has the same ID, and takes nothing more.
	Reserve struct {
		ID     string
		Amount uint64
	}
	// Release gives a reservation back.
	Release Reserve
	// Sum reads what is reserved.
	Sum struct{}
)

// budget holds what is reserved for certain. If an answer about a reservation was lost, it is loose: from then on it
// may be there or not, at any time.
type budget struct {
	used, loose uint64
	ids         string // of what is loose, sorted
}

// loosen sets whether a reservation is loose.
func (b budget) loosen(r Reserve, loose bool) budget {
	ids := strings.Fields(b.ids)
	switch at, was := slices.BinarySearch(ids, r.ID); {
	case loose && !was:
		ids, b.loose = slices.Insert(ids, at, r.ID), b.loose+r.Amount
	case was && !loose:
		ids, b.loose = slices.Delete(ids, at, at+1), b.loose-r.Amount
	}
	b.ids = strings.Join(ids, " ")
	return b
}

// Budget never has more reserved than most, and refuses only what does not fit.
func Budget(most uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return budget{} },
		Step: func(state, in, out any) (bool, any) {
			b, o := state.(budget), out.(Outcome)
			switch in := in.(type) {
			case Reserve:
				if o.Said == Refused {
					return b.used+b.loose+in.Amount > most, b
				}
				if b = b.loosen(in, o.Said != Done); o.Said == Done {
					b.used += in.Amount
				}
			case Release:
				b = b.loosen(Reserve(in), o.Said != Done)
				b.used -= in.Amount
			case Sum:
				return o.Said == Unknown || b.used <= o.N && o.N <= min(most, b.used+b.loose), b
			}
			return b.used <= most, b
		},
	}
}

// sequential returns the model of a system that answers one operation after the other. If an answer was lost, the
// operation may have happened or not.
func sequential[S comparable](first S, apply func(S, any) (S, Outcome)) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{first} },
		Step: func(state, in, out any) []any {
			next, said := apply(state.(S), in)
			switch out.(Outcome) {
			case Outcome{Said: Unknown}:
				return []any{state, next}
			case said:
				return []any{next}
			}
			return nil
		},
	}
	return m.ToModel()
}

// Operations on the lease of a payment. Times are the callers', in nanoseconds.
type (
	// Acquire takes the lease if it is free or over. The owner is of this call alone.
	Acquire struct {
		Owner      string
		Now, Until int64
	}
	// Renew extends the lease under a fence.
	Renew struct {
		Fence uint64
		Until int64
	}
	// End writes an outcome that releases the lease under a fence.
	End struct{ Fence uint64 }
	// Lapse ends the lease if it is over.
	Lapse struct{ Now int64 }
	// Holds is Done if the caller knows that its lease is not over yet.
	Holds struct{ Fence uint64 }
	// undo ends the lease of an Acquire whose answer was lost: the node knows that its caller has not got it.
	undo struct{ Owner string }
)

type lease struct {
	owner string // "": it is free
	fence uint64
	until int64
}

// Lease has one live owner at most, and a higher fence for each. It is free at first.
func Lease(fence uint64) porcupine.Model {
	return sequential(lease{fence: fence}, func(l lease, in any) (next lease, said Outcome) {
		next = l
		lost := func(fence uint64) bool { return l.owner == "" || l.fence != fence }
		switch in := in.(type) {
		case Acquire:
			if l.owner != "" && in.Now < l.until {
				return l, Outcome{Said: Refused}
			}
			return lease{in.Owner, l.fence + 1, in.Until}, Outcome{Said: Done, N: l.fence + 1}
		case Renew:
			if next.until = in.Until; lost(in.Fence) {
				return l, Outcome{Said: Refused}
			}
		case End:
			if next.owner = ""; lost(in.Fence) {
				return l, Outcome{Said: Refused}
			}
		case Holds:
			if lost(in.Fence) {
				return l, Outcome{Said: Refused}
			}
		case Lapse:
			if in.Now >= l.until {
				next.owner = ""
			}
		case undo:
			if in.Owner == l.owner {
				next.owner = ""
			}
		}
		return next, Outcome{Said: Done}
	})
}

// Operations on the approvals of a key.
type (
	// Pay asks for a payment. If its terms have no approval, people are asked for one with this ID.
	Pay struct {
		Terms int
		ID    string
	}
	// Answer has a person answer an approval.
	Answer struct {
		Terms int
		ID    string
		Yes   bool
	}
)

// Terms is the number of terms that payments of a history can have.
const Terms = 4

type approval struct{ id, state string }

// Approvals allow one payment each, of the terms that a person has seen.
func Approvals() porcupine.Model {
	return sequential([Terms]approval{}, func(all [Terms]approval, in any) ([Terms]approval, Outcome) {
		switch in := in.(type) {
		case Pay:
			switch a := &all[in.Terms]; a.state {
			case "approved":
				a.state = "used"
				return all, Outcome{Said: Done, ID: a.id}
			case "denied":
				return all, Outcome{Said: Refused, ID: a.id}
			case "", "used":
				*a = approval{in.ID, "pending"}
			}
			return all, Outcome{Said: Waits, ID: all[in.Terms].id}
		case Answer:
			a := &all[in.Terms]
			if *a != (approval{in.ID, "pending"}) {
				return all, Outcome{Said: Refused}
			}
			if a.state = "denied"; in.Yes {
				a.state = "approved"
			}
		}
		return all, Outcome{Said: Done}
	})
}
