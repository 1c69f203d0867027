package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrPooler: what stands before the database hands each transaction to another session. Settings, prepared statements,
// LISTEN and locks of sessions are lost then, so none of the limits below would be in force.
var ErrPooler = errors.New("a pooler before the database shares its sessions between clients, as PgBouncer does in transaction mode: " +
	"set pool_mode = session for this database, or use the address of PostgreSQL itself")

// errSettings: a session does not have what was set.
var errSettings = fmt.Errorf("%w (settings of a session are not in force)", ErrPooler)

// atStart lists the settings that poolers take from the start of a connection.
var atStart = []string{"application_name", "client_encoding", "datestyle", "options", "replication", "standard_conforming_strings", "timezone"}

// settle sets parameters of the session once a connection is made. PgBouncer refuses most of them at the start.
func settle(config *pgx.ConnConfig) {
	var names, set, read []string
	for name := range config.RuntimeParams {
		if !slices.Contains(atStart, strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		set = append(set, "set_config("+quoted(name)+", "+quoted(config.RuntimeParams[name])+", false)")
		read = append(read, "current_setting("+quoted(name)+")")
		delete(config.RuntimeParams, name)
	}
	if len(names) == 0 {
		return
	}
	earlier := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if earlier != nil {
			if err := earlier(ctx, c); err != nil {
				return err
			}
		}
		wants, err := row(ctx, c, "SELECT "+strings.Join(set, ", "))
		if err != nil {
			return err
		}
		is, err := row(ctx, c, "SELECT "+strings.Join(read, ", "))
		if err == nil && !slices.Equal(is, wants) {
			err = errSettings
		}
		return err
	}
}

// quoted writes a text as SQL takes it, whatever standard_conforming_strings is.
func quoted(text string) string {
	return " E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// row reads a row of texts by a simple query, which needs no prepared statement.
func row(ctx context.Context, c *pgconn.PgConn, query string) (list []string, err error) {
	results, err := c.Exec(ctx, query).ReadAll()
	if err != nil {
		return nil, err
	}
	for _, result := range results {
		for _, values := range result.Rows {
			for _, v := range values {
				list = append(list, string(v))
			}
		}
	}
	return list, nil
}

// probes bounds how often keepsSessions looks. Other clients of a pooler may get in between.
const probes = 4

// keepsSessions finds out whether a connection has a session of its own: ErrPooler. A pooler that shares sessions gives
// the one that has just been free to the next client, or another one than before.
func keepsSessions(ctx context.Context, config *pgx.ConnConfig, first *pgx.Conn) error {
	second, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = second.Close(context.WithoutCancel(ctx)) }() // it has written nothing
	for range probes {
		shared, err := probe(ctx, first.PgConn(), second.PgConn())
		if err != nil || shared {
			return errors.Join(err, sharing(shared))
		}
	}
	return nil
}

func sharing(is bool) error {
	if is {
		return ErrPooler
	}
	return nil
}

// session selects what names the session of a connection. The number alone may be that of a session on another server.
const session = `SELECT pg_backend_pid(), (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`

func probe(ctx context.Context, first, second *pgconn.PgConn) (shared bool, err error) {
	one, err := row(ctx, first, session)
	if _, unknown := errors.AsType[*pgconn.PgError](err); unknown { // a database of another kind
		return false, nil
	}
	if err != nil {
		return false, err
	}
	two, err := row(ctx, second, session)
	if err != nil || slices.Equal(one, two) {
		return err == nil, err
	}
	if _, err := row(ctx, second, "BEGIN"); err != nil {
		if refused, is := errors.AsType[*pgconn.PgError](err); is && strings.HasPrefix(refused.Code, "08") {
			return true, nil // no transaction has several statements
		}
		return false, err
	}
	two, err = row(ctx, second, session)
	if err != nil {
		return false, err
	}
	again, err := row(ctx, first, session) // while the second one has a session, in any case
	if _, endErr := row(ctx, second, "ROLLBACK"); err == nil {
		err = endErr
	}
	return err == nil && (!slices.Equal(again, one) || slices.Equal(again, two)), err
}
