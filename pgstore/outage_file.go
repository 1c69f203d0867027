package pgstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"
)

// ErrOutcomes reports a file of kept outcomes that is damaged before its end, or that another process has.
var ErrOutcomes = errors.New("the file of kept outcomes cannot be used")

const (
	// fileWait bounds the wait for a process that ends.
	fileWait = 2 * time.Second
	// maxKept bounds the bytes of one outcome.
	maxKept = 1 << 20
	// keptHead has the length of a record, and the CRC-32C of the length and of the record.
	keptHead = 12
)

// outageFile has the outcomes that wait for the database, one record each. A node has its own.
type outageFile struct {
	file         *os.File
	seal, unseal func([]byte) ([]byte, error)
	size         int64 // of what is whole
}

// outagePath names the file of a store in a folder.
func outagePath(dir, store string) string { return filepath.Join(dir, "outcomes-"+store+".journal") }

// openOutageFile takes the file of a store in a folder, and reads it. What a crash has cut off at its end
// is left out: no caller heard that it is kept.
func openOutageFile(ctx context.Context, dir, store string, seal, unseal func([]byte) ([]byte, error)) (f *outageFile, list []*kept, err error) {
	path := outagePath(dir, store)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the file of kept outcomes: %w", err)
	}
	f = &outageFile{file: file, seal: seal, unseal: unseal}
	if err = f.lock(ctx); err == nil {
		list, err = f.read()
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return f, list, nil
}

func (f *outageFile) lock(ctx context.Context) error {
	for until := time.Now().Add(fileWait); ; {
		err := lockFile(f.file)
		if err == nil {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%w: another process has it: %w", ErrOutcomes, err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *outageFile) read() (list []*kept, err error) {
	all, err := io.ReadAll(f.file)
	if err != nil {
		return nil, err
	}
	for rest := all; len(rest) >= keptHead; {
		if zeros(rest) {
			break
		}
		n, sum := int(binary.BigEndian.Uint32(rest)), binary.BigEndian.Uint32(rest[8:])
		if n > maxKept || crc32.Checksum(rest[:4], castagnoli()) != binary.BigEndian.Uint32(rest[4:]) {
			return nil, fmt.Errorf("%w: it is damaged at byte %d", ErrOutcomes, f.size)
		}
		if len(rest) < keptHead+n {
			break // cut off
		}
		sealed := rest[keptHead : keptHead+n]
		if rest = rest[keptHead+n:]; crc32.Checksum(sealed, castagnoli()) != sum {
			if !zeros(rest) {
				return nil, fmt.Errorf("%w: it is damaged at byte %d", ErrOutcomes, f.size)
			}
			break
		}
		text, err := f.unseal(sealed)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomes, err)
		}
		k := new(kept)
		if err := json.Unmarshal(text, k); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomes, err)
		}
		list, f.size = append(list, k), f.size+int64(keptHead+n)
	}
	return list, nil
}

// zeros reports that nothing else is left. A file may have grown before a power cut, and its bytes not have
// come.
func zeros(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// append writes outcomes. They are durable when it returns nil.
func (f *outageFile) append(list []*kept) error {
	var records []byte
	for _, k := range list {
		text, err := json.Marshal(k)
		if err != nil {
			return err
		}
		sealed, err := f.seal(text)
		if err != nil {
			return err
		}
		if len(sealed) > maxKept {
			return fmt.Errorf("an outcome has %d bytes", len(sealed))
		}
		length := binary.BigEndian.AppendUint32(nil, uint32(len(sealed))) //nolint:gosec // maxKept
		records = binary.BigEndian.AppendUint32(append(records, length...), crc32.Checksum(length, castagnoli()))
		records = binary.BigEndian.AppendUint32(records, crc32.Checksum(sealed, castagnoli()))
		records = append(records, sealed...)
	}
	if _, err := f.file.WriteAt(records, f.size); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	f.size += int64(len(records))
	return nil
}

// clear drops all outcomes.
func (f *outageFile) clear() error {
	if f.size = 0; f.file == nil {
		return nil
	}
	return errors.Join(f.file.Truncate(0), f.file.Sync())
}

func (f *outageFile) close() error {
	if f == nil {
		return nil
	}
	if err := f.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil // it was closed before
}
