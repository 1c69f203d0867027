package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Role tells what a store is in a move.
type Role string

// The roles.
const (
	Source Role = "source"
	Target Role = "target"
)

// Mark locks a store while it is moved. A source keeps its mark for good. A target loses it when it was verified.
type Mark struct {
	Move     string    `json:"move"` // random id
	Role     Role      `json:"role"`
	Other    string    `json:"other"` // kind of the other store
	Begun    time.Time `json:"begun"`
	Done     time.Time `json:"done,omitzero"`      // of a source: the target is complete
	Position *Position `json:"position,omitempty"` // of a target
}

// Errors of stores that have a mark.
var (
	// ErrMoved: the books are kept in another store.
	ErrMoved = errors.New("store was moved")
	// ErrUnderWay: a move has begun, and is not complete.
	ErrUnderWay = errors.New("store is being moved")
)

// Refusal says why purser must not run on a store with this mark; nil without one. kind is that of the store.
func (m *Mark) Refusal(kind string) error {
	switch {
	case m == nil:
		return nil
	case m.Role == Target:
		return fmt.Errorf("%w: a move from %s to here began %s and is not complete; run purser migrate --from %s --to %s again, "+
			"or empty it to begin anew", ErrUnderWay, m.Other, m.Begun.Format(time.RFC3339), m.Other, kind)
	case m.Done.IsZero():
		return fmt.Errorf("%w: its move to %s began %s and is not complete; run purser migrate --from %s --to %s again, "+
			"or go on here with purser migrate --unlock %s", ErrUnderWay, m.Other, m.Begun.Format(time.RFC3339), kind, m.Other, kind)
	}
	return fmt.Errorf("%w to %s on %s, and does not know what was paid since; start purser on %s. To go back to this one, "+
		"which reads the chain before it pays, run purser migrate --unlock %s", ErrMoved, m.Other, m.Done.Format(time.RFC3339), m.Other, kind)
}

// Store is a store that is stopped, and opened to be moved.
type Store interface {
	// Name tells the store to people, without a secret.
	Name() string
	// Kind is "bolt" or "postgres".
	Kind() string
	// Mark reads the mark; nil: there is none.
	Mark(ctx context.Context) (*Mark, error)
	// SetMark writes or removes (nil) the mark.
	SetMark(ctx context.Context, m *Mark) error
	// Empty reports that the store has no record.
	Empty(ctx context.Context) (bool, error)
	// Export visits the records behind a position (nil: all) in order, as of one moment. A record is
	// valid during its visit and the next Import.
	Export(ctx context.Context, behind *Position, visit func(Record) error) error
	// Import writes records and the mark in one transaction.
	Import(ctx context.Context, list []Record, m *Mark) error
	// Check checks the books.
	Check(ctx context.Context) error
}

// Progress hears how many records of a kind were copied or verified.
type Progress func(doing string, kind Kind, done int)

// batchRecords and batchBytes bound the records of one transaction.
const (
	batchRecords = 5000
	batchBytes   = 8 << 20
)

// Run moves a store, or goes on with a move that was cut off. It returns what both stores add up to.
func Run(ctx context.Context, from, to Store, at time.Time, progress Progress) ([]Total, error) {
	source, target, err := begin(ctx, from, to, at)
	if err != nil {
		return nil, err
	}
	if err := copyAll(ctx, from, to, target, progress); err != nil {
		return nil, err
	}
	verified := func(doing string) func(Kind, int) {
		return func(k Kind, n int) { progress(doing, k, n) }
	}
	had, err := Totals(ctx, from, verified("reads "+from.Kind()))
	if err != nil {
		return nil, err
	}
	has, err := Totals(ctx, to, verified("verifies "+to.Kind()))
	if err != nil {
		return nil, err
	}
	if wrong := Differences(had, has); len(wrong) > 0 {
		return nil, fmt.Errorf("%s differs from %s: %s. Keep both as they are until this is understood", to.Name(), from.Name(), strings.Join(wrong, "; "))
	}
	if err := to.Check(ctx); err != nil {
		return nil, fmt.Errorf("check %s: %w", to.Name(), err)
	}
	source.Done = at
	if err := from.SetMark(ctx, source); err != nil {
		return nil, err
	}
	return had, to.SetMark(ctx, nil) // last: two open stores would pay twice
}

