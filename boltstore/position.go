package boltstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// A plain copy of the file, taken without [DB.Copy], has no mark. So a small file beside the
// database holds the position that the database has reached. A database behind that position is
// an older copy of itself: it is treated as a restored backup.
//
// The committer writes the position after each commit and before the callers hear of it. If the
// process ends in between, the database is ahead, which is no alarm: nothing that the commit
// allowed has been sent. A missing position is no alarm either, because a database may move.

// position holds how far a store has come. Positions of one store compare by generation first,
// because compaction counts commits anew.
type position struct {
	store      string // its id
	generation uint64 // counts openings and compactions
	commit     uint64 // bbolt's number of the last commit
}

const positionForm = "purser-position-1 %s %020d %020d\n" // of one length for a store

func positionPath(path string) string { return path + ".position" }

// readPosition reads the position beside a database; the zero value if there is none.
func readPosition(path string) (p position, err error) {
	text, err := os.ReadFile(positionPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		_, err = fmt.Sscanf(string(text), positionForm, &p.store, &p.generation, &p.commit)
	}
	if err != nil {
		return position{}, fmt.Errorf("reading %s: %w", positionPath(path), err)
	}
	return p, nil
}

func (p position) text() []byte {
	return fmt.Appendf(nil, positionForm, p.store, p.generation, p.commit)
}

// behind reports whether q is a later position of the same store.
func (p position) behind(q position) bool {
	return p.store == q.store && cmp.Or(cmp.Compare(p.generation, q.generation), cmp.Compare(p.commit, q.commit)) < 0
}

// positionIn reads the position that a transaction sees.
func positionIn(tx *bbolt.Tx) position {
	meta := tx.Bucket(metaBucket)
	return position{store: string(meta.Get(storeIDKey)), generation: generationIn(meta), commit: uint64(tx.ID())}
}

// generationIn reads the generation; 0 in a store that has none yet.
func generationIn(meta *bbolt.Bucket) uint64 {
	if n := meta.Get(generationKey); len(n) == 8 {
		return binary.BigEndian.Uint64(n)
	}
	return 0
}

func putGeneration(meta *bbolt.Bucket, n uint64) error {
	return meta.Put(generationKey, binary.BigEndian.AppendUint64(nil, n))
}

// advance begins a new generation and writes its position. Every other copy of the store is
// behind it. An older copy gets a mark, as a backup has one.
func (d *DB) advance(bolt *bbolt.DB) error {
	reached, err := readPosition(d.path)
	if err != nil {
		d.log.Warn("store: whether this is an older copy of the database cannot be told", "error", err)
	}
	var now position
	err = bolt.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		was := positionIn(tx)
		was.commit-- // this transaction's own
		if was.behind(reached) {
			if err := d.markCopy(tx); err != nil {
				return err
			}
		}
		if reached.store != was.store {
			reached.generation = 0
		}
		if err := putGeneration(meta, max(was.generation, reached.generation)+1); err != nil {
			return err
		}
		opened, err := d.clock().UTC().MarshalText()
		if err == nil {
			err = meta.Put(openedKey, opened)
		}
		now = positionIn(tx)
		return err
	})
	if err != nil {
		return err
	}
	d.generation = now.generation
	d.reached(now.commit, true)
	return nil
}

// reached writes the position of a commit. Without sync it does not wait for the disk, because a
// killed process loses nothing. After a power cut the position may be some seconds behind. It
// writes once, in place, and a kill does not divide one short write.
func (d *DB) reached(commit uint64, sync bool) {
	now := position{store: d.id, generation: d.generation, commit: commit}
	file, err := os.OpenFile(positionPath(d.path), os.O_WRONLY|os.O_CREATE, fileMode)
	if err == nil {
		_, err = file.WriteAt(now.text(), 0)
		if err == nil && sync {
			err = file.Sync()
		}
		err = errors.Join(err, file.Close())
	}
	if err != nil && !d.unplaced {
		d.log.Warn("store: an older copy in the place of the database would not be noticed", "error", err)
	}
	d.unplaced = err != nil
}

// markCopy marks an older copy, unless it is a backup that was never opened: the mark of the
// backup says more. The copy has everything up to its last write, so the payments that it lacks
// began later.
func (d *DB) markCopy(tx *bbolt.Tx) error {
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
	d.log.Error("store: an older copy of the database is in its place; it is reconciled like a backup", "file", d.path, "written", taken)
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
	if id, row := tx.Bucket(paymentsBucket).Cursor().Last(); id != nil {
		p, err := decodePayment(row)
		if err != nil {
			return at, err
		}
		if p.Created.After(at) {
			at = p.Created
		}
	}
	return at.UTC(), nil
}
