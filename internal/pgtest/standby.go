package pgtest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Standby starts a second server that follows the first one. Commits wait until the standby has them.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	other := s.AsyncStandby(t)
	s.Exec(t, `ALTER SYSTEM SET synchronous_standby_names = 'standby'`)
	s.Exec(t, `SELECT pg_reload_conf()`)
	s.until(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')`)
	return other
}

// Behind stops a standby once it has all that was committed before. What is committed from now on is lost to it.
func (s *Server) Behind(t testing.TB, standby *Server) {
	t.Helper()
	s.Exec(t, `SELECT pg_logical_emit_message(true, 'purser', '')`)
	var at string
	c, err := pgx.Connect(t.Context(), s.URL)
	if err == nil {
		err = c.QueryRow(t.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&at)
		err = errors.Join(err, c.Close(t.Context()))
	}
	must(t, err)
	s.until(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE flush_lsn >= '`+at+`')`)
	must(t, standby.run(context.Background(), "pg_ctl", "-D", standby.data(), "-m", "fast", "-w", "-t", "60", "stop"))
}

// TakesOver ends the server, and lets a standby that was left behind take its place.
func (s *Server) TakesOver(t testing.TB, from *Server) {
	t.Helper()
	from.Stop(t)
	s.Again(t)
	s.Promote(t)
}

// until waits for a query to answer yes.
func (s *Server) until(t testing.TB, query string) {
	t.Helper()
	for yes := false; !yes; {
		c, err := pgx.Connect(t.Context(), s.URL)
		if err == nil {
			err = c.QueryRow(t.Context(), query).Scan(&yes)
			err = errors.Join(err, c.Close(t.Context()))
		}
		must(t, err)
	}
}

// AsyncStandby starts a second server that follows the first one. Commits do not wait for it.
func (s *Server) AsyncStandby(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "purser-pg")
	must(t, err)
	other := &Server{bin: s.bin, settings: s.settings, as: s.as, dir: dir, URL: strings.Replace(s.URL, s.dir, dir, 1)}
	t.Cleanup(func() { must(t, other.End()) })
	if s.as != nil {
		must(t, os.Chown(dir, int(s.as.Uid), int(s.as.Gid)))
	}
	must(t, s.run(context.Background(), "pg_basebackup", "-d", "host="+s.dir+" user=purser application_name=standby", "-D", other.data(), "-R", "-X", "stream", "-c", "fast"))
	must(t, other.start(context.Background()))
	return other
}

// Promote makes a standby take over.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	must(t, s.run(context.Background(), "pg_ctl", "-D", s.data(), "-w", "-t", "60", "promote"))
}

// With returns a URL of this server or another one, whichever can be written.
func (s *Server) With(other *Server) string {
	return strings.Replace(s.URL, "host="+s.dir, "host="+s.dir+","+other.dir, 1) + "&target_session_attrs=read-write"
}