// begin locks both stores, the source first.
func begin(ctx context.Context, from, to Store, at time.Time) (source, target *Mark, err error) {
	if source, err = from.Mark(ctx); err != nil {
		return nil, nil, err
	}
	if target, err = to.Mark(ctx); err != nil {
		return nil, nil, err
	}
	empty, err := to.Empty(ctx)
	switch {
	case err != nil:
		return nil, nil, err
	case source != nil && (source.Role != Source || source.Other != to.Kind()):
		return nil, nil, fmt.Errorf("%s: %w", from.Name(), source.Refusal(from.Kind()))
	case target != nil && target.Role != Target:
		return nil, nil, fmt.Errorf("%s: %w", to.Name(), target.Refusal(to.Kind()))
	case source != nil && !source.Done.IsZero() && target == nil:
		return nil, nil, fmt.Errorf("%s: %w", from.Name(), source.Refusal(from.Kind()))
	case target != nil && (source == nil || source.Move != target.Move):
		return nil, nil, fmt.Errorf("%s has a part of another store, or of this one before it was unlocked: empty it to begin anew", to.Name())
	case target == nil && !empty:
		return nil, nil, fmt.Errorf("%s holds a store already: move into an empty one", to.Name())
	}
	if err := reconciled(ctx, from); err != nil {
		return nil, nil, err
	}
	if source == nil {
		source = &Mark{Move: rand.Text(), Role: Source, Other: to.Kind(), Begun: at.UTC()}
		if err := from.SetMark(ctx, source); err != nil {
			return nil, nil, err
		}
	}
	if target == nil {
		target = &Mark{Move: source.Move, Role: Target, Other: from.Kind(), Begun: source.Begun}
		if err := to.SetMark(ctx, target); err != nil {
			return nil, nil, err
		}
	}
	return source, target, nil
}

// reconciled refuses a store that is being reconciled: what it lacks would be looked for in two stores.
func reconciled(ctx context.Context, from Store) error {
	end := errors.New("end of the settings")
	err := from.Export(ctx, nil, func(r Record) error {
		switch {
		case r.Kind != Setting:
			return end
		case r.A == SettingRestored:
			return fmt.Errorf("%s is being reconciled with the chain: let purser run until purser reconcile says that it is done", from.Name())
		}
		return nil
	})
	if errors.Is(err, end) {
		err = nil
	}
	return err
}

// copyAll copies what is behind the position of the target.
func copyAll(ctx context.Context, from, to Store, target *Mark, progress Progress) error {
	var batch []Record
	var counts [Kinds]int
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		last := batch[len(batch)-1]
		target.Position = last.At()
		if err := to.Import(ctx, batch, target); err != nil {
			return fmt.Errorf("write %s: %w", to.Name(), err)
		}
		progress("copies", last.Kind, counts[last.Kind])
		batch, size = batch[:0], 0
		return nil
	}
	err := from.Export(ctx, target.Position, func(r Record) error {
		batch, size = append(batch, r), size+len(r.Row)+len(r.More)
		counts[r.Kind]++
		if len(batch) == batchRecords || size >= batchBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return fmt.Errorf("move %s: %w", from.Name(), err)
	}
	return nil
}

// Unlock removes the mark of a source. If its move was complete, reconcile is called first: the store must
// read from the chain what was paid since.
func Unlock(ctx context.Context, s Store, reconcile func(taken time.Time) error) error {
	m, err := s.Mark(ctx)
	switch {
	case err != nil:
		return err
	case m == nil:
		return fmt.Errorf("%s is not locked", s.Name())
	case m.Role == Target:
		return fmt.Errorf("%s: %w", s.Name(), m.Refusal(s.Kind()))
	case !m.Done.IsZero():
		if err := reconcile(m.Begun); err != nil {
			return err
		}
	}
	return s.SetMark(ctx, nil)
}
