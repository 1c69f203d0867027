package boltstore

import (
	"bytes"
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
// A record is written only after the one before it was flushed. So a record that is not whole is
// the torn tail, unless a later record of its epoch follows: then the file is damaged.

const (
	journalHead = 4096
	journalStep = 1 << 20
	recordHead  = 28
	recordAlign = 8
)

// journalRoom bounds the journal in bytes. When it is half full, the committer writes a
// checkpoint. Tests lower it.
var journalRoom int64 = 8 << 20

var (
	recordMagic = []byte("pjr1")
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// ErrJournal reports a journal with a damaged record before its end.
var ErrJournal = errors.New("the journal is damaged")

// errNoRoom: the record does not fit into the journal, or the file has lost its name. A checkpoint
// makes the batch durable instead.
var errNoRoom = errors.New("no room in the journal")

// JournalPath returns the path of the journal beside a database.
func JournalPath(path string) string { return strings.TrimSuffix(path, ".db") + ".journal" }

// journalFile appends records. Only the committer uses it.
type journalFile struct {
	path, store string
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
}

// readJournal reads the journal beside a database as it concerns an epoch: ErrJournal.
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
	at := journalHead
	for {
		r, ok := recordAt(data, at)
		if !ok || r.epoch != epoch || r.seq != uint64(len(c.records))+1 {
			break
		}
		c.newest = epoch
		c.records = append(c.records, r.changes)
		at = r.end
	}
	last := uint64(len(c.records))
	for ; at < len(data); at += recordAlign {
		r, ok := recordAt(data, at)
		if !ok {
			continue
		}
		if r.epoch == epoch && r.seq > last {
			return c, fmt.Errorf("%w: record %d is broken, and record %d follows it", ErrJournal, last+1, r.seq)
		}
		c.newest = max(c.newest, r.epoch)
		at = r.end - recordAlign
	}
	return c, nil
}

// record is one record of the file.
type record struct {
	epoch, seq uint64
	changes    []byte
	end        int // where the next one begins
}

// recordAt decodes the record at an offset, if there is a whole one.
func recordAt(data []byte, at int) (r record, ok bool) {
	if at+recordHead > len(data) || !bytes.Equal(data[at:at+4], recordMagic) {
		return r, false
	}
	head := data[at : at+recordHead]
	length := int64(binary.BigEndian.Uint32(head[4:]))
	if length > int64(len(data)-at-recordHead) {
		return r, false
	}
	r.changes = data[at+recordHead : at+recordHead+int(length)]
	if recordSum(head, r.changes) != binary.BigEndian.Uint32(head[24:]) {
		return r, false
	}
	r.epoch, r.seq = binary.BigEndian.Uint64(head[8:]), binary.BigEndian.Uint64(head[16:])
	r.end = at + recordSize(int(length))
	return r, true
}

// recordSum sums up a record without the field of the sum.
func recordSum(head, changes []byte) uint32 {
	return crc32.Update(crc32.Checksum(head[:24], castagnoli), castagnoli, changes)
}

// recordSize returns the room that a record with so many bytes of changes takes.
func recordSize(length int) int {
	return (recordHead + length + recordAlign - 1) / recordAlign * recordAlign
}

// journalHeader names the store, because the records of another one must not be replayed.
func journalHeader(store string) []byte { return fmt.Appendf(nil, "purser-journal-1 %s\n", store) }

// openJournal opens the journal of a store for the records of a new epoch, and creates it if there
// is none.
func openJournal(path, store string, epoch uint64, noSync bool) (*journalFile, error) {
	j := &journalFile{path: path, store: store, noSync: noSync}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j.restart(epoch)
	return j, nil
}

func (j *journalFile) open() error {
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	head := make([]byte, journalHead)
	copy(head, journalHeader(j.store))
	was := make([]byte, journalHead)
	if n, _ := file.ReadAt(was, 0); n < journalHead || !bytes.Equal(was, head) {
		err = errors.Join(file.Truncate(0), writeAt(file, head, 0))
		if err == nil && !j.noSync {
			err = errors.Join(file.Sync(), vault.SyncDir(filepath.Dir(j.path)))
		}
	}
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr); err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.size = file, info.Size()
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
	copy(r, recordMagic)
	binary.BigEndian.PutUint32(r[4:], uint32(len(r)-recordHead))
	binary.BigEndian.PutUint64(r[8:], j.epoch)
	binary.BigEndian.PutUint64(r[16:], j.seq+1)
	binary.BigEndian.PutUint32(r[24:], recordSum(r[:recordHead], r[recordHead:]))
	if err := writeAt(j.file, r, j.end); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if !j.noSync {
		if err := flushData(j.file); err != nil {
			return fmt.Errorf("flush journal: %w", err)
		}
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

// replace opens the file anew if it has lost its name. The database must have all its records.
func (j *journalFile) replace() error {
	if j.inPlace() {
		return nil
	}
	return errors.Join(j.file.Close(), j.open())
}

func (j *journalFile) close() error { return j.file.Close() }

// writeAt writes all of a block.
func writeAt(file *os.File, block []byte, at int64) error {
	_, err := file.WriteAt(block, at)
	return err
}
