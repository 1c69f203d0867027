package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/vault"
)

// compactBatch bounds the bytes that compaction writes in one transaction.
const compactBatch = 4 << 20

// Compact rewrites the file of a store that no purser has open, without its free space, and
// returns its sizes in bytes. It compares the new file with the old one before the new one takes
// place, permissions and owner of the old one. A store with faults stays as it is. ErrLocked,
// ErrNewer, ErrOlder.
func Compact(ctx context.Context, path string) (before, after int64, err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return 0, 0, err
	}
	r, err := CheckFile(ctx, path, nil)
	if err != nil {
		return 0, 0, err
	}
	if err := r.Err(); err != nil {
		return 0, 0, fmt.Errorf("%s has faults, which compaction does not mend (see purser check): %w", path, err)
	}
	c := &compaction{path: path}
	if err := c.open(); err != nil {
		return 0, 0, fmt.Errorf("compact %s: %w", path, err)
	}
	err = recoverFaults(func() error { return c.run(ctx) })
	if err := errors.Join(err, c.close()); err != nil {
		return 0, 0, fmt.Errorf("compact %s: %w", path, err)
	}
	return c.before, c.after, nil
}

type compaction struct {
	path          string
	old           *bbolt.DB // its lock keeps every purser out; nil once closed
	temp          string    // the new file; "" once it has the old one's name
	before, after int64
}

// open locks the store.
func (c *compaction) open() (err error) {
	c.old, err = openLocked(c.path, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true,
	}, 0)
	if err != nil {
		return fileError(err)
	}
	return nil
}

func (c *compaction) run(ctx context.Context) error {
	if err := removeLeftovers(c.path); err != nil {
		return err
	}
	if err := c.takeIn(); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(c.path), tempPattern(c.path)) // mode 0600
	if err != nil {
		return err
	}
	c.temp = file.Name()
	if err := file.Close(); err != nil {
		return err
	}
	if err := c.rewrite(ctx); err != nil {
		return err
	}
	was, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	if err := makeDurable(c.temp, was); err != nil {
		return err
	}
	is, err := os.Stat(c.temp)
	if err != nil {
		return err
	}
	c.before, c.after = was.Size(), is.Size()
	if err := ctx.Err(); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // an open file cannot be replaced there
		if err := c.unlock(); err != nil {
			return err
		}
	}
	if err := os.Rename(c.temp, c.path); err != nil {
		return err
	}
	c.temp = ""
	return vault.SyncDir(filepath.Dir(c.path))
}

// takeIn commits what the journal has and the database lacks, because the new file belongs to no
// epoch of the journal.
func (c *compaction) takeIn() error {
	records, err := pendingRecords(c.path, c.old)
	if err != nil {
		return err
	}
	return c.old.Update(func(tx *bbolt.Tx) error {
		for _, r := range records {
			if err := replay(tx, r); err != nil {
				return err
			}
		}
		meta := tx.Bucket(metaBucket)
		e, err := epochIn(meta)
		if err != nil || !e.open {
			return err
		}
		return epoch{number: e.number + 1}.put(meta)
	})
}

// rewrite fills the new file and compares it with the old one.
func (c *compaction) rewrite(ctx context.Context) (err error) {
	fresh, err := bbolt.Open(c.temp, fileMode, &bbolt.Options{
		Timeout: lockWait, FreelistType: bbolt.FreelistMapType, NoStatistics: true, NoSync: true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	if err := bbolt.Compact(fresh, c.old, compactBatch); err != nil {
		return err
	}
	err = c.old.View(func(old *bbolt.Tx) error {
		return fresh.View(func(tx *bbolt.Tx) error { return compare(ctx, old, tx) })
	})
	if err != nil {
		return err
	}
	if err := c.settle(fresh); err != nil {
		return err
	}
	if err := fresh.Sync(); err != nil {
		return err
	}
	return fresh.View(func(tx *bbolt.Tx) error {
		if faults := checkPages(tx); len(faults) > 0 {
			return fmt.Errorf("the new file is not sound: %s", faults[0])
		}
		return nil
	})
}

// settle notes the place of the new file, unless the old one is a copy that purser has not opened.
func (c *compaction) settle(fresh *bbolt.DB) error {
	return fresh.Update(func(tx *bbolt.Tx) error {
		was, err := metaIn[Place](tx, placeKey)
		if err != nil || was == nil {
			return err
		}
		old, err := PlaceOf(c.path)
		if err != nil || was.differs(old) {
			return err
		}
		is, err := PlaceOf(c.temp)
		if err != nil {
			return err
		}
		is.Path = old.Path
		return putJSON(tx.Bucket(metaBucket).Put, map[string]any{string(placeKey): is})
	})
}

// compare fails unless two stores have the same buckets with the same entries.
func compare(ctx context.Context, a, b *bbolt.Tx) error {
	var names, others [][]byte
	if err := a.ForEach(func(name []byte, _ *bbolt.Bucket) error { names = append(names, name); return nil }); err != nil {
		return err
	}
	if err := b.ForEach(func(name []byte, _ *bbolt.Bucket) error { others = append(others, name); return nil }); err != nil {
		return err
	}
	if len(names) != len(others) {
		return fmt.Errorf("the new file has %d buckets instead of %d", len(others), len(names))
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		other := b.Bucket(name)
		if other == nil {
			return fmt.Errorf("the new file lacks the bucket %s", name)
		}
		left, right := a.Bucket(name).Cursor(), other.Cursor()
		k, v := left.First()
		l, w := right.First()
		for k != nil && bytes.Equal(k, l) && bytes.Equal(v, w) {
			k, v = left.Next()
			l, w = right.Next()
		}
		if k != nil || l != nil {
			return fmt.Errorf("the new file has something else in %s", name)
		}
	}
	return nil
}

// makeDurable gives the new file mode and owner of the old one and waits for the disk.
func makeDurable(path string, was os.FileInfo) error {
	if err := copyOwner(path, was); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(was.Mode().Perm()), file.Sync(), file.Close())
}

func (c *compaction) unlock() error {
	if c.old == nil {
		return nil
	}
	old := c.old
	c.old = nil
	return old.Close()
}

// close unlocks the store and removes a new file that did not take its place.
func (c *compaction) close() error {
	var err error
	if c.temp != "" {
		err = os.Remove(c.temp)
	}
	return errors.Join(err, c.unlock())
}
