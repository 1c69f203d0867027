package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxWriters bounds the connections of the committer: one at work, one for kept outcomes, and one that replaces a lost one.
const maxWriters = 3

// durable makes the database answer a commit only when that is on its disk, whatever a role or database is set
// to. A database that knows no such setting is always like that.
func durable(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !connectionLost(err) {
		return nil
	}
	return err
}

// flushCommits writes nothing, in a transaction of its own. Its commit waits until all that was committed before it
// is as durable as the session wants it.
const flushCommits = `SELECT pg_logical_emit_message(true, 'purser', '')`

// writing configures the connections of the committer. A plan is made once and kept, often while the
// tables are small, and a table that was small when it was scanned grows to millions of rows. A database
// that knows no such setting plans as it likes.
func (d *DB) writing(config *pgxpool.Config) *pgxpool.Config {
	config.MaxConns, config.MinConns = maxWriters, 0
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, connectTime)
		defer cancel()
		if err := durable(ctx, c); err != nil {
			return err
		}
		for _, setting := range [][2]string{
			{"plan_cache_mode", "force_generic_plan"},
			{"enable_seqscan", "off"},
			{"enable_bitmapscan", "off"},
			{"enable_hashjoin", "off"},
			{"enable_mergejoin", "off"},
			{"jit", "off"},
			{"max_parallel_workers_per_gather", "0"},
		} {
			var refused *pgconn.PgError
			if _, err := c.Exec(ctx, `SELECT set_config($1, $2, false)`, setting[0], setting[1]); err != nil && !errors.As(err, &refused) {
				return err
			}
		}
		// Outside of transactions, the message waits for no standby.
		_, err := c.Exec(ctx, `SELECT pg_logical_emit_message(false, 'purser', '')`)
		var refused *pgconn.PgError
		if err != nil && (!errors.As(err, &refused) || connectionLost(err)) {
			return err
		}
		d.flushes.Store(err == nil)
		return d.sees(ctx, c)
	}
	return config
}
