package policy

import (
	"maps"
	"time"

	"github.com/purserpay/purser/money"
)

// Total bounds all that a task spends from a moment on, until another one. Only tasks of a key's own policy have one.
// Spending is counted from when the total was set: see [Policy.Begun].
type Total struct {
	// Amount is the most that the task may spend, in the smallest unit of USDC.
	Amount money.Amount `json:"amount"`
	// Begin is the minute (UTC) in which the total was set or set anew. It names the count.
	Begin time.Time `json:"begin,omitzero"`
	// Until ends the task by purser's clock, in whole seconds: it pays nothing that begins then. Zero: it has no end.
	Until time.Time `json:"until,omitzero"`
	// Restart asks for a new Begin. A stored policy has none.
	Restart bool `json:"restart,omitempty"`
}

// Ended reports whether the total's end is past at a time.
func (t *Total) Ended(at time.Time) bool { return !t.Until.IsZero() && !at.Before(t.Until) }

// Begun returns the policy with the Begin of each total, in UTC: that of the total that the task has in the policy
// before, or the present minute if it has none or is to restart. It may share maps with neither. nil stays nil.
// Errors: *FieldError.
func (pol *Policy) Begun(was *Policy, now time.Time) (*Policy, error) {
	if pol == nil {
		return nil, nil
	}
	begun := *pol
	begun.Tasks = maps.Clone(pol.Tasks)
	for name, b := range begun.Tasks {
		if b.Total == nil {
			continue
		}
		var before *Total
		if was != nil {
			before = was.Tasks[name].Total
		}
		total, err := b.Total.begun(before, now.UTC())
		if err != nil {
			err.Field = "tasks[" + name + "].total." + err.Field
			return nil, err
		}
		b.Total = total
		begun.Tasks[name] = b
	}
	return &begun, nil
}

func (t *Total) begun(before *Total, now time.Time) (*Total, *FieldError) {
	begun := *t
	begun.Restart, begun.Begin, begun.Until = false, now.Truncate(time.Minute), t.Until.UTC().Truncate(time.Second)
	switch {
	case before == nil:
	case !t.Restart:
		begun.Begin = before.Begin
	case !begun.Begin.After(before.Begin): // the count would go on under the same name
		return nil, &FieldError{Field: "restart", Reason: "the total has begun in this minute; restart it in the next one"}
	}
	if begun.Ended(now) && (before == nil || !before.Until.Equal(begun.Until)) {
		return nil, &FieldError{Field: "until", Reason: begun.Until.Format(time.RFC3339) + " has passed"}
	}
	return &begun, nil
}

// WithoutTotals returns the policy without the totals of its tasks. They hold for no payment of the past.
func (pol Policy) WithoutTotals() Policy {
	pol.Tasks = maps.Clone(pol.Tasks)
	for name, b := range pol.Tasks {
		if b.Total != nil {
			b.Total = nil
			pol.Tasks[name] = b
		}
	}
	return pol
}

// HasTotals reports whether a task has a total.
func (pol Policy) HasTotals() bool {
	for _, b := range pol.Tasks {
		if b.Total != nil {
			return true
		}
	}
	return false
}

// totalRaised reports whether a total leaves a task more than the one before, or the task has lost it.
func totalRaised(was, now *Total) bool {
	if was == nil || now == nil {
		return was != nil
	}
	later := !was.Until.IsZero() && (now.Until.IsZero() || now.Until.After(was.Until))
	anew := now.Restart || !now.Begin.IsZero() && !now.Begin.Equal(was.Begin)
	return later || anew || now.Amount.Cmp(was.Amount) > 0
}
