package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

var (
	errTooLarge = errors.New("request body above the replay limit")
	errQuota    = errors.New("too much is kept of other request bodies")
	errSpool    = errors.New("request body cannot be written to a file")
)

// spooler keeps request bodies: the beginning of each in memory, the rest in a file. Its quotas
// bound all bodies that are kept at the same time.
type spooler struct {
	memory   int64 // of one body in memory, in bytes
	most     int64 // of one body in all
	files    bool
	dir      string
	observer Observer
	log      *slog.Logger

	inMemory, onDisk *quota
	guaranteed       *quota      // in memory, for the beginning of each body
	troubled         atomic.Bool // the last file could not be written, and the log says so
}

// keep starts the copy of a body of the given length, -1 if that is not known.
func (s *spooler) keep(keyID string, length int64) kept {
	k := kept{spool: s, keyID: keyID, first: 4 << 10}
	if length >= 0 {
		k.first = int(min(length, 64<<10))
	}
	return k
}

// kept is the copy of one body. It is not safe for concurrent use.
type kept struct {
	spool      *spooler
	keyID      string
	first      int    // what is allocated first
	memory     []byte // its capacity counts against the quotas in memory
	guaranteed int64  // the part of it that the guaranteed quota has
	file       *os.File
	name       string // of the file, if it could not be unlinked while it is open
	size       int64
}

// add appends as much of p as can be kept. If that is not all of it, the error says why:
// errTooLarge, errQuota or errSpool.
func (k *kept) add(p []byte) (int, error) {
	if k.size+int64(len(p)) > k.spool.most {
		return 0, errTooLarge
	}
	n := 0
	if k.file == nil { // the file goes on where the memory ends
		n = k.fit(len(p))
		k.memory = append(k.memory, p[:n]...)
		k.size += int64(n)
	}
	if n < len(p) {
		if err := k.spill(p[n:]); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// fit makes space in memory for n more bytes, or fewer, and returns the number.
func (k *kept) fit(n int) int {
	want := int(min(int64(len(k.memory)+n), k.spool.memory))
	if have := cap(k.memory); want > have {
		to := int(min(int64(max(2*have, want, k.first)), k.spool.memory))
		if got := k.grow(int64(to - have)); got > 0 {
			k.memory = append(make([]byte, 0, have+int(got)), k.memory...)
		}
	}
	return min(want, cap(k.memory)) - len(k.memory)
}

// grow reserves memory for n more bytes, or for fewer, and returns the number.
func (k *kept) grow(n int64) int64 {
	s := k.spool
	granted := min(n, guaranteedBytes-k.guaranteed)
	if granted > 0 && !s.guaranteed.take(k.keyID, granted) {
		granted = 0
	}
	k.guaranteed += granted
	if rest := n - granted; rest > 0 && !s.inMemory.take(k.keyID, rest) {
		return granted
	}
	return n
}

// spill appends p to the file, all of it or nothing.
func (k *kept) spill(p []byte) error {
	s := k.spool
	if !s.files || !s.onDisk.take(k.keyID, int64(len(p))) {
		return errQuota
	}
	err := k.create()
	if err == nil {
		_, err = k.file.WriteAt(p, k.size-int64(len(k.memory)))
	}
	if err != nil {
		s.onDisk.give(k.keyID, int64(len(p)))
		if s.troubled.CompareAndSwap(false, true) {
			s.log.Error("request bodies cannot be spooled: their 402s are not paid", "error", err)
		}
		return fmt.Errorf("%w: %w", errSpool, err)
	}
	s.troubled.Store(false)
	k.size += int64(len(p))
	return nil
}

// create makes the file. Where the system allows it, the file loses its name at once, so that a
// crash leaves nothing behind.
func (k *kept) create() error {
	if k.file != nil {
		return nil
	}
	f, err := os.CreateTemp(k.spool.dir, "purser-body-") // with mode 0600
	if err != nil {
		return err
	}
	k.file = f
	k.spool.observer.Spooled(0, 0, 1)
	if os.Remove(f.Name()) != nil {
		k.name = f.Name()
	}
	return nil
}

// at reads from an offset below the size.
func (k *kept) at(p []byte, off int64) (int, error) {
	inMemory := int64(len(k.memory))
	if off < inMemory {
		return copy(p, k.memory[off:]), nil
	}
	return k.file.ReadAt(p[:min(int64(len(p)), k.size-off)], off-inMemory)
}

// drop gives everything back. The copy is empty then, and stays so.
func (k *kept) drop() {
	k.spool.guaranteed.give(k.keyID, k.guaranteed)
	k.spool.inMemory.give(k.keyID, int64(cap(k.memory))-k.guaranteed)
	k.spool.onDisk.give(k.keyID, k.size-int64(len(k.memory)))
	k.memory, k.guaranteed, k.size = nil, 0, 0
	if k.file == nil {
		return
	}
	_ = k.file.Close() // nothing in it is wanted any more
	k.spool.observer.Spooled(0, 0, -1)
	if k.name != "" {
		_ = os.Remove(k.name) //nolint:gosec // the name is os.CreateTemp's
	}
	k.file, k.name = nil, ""
}
