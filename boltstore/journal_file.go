package boltstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/purserpay/purser/internal/vault"
)

// The journal file is a write-ahead log in front of the database. The committer appends the
// changes of each batch as one record, and flushes it before the callers hear of it. A checkpoint
// commits the same changes to the database; then the file is written from its beginning again.
//
// The file begins with a header of one block. Records follow without gaps, aligned to recordAlign:
//
//	magic 4 | length of the changes 4 | epoch 8 | sequence 8 | CRC-32C of all else 4 | changes
//
// Numbers are big-endian. The epoch counts checkpoints, and the sequence counts the records of an
// epoch from 1. Records of earlier epochs may follow the last one of the current epoch; the
// database has them. The file is filled with zeros in steps of journalStep before records reach
// there, so that a flush writes data and no metadata.
//
// The checksum begins with the id of the store. A client does not know it, so text that a client
// sends cannot pass for a record.
//
// The header has the mark: a record without changes that names the epoch that begins. It is
// durable before the database enters that epoch. So a journal whose mark is behind the database
// is from an earlier time, and a database that is more than one epoch behind the mark is an older
// copy.
//
// A record is written only after the one before it was flushed. So a record that is not whole is
// the torn tail, unless a later record of its epoch follows: then the file is damaged.

const (
	journalHead = 4096
	journalStep = 1 << 20
	journalMark = 512 // offset of the mark, alone in its sector
	recordHead  = 28
	recordAlign = 8
)

// journalRoom bounds the journal in bytes. When it is half full, the committer writes a
// checkpoint. Tests lower it.
var journalRoom int64 = 16 << 20

