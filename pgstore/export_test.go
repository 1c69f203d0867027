package pgstore

import (
	"context"

	"github.com/google/uuid"
)

// Waiting counts the ids that calls of this node wait for.
func (d *DB) Waiting() int {
	d.bell.mu.Lock()
	defer d.bell.mu.Unlock()
	return len(d.bell.waiting)
}

// Committed finds out whether a batch whose answer was lost is in the database.
func (d *DB) Committed(ctx context.Context, id uuid.UUID) (bool, error) { return d.committed(ctx, id) }
