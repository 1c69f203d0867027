package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// roomEvery is the pause before a node looks again whether a full disk has room.
const roomEvery = 2 * time.Second

// takesRoom spills 32 MiB into a temporary file on the disk of the database's tables. It changes nothing.
const takesRoom = `SELECT count(*) FROM (SELECT repeat('x', 1024) x, g FROM generate_series(1, 32768) g ORDER BY g DESC, x) s`

// hasRoom reports an error while the disk of the database is full. A small write proves nothing: it finds a
// place in a page that is there, and the next batch does not.
func (d *DB) hasRoom(ctx context.Context) error {
	o := &d.outage
	now := d.time.local()
	o.mu.Lock()
	early := now.Before(o.lookAgain)
	if !early {
		o.lookAgain = now.Add(roomEvery)
	}
	o.mu.Unlock()
	if early {
		return &downError{DownFull}
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	_, err := number(ctx, d.pool, takesRoom)
	if refused, is := errors.AsType[*pgconn.PgError](err); is && refused.Code == "53400" {
		return nil // temp_file_limit: the operator allows no such files
	}
	return err
}
