package boltstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/internal/vault"
)

// CheckFile checks a backup, or a store that no purser has open: the pages of the file, and all
// that [DB.Check] checks. It changes and creates nothing. Without a master key (nil) it opens no
// secrets. It fails if the file cannot be checked: ErrLocked, ErrNewer, ErrOlder, or an error of
// the file system. Faults of the store are in the report.
func CheckFile(ctx context.Context, path string, master vault.Source) (r Report, err error) {
	bolt, err := openStopped(path, lockWait)
	if err != nil {
		return r, fmt.Errorf("check %s: %w", path, err)
	}
	records, missing := pendingRecords(path, bolt)
	if len(records) > 0 {
		// What the journal has is checked in a write transaction, which is never committed.
		if err := bolt.Close(); err != nil {
			return r, fmt.Errorf("check %s: %w", path, err)
		}
		if bolt, err = openLocked(path, &bbolt.Options{Timeout: lockWait, NoStatistics: true, FreelistType: bbolt.FreelistMapType}, 0); err != nil {
			return r, fmt.Errorf("check %s: %w", path, fileError(err))
		}
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	read := bolt.View
	if len(records) > 0 {
		read = func(f func(*bbolt.Tx) error) error { return replayed(bolt, records, f) }
	}
	pages := false
	err = read(func(tx *bbolt.Tx) error {
		if r, err = checkTruncated(path, tx); err != nil || len(r.Faults) > 0 {
			return err
		}
		size := r.Size
		var unseal unsealer
		fault := recoverFaults(func() error { unseal, err = unsealerOf(tx, master); return err })
		if r, err = checkRows(ctx, tx, unseal); err != nil {
			return err
		}
		r.Size = size
		if fault != nil && !errors.Is(fault, errUnreadable) { // the rows have told that
			r.Faults = append(r.Faults, fault.Error())
		}
		if missing != nil && !errors.Is(missing, errUnreadable) {
			r.Faults = append(r.Faults, missing.Error())
		}
		pages = len(r.Faults) == 0 || len(r.Faults) == 1 && missing != nil
		return nil
	})
	if err == nil && pages { // in a broken file, bbolt's own check loses its way
		err = bolt.View(func(tx *bbolt.Tx) error {
			r.Faults, r.Pages = append(r.Faults, checkPages(tx)...), true
			return nil
		})
	}
	if err != nil {
		return r, fmt.Errorf("check %s: %w", path, err)
	}
	return r, nil
}

// pendingRecords reads what the journal has and the database of a stopped store lacks. The error
// says why that cannot be told.
func pendingRecords(path string, bolt *bbolt.DB) (records [][]byte, err error) {
	err = recoverFaults(func() error {
		return bolt.View(func(tx *bbolt.Tx) error {
			meta := tx.Bucket(metaBucket)
			if meta == nil {
				return nil
			}
			e, err := epochIn(meta)
			if err != nil || !e.open {
				return err
			}
			c, err := readJournal(JournalPath(path), string(meta.Get(storeIDKey)), e.number)
			name := filepath.Base(JournalPath(path))
			switch {
			case err != nil:
			case c.later(e.number):
				err = fmt.Errorf("the journal %s is from a later time than the database", name)
			case !c.found && !c.foreign:
				err = fmt.Errorf("the database was not closed cleanly, and its journal %s is missing", name)
			default:
				err = c.fits(e.number)
			}
			records = c.records
			return err
		})
	})
	return records, err
}

// replayed shows a transaction that has the records as well, and takes them back.
func replayed(bolt *bbolt.DB, records [][]byte, read func(*bbolt.Tx) error) error {
	tx, err := bolt.Begin(true)
	if err != nil {
		return err
	}
	err = recoverFaults(func() error {
		for _, r := range records {
			if err := replay(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = read(tx)
	}
	return errors.Join(err, tx.Rollback())
}

// openStopped opens the file of a store for reading: ErrLocked while a process has it open for
// writing.
func openStopped(path string, wait time.Duration) (*bbolt.DB, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() == 0: // bbolt would begin a new store in an empty one
		return nil, errNoStore
	case info.Size() < int64(2*os.Getpagesize()): // bbolt would tell the size only
		return nil, fmt.Errorf("%w, or it is damaged: it has %d bytes", errNoStore, info.Size())
	}
	var bolt *bbolt.DB
	err := recoverFaults(func() (err error) {
		bolt, err = bbolt.Open(path, fileMode, &bbolt.Options{ReadOnly: true, Timeout: wait, NoStatistics: true})
		return err
	})
	return bolt, fileError(err)
}

// fileError translates an error of bbolt about an existing file.
func fileError(err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%w: a running purser has it open", ErrLocked)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w, or it is damaged: %w", errNoStore, err)
	}
	return err
}

// checkTruncated reports a file that is shorter than its header says.
func checkTruncated(path string, tx *bbolt.Tx) (Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Report{}, err
	}
	r := Report{Size: info.Size()}
	if info.Size() < tx.Size() {
		r.Faults = []string{fmt.Sprintf("the file is damaged: it has %d bytes of %d", info.Size(), tx.Size())}
	}
	return r, nil
}

// unsealerOf opens the vault of the store; nil without a master key or with a wrong one.
func unsealerOf(tx *bbolt.Tx, master vault.Source) (unsealer, error) {
	meta := tx.Bucket(metaBucket)
	if master == nil || meta == nil {
		return nil, nil
	}
	key, err := master(false)
	if err != nil {
		return nil, err
	}
	v, err := vault.Open(key, meta.Get(vaultKey))
	if err != nil {
		return nil, err
	}
	return v.Unseal, nil
}

// checkPages checks that every page of the file is used once or free.
func checkPages(tx *bbolt.Tx) []string {
	faults := []string{}
	for err := range tx.Check() { // to the end, or its goroutine would wait for ever
		if len(faults) < maxFaults {
			faults = append(faults, "the file is damaged: "+err.Error())
		}
	}
	return faults
}

// InUse reports whether a running purser has the file open. Files that are no stores are not in
// use.
func InUse(path string) (bool, error) {
	bolt, err := openStopped(path, usedWait)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case err == nil:
		return false, bolt.Close()
	case errors.Is(err, errNoStore), errors.Is(err, errUnreadable):
		return false, nil
	}
	return false, err
}

// Moved returns why the file of a stopped purser is not opened any more: move.ErrMoved, move.ErrUnderWay. nil: it is, or
// that cannot be told.
func Moved(path string) error {
	bolt, err := openStopped(path, usedWait)
	if err != nil {
		return nil //nolint:nilerr // there is none, a purser has it, or it is no store
	}
	err = errors.Join(checkMark(bolt), bolt.Close())
	if errors.Is(err, move.ErrMoved) || errors.Is(err, move.ErrUnderWay) {
		return err
	}
	return nil
}

// usedWait is the shortest wait for the lock that bbolt knows: it waits for ever at zero.
const usedWait = time.Millisecond
