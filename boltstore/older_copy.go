package boltstore

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
)

// A plain copy of the database, taken without [DB.Copy], has no mark. If it takes the place of the
// store, payments could be made twice. The journal beside it tells: it is of a later epoch than the
// copy, or it is missing although the copy was taken of a running store. Such a database is treated
// as a restored backup.

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
	if err == nil && was.open {
		err = content.fits(was.number)
	}
	switch {
	case errors.Is(err, ErrJournal) && was.open:
		return fmt.Errorf("%s: %w; the database was not closed cleanly, and payments, keys "+
			"and wallets of its last seconds may be in its journal only: put the right journal there, or restore a backup, or "+
			"move the journal away; without it, the database is reconciled like a restored backup", path, err)
	case errors.Is(err, ErrJournal):
		d.log.Warn("store: the journal is damaged; the database was closed cleanly and does not need it", "file", path, "error", err)
	case err != nil:
		return fmt.Errorf("read journal: %w", err)
	}
	older, lost := "", was.open && !content.found
	switch {
	case content.later(was.number):
		older = "its journal is from a later time"
	case lost:
		older = "it was not closed cleanly, and its journal " + path + " is missing"
	}
	next := epoch{max(was.number+1, content.newest+1, content.begun), true}
	tx, err := d.begin(bolt)
	if err != nil {
		return err
	}
	var journal *journalFile
	openNext := func() (err error) {
		journal, err = openJournal(path, d.id, next.number, d.noSync)
		return err
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
		if err := next.put(tx.Bucket(metaBucket)); err != nil {
			return err
		}
		if !lost {
			if err := openNext(); err != nil {
				return err
			}
		}
		return tx.Commit()
	})
	// A new journal takes the place of a lost one only when the database has the loss on record.
	// Otherwise a start that ends in between would let the next one take the new journal for the
	// lost one.
	if err == nil && lost {
		err = openNext()
	}
	work := tx
	if err == nil {
		work, err = d.begin(bolt)
	}
	if err != nil {
		d.rollBack(tx)
		if journal != nil {
			err = errors.Join(err, journal.close())
		}
		return err
	}
	d.handle.Lock()
	defer d.handle.Unlock()
	d.bolt, d.journal, d.tx = bolt, journal, work
	return nil
}

// markCopy marks a copy, unless it is a backup that was never opened: the mark of the
// backup says more. The copy has everything up to its last write, so the payments that it lacks
// began later.
func (d *DB) markCopy(tx *bbolt.Tx, why, from string) error {
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
	d.log.Error("store: the database is a copy, and may lack what the other one has paid; it is reconciled like a backup",
		"file", d.path, "why", why, "written", taken)
	return putJSON(meta.Put, map[string]any{string(backupsKey): append(marks, Mark{At: taken, Copied: true, From: from})})
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
