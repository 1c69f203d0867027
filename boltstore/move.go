package boltstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/vault"
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
			err = m.Refusal("bolt")
		}
		return err
	})
}

// Moving is a store that is stopped and locked to be moved.
type Moving struct {
	path   string
	master vault.Source
	bolt   *bbolt.DB
}

var _ move.Store = (*Moving)(nil)

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
	s := &Moving{path: o.Path, master: o.MasterKey}
	if err := s.lock(0); err != nil {
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

// OpenTarget opens a file to move a store into: a new one, or one whose move was cut off.
func OpenTarget(o Options) (*Moving, error) {
	s := &Moving{path: o.Path, master: o.MasterKey}
	_, err := os.Stat(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(JournalPath(o.Path)); err == nil {
			return nil, fmt.Errorf("%s belongs to another database: move it away", JournalPath(o.Path))
		}
		err = os.MkdirAll(filepath.Dir(o.Path), dirMode)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = s.lock(os.O_CREATE)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Path, err)
	}
	if err := s.create(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", o.Path, err), s.Close())
	}
	return s, nil
}

func (s *Moving) lock(create int) (err error) {
	s.bolt, err = openLocked(s.path, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true, InitialMmapSize: mmapSize,
	}, create)
	return fileError(err)
}

// create makes the buckets of a store without keys, whose vault comes with the settings.
func (s *Moving) create() error {
	_, fresh, err := identify(s.bolt)
	if err != nil || !fresh {
		return err
	}
	if err := vault.SyncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	return s.bolt.Update(func(tx *bbolt.Tx) error {
		for _, name := range allBuckets {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(metaBucket)
		return errors.Join(meta.Put(schemaKey, []byte(strconv.Itoa(schema))), meta.Put(storeIDKey, []byte(rand.Text())))
	})
}

// Close unlocks the file.
func (s *Moving) Close() error {
	if s.bolt == nil {
		return nil
	}
	return s.bolt.Close()
}

// Name is the path.
func (s *Moving) Name() string { return s.path }

// Kind is "bolt".
func (s *Moving) Kind() string { return "bolt" }

// Mark reads the mark; nil: there is none.
func (s *Moving) Mark(context.Context) (m *move.Mark, err error) {
	err = s.bolt.View(func(tx *bbolt.Tx) error {
		m, err = metaIn[move.Mark](tx, moveKey)
		return err
	})
	return m, err
}

// SetMark writes or removes the mark.
func (s *Moving) SetMark(_ context.Context, m *move.Mark) error {
	return s.bolt.Update(func(tx *bbolt.Tx) error { return putMark(tx, m) })
}

func putMark(tx *bbolt.Tx, m *move.Mark) error {
	if m == nil {
		return tx.Bucket(metaBucket).Delete(moveKey)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(moveKey, text)
}

// Empty reports that the store has no keys of its vault, and so nothing else.
func (s *Moving) Empty(context.Context) (empty bool, err error) {
	err = s.bolt.View(func(tx *bbolt.Tx) error {
		empty = tx.Bucket(metaBucket).Get(vaultKey) == nil
		return nil
	})
	return empty, err
}

// Check checks the file as purser check does. The file is unlocked meanwhile.
func (s *Moving) Check(ctx context.Context) error {
	if err := s.bolt.Close(); err != nil {
		return err
	}
	s.bolt = nil
	r, err := CheckFile(ctx, s.path, s.master)
	return errors.Join(err, r.Err(), s.lock(0))
}

// Reconcile makes the next opening read from the chain what was paid since a time.
func (s *Moving) Reconcile(taken time.Time) error {
	return s.bolt.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		marks, err := marksIn(meta)
		if err != nil {
			return err
		}
		return putJSON(meta.Put, map[string]any{string(backupsKey): append(marks, Mark{At: taken.UTC(), Copied: true})})
	})
}

// Export visits the records behind a position.
func (s *Moving) Export(ctx context.Context, behind *move.Position, visit func(move.Record) error) error {
	return s.bolt.View(func(tx *bbolt.Tx) error {
		for kind := range move.Kinds {
			if behind != nil && kind < behind.Kind {
				continue
			}
			err := exportKind(ctx, tx, kind, behind, visit)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		return nil
	})
}

// Import writes records and the mark in one transaction.
func (s *Moving) Import(ctx context.Context, list []move.Record, m *move.Mark) error {
	return s.bolt.Update(func(tx *bbolt.Tx) error {
		b := newBatch(nil, tx)
		for _, r := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := b.importRecord(r); err != nil {
				return fmt.Errorf("%s: %w", r.Kind, err)
			}
		}
		return putMark(tx, m)
	})
}
