package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// Role tells what a store is in a move.
type Role string

// The roles.
const (
	Source Role = "source"
	Target Role = "target"
)

// Mark keeps purser away from a store. A source keeps its mark for good. A target loses it when it is complete.
type Mark struct {
	Move  string    `json:"move"` // random id, which becomes the id of the target
	Role  Role      `json:"role"`
	Other string    `json:"other"` // kind of the other store
	Begun time.Time `json:"begun"`
	Done  time.Time `json:"done,omitzero"` // of a source: the target is complete
	// Place names where a folder went that was packed whole, "" after a move into a database. Sum identifies the pack.
	Place string `json:"place,omitempty"`
	Sum   string `json:"sum,omitempty"`
}

// Folder is the Other of a store that was packed with its folder.
const Folder = "folder"

// Errors of stores that have a mark.
var (
	// ErrMoved: the books are kept in another store.
	ErrMoved = errors.New("store was moved")
	// ErrUnderWay: a move has begun, and is not complete.
	ErrUnderWay = errors.New("store is being moved")
)

// Refusal says why purser must not run on a store with this mark; nil without one.
func (m *Mark) Refusal() error {
	switch {
	case m == nil:
		return nil
	case m.Done.IsZero():
		return fmt.Errorf("%w: a move began %s and is not complete; run purser migrate again", ErrUnderWay, m.Begun.Format(time.RFC3339))
	}
	if m.Place != "" {
		return fmt.Errorf("%w: this folder was retired on %s, and purser pays from its copy, which was %s; start that one. "+
			"Only if that one has never been started and never will be, purser move --undo takes this one back",
			ErrMoved, m.Done.Format(time.RFC3339), m.Place)
	}
	return fmt.Errorf("%w to %s on %s, and does not know what was paid since; start purser on %s", ErrMoved, m.Other, m.Done.Format(time.RFC3339), m.Other)
}

// From is a store that is stopped, and opened to be moved.
type From interface {
	// Name tells the store to people, without a secret.
	Name() string
	// Mark reads the mark; nil: there is none.
	Mark(ctx context.Context) (*Mark, error)
	// SetMark writes the mark.
	SetMark(ctx context.Context, m *Mark) error
	// Export visits the records in order, as of one moment. A record is valid during its visit and the next write.
	Export(ctx context.Context, visit func(Record) error) error
}

// To is a database that no node uses.
type To interface {
	Name() string
	Mark(ctx context.Context) (*Mark, error)
	// SetMark writes the mark, and makes its move the id of the store.
	SetMark(ctx context.Context, m *Mark) error
	// ID returns the id of the store, and whether it has records.
	ID(ctx context.Context) (id string, filled bool, err error)
	// Import writes what fill hands to write, checks the books, calls sure and removes the mark, all in one transaction.
	Import(ctx context.Context, fill func(write func([]Record) error) error, sure func() error) error
}

// Counts has how many records of each kind were moved.
type Counts [Kinds]int

// batchRecords and batchBytes bound the records that are written together.
const (
	batchRecords = 5000
	batchBytes   = 8 << 20
)

// Run moves a store into an empty database. A move that was cut off is run again: before the last moment nothing of it is
// in the database, and the source opens. progress hears how many records of a kind were copied.
func Run(ctx context.Context, from From, to To, at time.Time, progress func(Kind, int)) (counts Counts, err error) {
	mark, complete, err := begin(ctx, from, to, at)
	if err != nil {
		return counts, err
	}
	if !complete {
		sure := func() error { return from.SetMark(ctx, mark) } // before the commit: two open stores would pay twice
		if err := to.Import(ctx, func(write func([]Record) error) error { return copyAll(ctx, from, write, &counts, progress) }, sure); err != nil {
			return counts, fmt.Errorf("move %s to %s: %w", from.Name(), to.Name(), err)
		}
	}
	mark.Done = at.UTC()
	return counts, from.SetMark(ctx, mark)
}

// begin marks the target. It returns the mark of the source, which has it from the end of the copy on. complete: an
// earlier run was cut off behind its commit.
func begin(ctx context.Context, from From, to To, at time.Time) (source *Mark, complete bool, err error) {
	if source, err = from.Mark(ctx); err != nil {
		return nil, false, err
	}
	target, err := to.Mark(ctx)
	if err != nil {
		return nil, false, err
	}
	id, filled, err := to.ID(ctx)
	switch {
	case err != nil:
		return nil, false, err
	case source == nil && filled:
		return nil, false, fmt.Errorf("%s holds a store already: move into an empty one", to.Name())
	case source == nil:
		if err := reconciled(ctx, from); err != nil {
			return nil, false, err
		}
		source = &Mark{Move: rand.Text(), Role: Source, Other: "postgres", Begun: at.UTC()}
		return source, false, to.SetMark(ctx, &Mark{Move: source.Move, Role: Target, Other: "bolt", Begun: source.Begun})
	case source.Role != Source || !source.Done.IsZero():
		return nil, false, fmt.Errorf("%s: %w", from.Name(), source.Refusal())
	case id != source.Move || filled != (target == nil):
		return nil, false, fmt.Errorf("%s is not the database that the move of %s began with: run the move into that one again", to.Name(), from.Name())
	}
	return source, filled, nil
}

// reconciled refuses a store that is being reconciled: what it lacks would be looked for in two stores.
func reconciled(ctx context.Context, from From) error {
	end := errors.New("end of the settings")
	err := from.Export(ctx, func(r Record) error {
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

// copyAll writes all records of a store, in parts of one kind.
func copyAll(ctx context.Context, from From, write func([]Record) error, counts *Counts, progress func(Kind, int)) error {
	var batch []Record
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		kind := batch[0].Kind
		if err := write(batch); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		counts[kind] += len(batch)
		progress(kind, counts[kind])
		batch, size = batch[:0], 0
		return nil
	}
	err := from.Export(ctx, func(r Record) error {
		if len(batch) == batchRecords || size >= batchBytes || len(batch) > 0 && batch[0].Kind != r.Kind {
			if err := flush(); err != nil {
				return err
			}
		}
		batch, size = append(batch, r), size+len(r.Row)+len(r.More)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}
