package pgstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// A database can lose commits that callers have heard of: a standby takes over that was behind, or an older copy of the
// data is put in its place. Each node remembers the newest batches that it has answered. Each batch and each change looks
// them up before it decides, so none is decided by books that lack them. Commits are lost from the newest on: if the
// newest one of a slot is there, all of the slot are.

const (
	// askedFor bounds the age of batches that are looked up. It is shorter than operationsFor, after which the database has
	// forgotten them.
	askedFor = 5 * time.Hour

	// batchSlot is that of batches, keptSlot that of outcomes that were kept, and changeSlot that of what is no payment.
	// Earlier versions wrote batches to the slot behind batchSlot as well.
	batchSlot  = 0
	keptSlot   = 2
	changeSlot = 3
	slots      = 4

	// slotSize is the room of a slot in the file: id, time, checksum. No slot stands in two sectors of a disk.
	slotSize = 64
)

// toldBatch is a batch whose callers have their answer.
type toldBatch struct {
	id uuid.UUID
	at time.Time // of the answer, by the database's clock
	// order is that of the commits, as far as locks order them.
	order uint64
}

// answered holds the newest batch of each slot.
type answered struct {
	mu      sync.Mutex
	newest  [slots]toldBatch
	ordered uint64
	file    *os.File // nil: there is no folder
	changed bool     // since the last sync
}

// open reads what an earlier run has left in a folder. The file of kept outcomes keeps other processes away from it.
func (a *answered) open(dir, store string) (err error) {
	if dir == "" {
		return nil
	}
	if a.file, err = os.OpenFile(filepath.Join(dir, "answered-"+store+".mark"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open the file of answered batches: %w", err)
	}
	for slot := range a.newest {
		b := make([]byte, slotSize)
		if _, err := a.file.ReadAt(b, int64(slot*slotSize)); err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the file of answered batches: %w", err)
		}
		if binary.BigEndian.Uint32(b[24:]) == crc32.Checksum(b[:24], castagnoli()) { // else a crash has cut it off
			a.newest[slot] = toldBatch{id: uuid.UUID(b[:16]), at: time.Unix(0, int64(binary.BigEndian.Uint64(b[16:])))} //nolint:gosec // written from an int64
		}
	}
	return nil
}

// next numbers a commit that its transaction has the locks for.
func (a *answered) next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ordered++
	return a.ordered
}

// set replaces the newest batch of a slot. A kill leaves it in the file; against a power cut see sync.
func (a *answered) set(slot int, b toldBatch) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.order != 0 && b.order < a.newest[slot].order {
		return nil
	}
	a.newest[slot] = b
	if a.file == nil {
		return nil
	}
	a.changed = true
	record := binary.BigEndian.AppendUint64(append(make([]byte, 0, slotSize), b.id[:]...), uint64(b.at.UnixNano())) //nolint:gosec // read as an int64
	record = binary.BigEndian.AppendUint32(record, crc32.Checksum(record, castagnoli()))
	_, err := a.file.WriteAt(record, int64(slot*slotSize))
	return err
}

// list returns the batches that the database must know.
func (a *answered) list(now time.Time) []toldBatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]toldBatch, 0, slots)
	for _, b := range a.newest {
		if b.id != uuid.Nil && now.Sub(b.at) < askedFor {
			list = append(list, b)
		}
	}
	return list
}

// forget drops batches that the database has lost.
func (a *answered) forget(lost []toldBatch) (err error) {
	for _, b := range lost {
		for slot := range slots {
			a.mu.Lock()
			is := a.newest[slot].id == b.id
			a.mu.Unlock()
			if is {
				err = errors.Join(err, a.set(slot, toldBatch{}))
			}
		}
	}
	return err
}

// sync makes the file survive a power cut. Each batch would wait for the disk, so it is done from time to time.
func (a *answered) sync() error {
	a.mu.Lock()
	changed := a.changed && a.file != nil
	a.changed = false
	a.mu.Unlock()
	if !changed {
		return nil
	}
	return a.file.Sync()
}

func (a *answered) close() error {
	if a.file == nil {
		return nil
	}
	err := errors.Join(a.sync(), a.file.Close())
	if errors.Is(err, os.ErrClosed) { // it was closed before
		return nil
	}
	return err
}

// answers remembers a batch before its callers have their answer.
func (d *DB) answers(ctx context.Context, slot int, b toldBatch) {
	if err := d.answered.set(slot, b); err != nil {
		d.log.WarnContext(ctx, "store: the newest batch is not in the file of this node, so that the next start would not miss it", "error", err)
	}
}

// storeNow selects the id of the store, and how many of some batches it knows.
const storeNow = `(SELECT (SELECT value FROM settings WHERE name = '` + settingID + `') id,
	(SELECT count(*) FROM operations o WHERE o.id = ANY($1::uuid[]) AND NOT o.void) n)`

// bytesOfIDs joins the ids of batches.
func bytesOfIDs(list []toldBatch) []byte {
	all := make([]byte, 0, len(list)*len(uuid.UUID{}))
	for _, b := range list {
		all = append(all, b.id[:]...)
	}
	return all
}

// idsIn returns the ids of batches that bytesOfIDs has joined.
func idsIn(all string) array[pgtype.UUID] {
	const size = len(uuid.UUID{})
	list := make(array[pgtype.UUID], len(all)/size)
	for i := range list {
		list[i] = pgtype.UUID{Bytes: [size]byte([]byte(all[i*size : (i+1)*size])), Valid: true}
	}
	return list
}

func idsOf(list []toldBatch) array[pgtype.UUID] { return idsIn(string(bytesOfIDs(list))) }

// recognizes tells whether the database is the one that this node has written to: DownReplaced, or DownLost if it knows
// fewer batches than were asked for.
func (d *DB) recognizes(id []byte, found, asked int) error {
	switch {
	case !bytes.Equal(id, []byte(d.id)):
		return &downError{DownReplaced}
	case found < asked:
		return &downError{DownLost}
	}
	return nil
}

// recognize asks the database which one it is: see recognizes.
func (d *DB) recognize(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	list := d.answered.list(d.Now())
	var id []byte
	var found int
	err := d.pool.QueryRow(ctx, `SELECT q.id, q.n FROM `+storeNow+` q`, idsOf(list)).Scan(&id, &found)
	switch {
	case tablesGone(err):
		return &downError{DownReplaced}
	case err != nil:
		return err
	}
	return d.recognizes(id, found, len(list))
}

// tablesGone reports that the database has no tables of a store: it was dropped and made again.
func tablesGone(err error) bool {
	refused, is := errors.AsType[*pgconn.PgError](err)
	return is && (refused.Code == "42P01" || refused.Code == "3F000")
}
