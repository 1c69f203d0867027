package boltstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// Copy writes the store to a new file, which comes from this store as a backup does: its first start reads from the chain
// what was paid after at. fs.ErrExist, or an error of the file system.
func (s *Moving) Copy(ctx context.Context, path string, at time.Time) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode) //nolint:gosec // the operator names it
	if err != nil {
		return err
	}
	err = s.bolt.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(file)
		return err
	})
	if err := errors.Join(err, ctx.Err(), file.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", s.path, err)
	}
	from, err := PlaceOf(s.path)
	if err != nil {
		return err
	}
	return (&Copy{path: path}).complete(&Mark{At: at.UTC(), Copied: true, From: from.String()})
}

// TakeBack removes the mark of a move, so that the store opens again. It is treated as a copy, because the other one may
// have paid since at.
func (s *Moving) TakeBack(_ context.Context, at time.Time) error {
	return s.bolt.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		marks, err := marksIn(meta)
		if err != nil {
			return err
		}
		text, err := json.Marshal(append(marks, Mark{At: at.UTC(), Copied: true, From: "the copy of a move"}))
		if err != nil {
			return err
		}
		return errors.Join(meta.Put(backupsKey, text), meta.Delete(moveKey))
	})
}
