package boltstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// Mark is what a backup says about when it was taken. Payments that were begun after it are
// not in the backup.
type Mark struct {
	At time.Time `json:"at"`
	// Block is the chain's, nil if nobody asked it. What the backup does not know was used in
	// a later block.
	Block *Block `json:"block,omitempty"`

	// Copied: no backup was taken. The file was an older copy of the store that took its place.
	Copied bool `json:"copied,omitempty"`
	// RestoredAt is when a store that was restored from the backup was opened first; zero in
	// the backup itself.
	RestoredAt time.Time `json:"restored_at,omitzero"`
	// ReconciledAt is when payments began again: what the backup does not know had been read
	// from the chain then, but for what an operator Accepted not to know.
	ReconciledAt time.Time       `json:"reconciled_at,omitzero"`
	Accepted     *pay.Acceptance `json:"accepted,omitempty"`
	Booked       int             `json:"booked,omitempty"`  // payments that were found
	Strange      []string        `json:"strange,omitempty"` // what was found and could not be booked
}

// Block is a block that no reorganization takes back.
type Block = pay.MarkedBlock

// backupsKey is where the meta bucket of a backup, and of a store that was restored from
// one, has its marks: a JSON list, oldest first.
var backupsKey = []byte("backups")

// marksIn reads the marks; none in a store that was never restored.
func marksIn(meta *bbolt.Bucket) (marks []Mark, err error) {
	text := meta.Get(backupsKey)
	if text == nil {
		return nil, nil
	}
	if err := json.Unmarshal(text, &marks); err != nil {
		return nil, fmt.Errorf("the marks of its backups: %w", err)
	}
	return marks, nil
}

// Errors of copying.
var (
	// ErrCopying: another copy of the store is there.
	ErrCopying = errors.New("the store is being copied already, for a backup or a check")
	// ErrNoRoom: a copy would leave too little free disk space.
	ErrNoRoom = errors.New("too little free disk space for a copy of the store")
)

// Copy is a copy of a store as it was at one moment, in a file beside it. Close removes it.
type Copy struct {
	store *DB
	path  string
}

// Copy copies the store while it is in use. There is one copy at a time. With a mark, the
// copy is a backup and says so; the block in it must have been asked for before.
//
// The read transaction lasts as long as the disk takes to copy the file, and nobody else is
// waited for. It is given up when the store fails or closes, which wait for readers.
// ErrCopying, ErrNoRoom, pay.ErrUnavailable.
func (d *DB) Copy(ctx context.Context, mark *Mark) (*Copy, error) {
	if !d.copying.TryLock() {
		return nil, ErrCopying
	}
	c := &Copy{store: d}
	if err := c.make(ctx, mark); err != nil {
		return nil, fmt.Errorf("copy store: %w", errors.Join(err, c.Close()))
	}
	return c, nil
}

func (c *Copy) make(ctx context.Context, mark *Mark) error {
	file, err := os.CreateTemp(filepath.Dir(c.store.path), tempPattern(c.store.path)) // mode 0600
	if err != nil {
		return err
	}
	c.path = file.Name()
	err = c.store.view(ctx, func(tx *bbolt.Tx) error {
		free, err := c.store.disk.read(c.store.disk.dir)
		if need := uint64(tx.Size()) + c.store.disk.min; err == nil && free < need {
			return fmt.Errorf("%w: %d MiB are free, and it takes %d with what is kept for outcomes", ErrNoRoom, free>>20, need>>20)
		}
		_, err = tx.WriteTo(&copyWriter{ctx: ctx, store: c.store, to: file})
		return err
	})
	if err := errors.Join(err, file.Close()); err != nil || mark == nil {
		return err
	}
	return c.mark(*mark)
}

// mark writes the mark into the copy, behind those of backups that the store comes from.
func (c *Copy) mark(m Mark) (err error) {
	bolt, err := bbolt.Open(c.path, fileMode, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	return bolt.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		marks, err := marksIn(meta)
		if err != nil {
			return err
		}
		text, err := json.Marshal(append(marks, m))
		if err != nil {
			return err
		}
		return meta.Put(backupsKey, text)
	})
}

// Open opens the copy for reading its bytes.
func (c *Copy) Open() (*os.File, error) { return os.Open(c.path) }

// Check checks what is in the copy, secrets included, but not the pages of the file: it is
// made within a purser that is paying, which a broken file must not end.
func (c *Copy) Check(ctx context.Context) (r Report, err error) {
	bolt, err := openStopped(c.path, lockWait)
	if err != nil {
		return r, fmt.Errorf("check a copy: %w", err)
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	err = bolt.View(func(tx *bbolt.Tx) error {
		r, err = checkRows(ctx, tx, c.store.vault.Unseal)
		return err
	})
	return r, err
}

// Close removes the copy.
func (c *Copy) Close() error {
	defer c.store.copying.Unlock()
	if c.path == "" {
		return nil
	}
	return os.Remove(c.path)
}

// copyWriter is a writer that gives up when nobody waits for the copy any more, or when it
// keeps the store from mending itself or closing.
type copyWriter struct {
	ctx   context.Context
	store *DB
	to    io.Writer
}

func (p *copyWriter) Write(b []byte) (int, error) {
	select {
	case <-p.store.closing:
		return 0, errClosed
	case <-p.ctx.Done():
		return 0, p.ctx.Err()
	default:
	}
	if t := p.store.health.Load(); t != nil {
		return 0, fmt.Errorf("%w: %w", pay.ErrUnavailable, t.cause)
	}
	return p.to.Write(b)
}

// leftover is the pattern of temporary files beside a store. Only who holds the lock of the
// store makes them.
func tempPattern(path string) string { return "." + filepath.Base(path) + ".temp-*" }

// removeLeftovers removes the temporary files of a process that ended in the middle of its
// work. The store must be locked.
func removeLeftovers(path string) error {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if match, err := filepath.Match(tempPattern(path), e.Name()); err != nil || !match || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
