package boltstore

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// A plain copy of the database, taken without [DB.Copy], has no mark. If it takes the place of the
// store, payments could be made twice. The journal beside it tells: it has records of a later epoch
// than the copy, or it is missing although the copy was taken of a running store. Such a database is
// treated as a restored backup.

// enter opens the journal of a store and its working set, and begins the next epoch. change adapts
// the working set before it is committed; older tells that it lacks what a journal has or had.
func (d *DB) enter(bolt *bbolt.DB, change func(tx *bbolt.Tx, older string) error) (err error) {
	var was epoch
	err = bolt.View(func(tx *bbolt.Tx) error {
		was, err = epochIn(tx.Bucket(metaBucket))
		return err
	})
	if err != nil {
		return err
	}
	path := JournalPath(d.path)
	content, err := readJournal(path, d.id, was.number)
	switch {
	case err == nil && was.open && content.foreign:
		err = fmt.Errorf("%w: it is not the one of this database", ErrJournal)
		fallthrough
	case errors.Is(err, ErrJournal) && was.open:
		return fmt.Errorf("%s: %w; the database was not closed cleanly, and payments may be in its journal only: put the right "+
			"journal there, or restore a backup, or move the journal away; without it, the database is reconciled like a restored backup", path, err)
	case errors.Is(err, ErrJournal):
		d.log.Warn("store: the journal is damaged; the database was closed cleanly and does not need it", "file", path, "error", err)
	case err != nil:
		return fmt.Errorf("read journal: %w", err)
	}
	older := ""
	switch {
	case content.newest > was.number:
		older = "its journal is from a later time"
	case was.open && !content.found:
		older = "it was not closed cleanly, and its journal " + path + " is missing"
	}
	next := epoch{max(was.number, content.newest) + 1, true}
	journal, err := openJournal(path, d.id, next.number, d.noSync)
	if err != nil {
		return err
	}
	tx, err := d.begin(bolt)
	if err != nil {
		return errors.Join(err, journal.close())
	}
	err = d.guard(func() error {
		if was.open {
			for _, r := range content.records {
				if err := replay(tx, r); err != nil {
					return err
				}
			}
		}
		if err := change(tx, older); err != nil {
			return err
		}
		return next.put(tx.Bucket(metaBucket))
	})
	if err != nil {
		return errors.Join(err, d.guard(tx.Rollback), journal.close())
	}
	if err = d.guard(tx.Commit); err == nil {
		tx, err = d.begin(bolt)
	}
	if err != nil {
		return errors.Join(err, journal.close())
	}
	d.handle.Lock()
	defer d.handle.Unlock()
	d.bolt, d.journal, d.tx = bolt, journal, tx
	return nil
}

// markCopy marks an older copy, unless it is a backup that was never opened: the mark of the
// backup says more. The copy has everything up to its last write, so the payments that it lacks
// began later.
func (d *DB) markCopy(tx *bbolt.Tx, why string) error {
	meta := tx.Bucket(metaBucket)
	marks, err := marksIn(meta)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if m.unopened() {
			return nil
		}
	}
	taken, err := lastWritten(tx)
	if err != nil {
		return err
	}
	d.log.Error("store: an older copy of the database is in its place; it is reconciled like a backup",
		"file", d.path, "why", why, "written", taken)
	return putJSON(meta.Put, map[string]any{string(backupsKey): append(marks, Mark{At: taken, Copied: true})})
}

// lastWritten returns a time that is not after the last write of a store: its last opening, or
// the begin of its newest payment.
func lastWritten(tx *bbolt.Tx) (at time.Time, err error) {
	if text := tx.Bucket(metaBucket).Get(openedKey); text != nil {
		if err := at.UnmarshalText(text); err != nil {
			return at, fmt.Errorf("when the store was opened: %w", err)
		}
	}
	payments := tx.Bucket(paymentsBucket)
	if id, _ := last(payments, payments.Cursor()); id != nil {
		p, err := paymentIn(tx, string(id))
		if err != nil {
			return at, err
		}
		if p.Created.After(at) {
			at = p.Created
		}
	}
	return at.UTC(), nil
}
