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

// Mark records when a backup was taken. Payments that began later are not in the backup.
type Mark struct {
	At time.Time `json:"at"`
	// Block is the last safe block of the chain then; nil if no RPC was asked. Payments that are
	// not in the backup used later blocks.
	Block *Block `json:"block,omitempty"`

	// Copied reports that no backup was taken: an older copy of the file took the place of the
	// store, or the store was opened in another place than before, which From names if it is known.
	Copied bool   `json:"copied,omitempty"`
	From   string `json:"from,omitempty"`
	// RestoredAt is the first opening of a store that was restored from the backup; zero in the
	// backup itself.
	RestoredAt time.Time `json:"restored_at,omitzero"`
	// ReconciledAt is when payments began again. By then recovery had read from the chain what
	// the backup lacks, unless an operator Accepted the gap.
	ReconciledAt time.Time       `json:"reconciled_at,omitzero"`
	Accepted     *pay.Acceptance `json:"accepted,omitempty"`
	Booked       int             `json:"booked,omitempty"`  // payments that were found
	Strange      []string        `json:"strange,omitempty"` // what was found and could not be booked
}

// Block is a block that no reorganization takes back.
type Block = pay.MarkedBlock

// backupsKey names the marks in the meta bucket: a JSON list, oldest first. Backups and stores
// that were restored from one have marks.
var backupsKey = []byte("backups")

// marksIn reads the marks; a store that was never restored has none.
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
	// ErrCopying: another copy of the store exists.
	ErrCopying = errors.New("the store is being copied already, for a backup or a check")
	// ErrNoRoom: a copy would leave too little free disk space.
	ErrNoRoom = errors.New("too little free disk space for a copy of the store")
)

// Copy holds a copy of a store at one moment, in a file beside it. Close removes it.
type Copy struct {
	store *DB
	path  string
}

// Copy copies the store while it is in use, one copy at a time. With a mark, the copy is a backup
// and carries the mark. You must ask the chain for the block in the mark before.
//
// The read transaction lasts as long as the disk takes to copy the file, and waits for nothing
// else. It ends early when the store fails or closes, because both wait for readers.
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
	if err := errors.Join(c.write(ctx, file), file.Close()); err != nil {
		return err
	}
	return c.complete(mark)
}

func (c *Copy) write(ctx context.Context, file *os.File) error {
	tx, err := c.store.snapshot(ctx)
	if err != nil {
		return err
	}
	free, err := c.store.disk.read(c.store.disk.dir)
	if need := uint64(tx.Size()) + c.store.disk.min; err == nil && free < need {
		err = fmt.Errorf("%w: %d MiB are free, and it takes %d with what is kept for outcomes", ErrNoRoom, free>>20, need>>20)
	} else {
		_, err = tx.WriteTo(&copyWriter{ctx: ctx, store: c.store, to: file})
	}
	return errors.Join(err, tx.Rollback())
}

// complete makes the copy whole without the journal of the store. It writes the mark, if there is
// one, behind the marks that the store has.
func (c *Copy) complete(m *Mark) (err error) {
	bolt, err := bbolt.Open(c.path, fileMode, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	return bolt.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		e, err := epochIn(meta)
		if err != nil {
			return err
		}
		if err := (epoch{number: e.number}).put(meta); err != nil || m == nil {
			return err
		}
		marks, err := marksIn(meta)
		if err != nil {
			return err
		}
		text, err := json.Marshal(append(marks, *m))
		if err != nil {
			return err
		}
		return meta.Put(backupsKey, text)
	})
}

// Open opens the copy for reading its bytes.
func (c *Copy) Open() (*os.File, error) { return os.Open(c.path) }

// Check checks the rows of the copy, secrets included. It leaves the pages of the file alone: it
// runs inside a paying purser, which a broken file must not end.
func (c *Copy) Check(ctx context.Context) (r Report, err error) {
	bolt, err := openStopped(c.path, lockWait)
	if err != nil {
		return r, fmt.Errorf("check a copy: %w", err)
	}
	defer func() { err = errors.Join(err, bolt.Close()) }()
	err = bolt.View(func(tx *bbolt.Tx) error {
		r, err = checkRows(ctx, tx, c.store.vault.Load().Unseal)
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

// copyWriter writes to a file until its caller leaves, or the store fails or closes.
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

// tempPattern returns the pattern of temporary files beside a store. Only the process that holds
// the lock of the store makes them.
func tempPattern(path string) string { return "." + filepath.Base(path) + ".temp-*" }

// removeLeftovers removes temporary files of a process that ended in the middle of its work. The
// store must be locked.
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
