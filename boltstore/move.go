package boltstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/move"
)

// moveKey names the move.Mark in the meta bucket, as JSON. Open refuses a store that has one.
var moveKey = []byte("move")

// checkMark refuses a store that is being moved, or was: move.ErrUnderWay, move.ErrMoved.
func checkMark(bolt *bbolt.DB) error {
	return bolt.View(func(tx *bbolt.Tx) error {
		if tx.Bucket(metaBucket) == nil {
			return nil
		}
		m, err := metaIn[move.Mark](tx, moveKey)
		if err == nil {
			err = m.Refusal()
		}
		return err
	})
}

// Moving is a store that is stopped and locked to be moved into a database.
type Moving struct {
	path string
	bolt *bbolt.DB
}

var _ move.From = (*Moving)(nil)

// OpenSource opens a store to be moved elsewhere. It writes what the journal has into the database and ends
// the leases of the stopped process first. ErrLocked, ErrNewer, ErrOlder, ErrWorld, ErrJournal,
// vault.ErrWrongMasterKey.
func OpenSource(ctx context.Context, o Options) (*Moving, error) {
	if _, err := os.Stat(o.Path); err != nil {
		return nil, fmt.Errorf("open store %s: %w", o.Path, err)
	}
	db, err := Open(ctx, o)
	switch {
	case err == nil:
		err = db.Close()
	case errors.Is(err, move.ErrMoved), errors.Is(err, move.ErrUnderWay):
		err = nil // the caller reads the mark
	}
	if err != nil {
		return nil, err
	}
	s := &Moving{path: o.Path}
	if err := s.lock(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", o.Path, err)
	}
	err = s.bolt.View(func(tx *bbolt.Tx) error {
		e, err := epochIn(tx.Bucket(metaBucket))
		if err == nil && e.open {
			err = fmt.Errorf("outcomes wait in %s: start and stop purser, and move then", JournalPath(o.Path))
		}
		_, unlockErr := unsealerOf(tx, o.MasterKey)
		return errors.Join(err, unlockErr)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", o.Path, err), s.Close())
	}
	return s, nil
}

func (s *Moving) lock() (err error) {
	s.bolt, err = openLocked(s.path, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true, InitialMmapSize: mmapSize,
	}, 0)
	return fileError(err)
}

// Close unlocks the file.
func (s *Moving) Close() error { return s.bolt.Close() }

// Name is the path.
func (s *Moving) Name() string { return s.path }

// Mark reads the mark; nil: there is none.
func (s *Moving) Mark(context.Context) (m *move.Mark, err error) {
	err = s.bolt.View(func(tx *bbolt.Tx) error {
		m, err = metaIn[move.Mark](tx, moveKey)
		return err
	})
	return m, err
}

// SetMark writes the mark.
func (s *Moving) SetMark(_ context.Context, m *move.Mark) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.bolt.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(moveKey, text) })
}

// Export visits the records.
func (s *Moving) Export(ctx context.Context, visit func(move.Record) error) error {
	return s.bolt.View(func(tx *bbolt.Tx) error {
		for kind := range move.Kinds {
			if err := exportKind(ctx, tx, kind, visit); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		return nil
	})
}