var (
	recordMagic = []byte("pjr1")
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// ErrJournal reports a journal that is damaged before its end, or does not belong to the database.
var ErrJournal = errors.New("the journal is damaged")

// errNoRoom: the record does not fit into the journal, or the file has lost its name. A checkpoint
// makes the batch durable instead.
var errNoRoom = errors.New("no room in the journal")

// JournalPath returns the path of the journal beside a database.
func JournalPath(path string) string { return strings.TrimSuffix(path, ".db") + ".journal" }

// journalFile appends records. Only the committer uses it.
type journalFile struct {
	path, store string
	seed        uint32 // of the checksums
	file        *os.File
	noSync      bool

	epoch, seq uint64 // of the last record; seq is 0 at the begin of an epoch
	end, size  int64  // where the next record goes, and where the zeros end
}

// journalContent holds what a journal tells a store that is being opened.
type journalContent struct {
	found   bool     // there is a journal of this store
	foreign bool     // the file is something else
	records [][]byte // the changes of the epoch that was asked for
	newest  uint64   // the highest epoch of a record
	begun   uint64   // the epoch of the mark
}

// readJournal reads the journal beside a database as it concerns an epoch: ErrJournal. It accepts a
// damaged record of the epoch if records of a later one tell that the database is older.
func readJournal(path, store string, epoch uint64) (c journalContent, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	head := journalHeader(store)
	if c.found = bytes.HasPrefix(data, head); !c.found {
		c.foreign = true
		return c, nil
	}
	seed := journalSeed(store)
	if mark, ok := recordAt(data, journalMark, seed); ok {
		c.begun = mark.epoch
	} else {
		err = fmt.Errorf("%w: its mark is broken", ErrJournal)
	}
	at := journalHead
	for {
		r, ok := recordAt(data, at, seed)
		if !ok || r.epoch != epoch || r.seq != uint64(len(c.records))+1 {
			break
		}
		c.newest = epoch
		c.records = append(c.records, r.changes)
		at = r.end
	}
	last := uint64(len(c.records))
	for ; at < len(data); at += recordAlign {
		r, ok := recordAt(data, at, seed)
		if !ok {
			continue
		}
		if r.epoch == epoch && r.seq > last && err == nil {
			err = fmt.Errorf("%w: record %d is broken, and record %d follows it", ErrJournal, last+1, r.seq)
		}
		c.newest = max(c.newest, r.epoch)
		at = r.end - recordAlign
	}
	if c.newest > epoch {
		err = nil
	}
	return c, err
}

// fits returns ErrJournal unless a journal can be the one of a database in an epoch, or there is
// none.
func (c journalContent) fits(epoch uint64) error {
	switch {
	case c.foreign:
		return fmt.Errorf("%w: it is not the one of this database", ErrJournal)
	case c.found && c.begun < epoch:
		return fmt.Errorf("%w: it is from an earlier time than the database", ErrJournal)
	}
	return nil
}

// later reports that the journal is from a later time than a database in an epoch. The next epoch
// may be marked and not begun.
func (c journalContent) later(epoch uint64) bool { return c.newest > epoch || c.begun > epoch+1 }

// record is one record of the file.
type record struct {
	epoch, seq uint64
	changes    []byte
	end        int // where the next one begins
}

// recordAt decodes the record at an offset, if there is a whole one.
func recordAt(data []byte, at int, seed uint32) (r record, ok bool) {
	if at+recordHead > len(data) || !bytes.Equal(data[at:at+4], recordMagic) {
		return r, false
	}
	head := data[at : at+recordHead]
	length := int64(binary.BigEndian.Uint32(head[4:]))
	if length > int64(len(data)-at-recordHead) {
		return r, false
	}
	r.changes = data[at+recordHead : at+recordHead+int(length)]
	if recordSum(seed, head, r.changes) != binary.BigEndian.Uint32(head[24:]) {
		return r, false
	}
	r.epoch, r.seq = binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint64(head[16:])
	r.end = at + recordSize(int(length))
	return r, true
}

// completeRecord completes the head of a record, its first recordHead bytes.
func completeRecord(r []byte, epoch, seq uint64, seed uint32) {
	copy(r, recordMagic)
	binary.BigEndian.PutUint32(r[4:], uint32(len(r)-recordHead))
	binary.BigEndian.PutUint64(r[8:], epoch)
	binary.BigEndian.PutUint64(r[16:], seq)
	binary.BigEndian.PutUint32(r[24:], recordSum(seed, r[:recordHead], r[recordHead:]))
}

// recordSum sums up a record without the field of the sum.
func recordSum(seed uint32, head, changes []byte) uint32 {
	return crc32.Update(crc32.Update(seed, castagnoli, head[:24]), castagnoli, changes)
}

// journalSeed returns the checksum of the store's name, with which those of its records begin.
func journalSeed(store string) uint32 { return crc32.Checksum([]byte(store), castagnoli) }

// recordSize returns the room that a record with so many bytes of changes takes.
func recordSize(length int) int {
	return (recordHead + length + recordAlign - 1) / recordAlign * recordAlign
}

// journalHeader names the store, because the records of another one must not be replayed.
func journalHeader(store string) []byte { return fmt.Appendf(nil, "purser-journal-1 %s\n", store) }

// openJournal opens the journal of a store for the records of a new epoch, and creates it if there
// is none. The database must enter the epoch next, or be in it.
func openJournal(path, store string, epoch uint64, noSync bool) (*journalFile, error) {
	j := &journalFile{path: path, store: store, seed: journalSeed(store), noSync: noSync}
	if err := j.open(epoch); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.restart(epoch)
	return j, nil
}

func (j *journalFile) open(epoch uint64) error {
	head := journalHeader(j.store)
	file, err := os.OpenFile(j.path, os.O_RDWR, fileMode)
	if err == nil {
		was := make([]byte, len(head))
		if _, readErr := file.ReadAt(was, 0); readErr != nil || !bytes.Equal(was, head) {
			err = cmp.Or(file.Close(), fs.ErrNotExist) // of this store
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		file, err = j.create(epoch)
	}
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		j.file, j.size = file, info.Size()
		err = j.mark(epoch)
	}
	if err == nil && !j.noSync { // also for a process that created the file and ended before this
		err = vault.SyncDir(filepath.Dir(j.path))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return nil
}

// create makes a journal that is whole before it has its name.
func (j *journalFile) create(epoch uint64) (*os.File, error) {
	path := j.path + ".new"
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return nil, err
	}
	head := make([]byte, journalHead)
	copy(head, journalHeader(j.store))
	completeRecord(head[journalMark:journalMark+recordHead], epoch, 0, j.seed)
	err = writeAt(file, head, 0)
	if err == nil && !j.noSync {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if err := os.Rename(path, j.path); err != nil {
		return nil, err
	}
	return os.OpenFile(j.path, os.O_RDWR, fileMode)
}

// mark waits until the mark names an epoch.
func (j *journalFile) mark(epoch uint64) error {
	r := make([]byte, recordHead)
	completeRecord(r, epoch, 0, j.seed)
	if err := writeAt(j.file, r, journalMark); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return j.flush()
}

func (j *journalFile) flush() error {
	if j.noSync {
		return nil
	}
	if err := flushData(j.file); err != nil {
		return fmt.Errorf("flush journal: %w", err)
	}
	return nil
}

// restart begins an epoch: the next record is its first. Records of earlier epochs are overwritten.
func (j *journalFile) restart(epoch uint64) { j.epoch, j.seq, j.end = epoch, 0, journalHead }

// used returns the bytes of the records of this epoch.
func (j *journalFile) used() int64 { return j.end - journalHead }

// append writes a record and waits until it is durable. errNoRoom: nothing was written. After
// another error the record may be durable or not.
//
// append completes the head of the record, the first recordHead bytes.
func (j *journalFile) append(r []byte) error {
	size := int64(recordSize(len(r) - recordHead))
	if j.end+size > journalRoom || !j.inPlace() {
		return errNoRoom
	}
	if err := j.fill(j.end + size); err != nil {
		return fmt.Errorf("%w: %w", errNoRoom, err)
	}
	completeRecord(r, j.epoch, j.seq+1, j.seed)
	if err := writeAt(j.file, r, j.end); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := j.flush(); err != nil {
		return err
	}
	j.seq++
	j.end += size
	return nil
}

// fill makes room up to an offset, in zeros that are flushed with the next record.
func (j *journalFile) fill(until int64) error {
	for j.size < until {
		step := j.size/journalStep*journalStep + journalStep
		if err := writeAt(j.file, make([]byte, step-j.size), j.size); err != nil {
			return err
		}
		j.size = step
	}
	return nil
}

// inPlace reports whether the path still names the open file.
func (j *journalFile) inPlace() bool {
	open, err := j.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(j.path)
	return err == nil && os.SameFile(open, named)
}

// replace opens the file anew if it has lost its name. The database must have all its records, and
// be in the epoch.
func (j *journalFile) replace(epoch uint64) error {
	if j.inPlace() {
		return nil
	}
	return errors.Join(j.file.Close(), j.open(epoch))
}

func (j *journalFile) close() error { return j.file.Close() }

// writeAt writes all of a block.
func writeAt(file *os.File, block []byte, at int64) error {
	_, err := file.WriteAt(block, at)
	return err
}
