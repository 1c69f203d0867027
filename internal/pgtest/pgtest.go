// Package pgtest starts a PostgreSQL server of its own for tests, in a folder of its own, and ends it with
// them. It knows nothing of purser.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/needed"
)

// Server is a running PostgreSQL.
type Server struct {
	// URL leads to its database, with a query string.
	URL string

	bin, dir string
	settings []string
	as       *syscall.Credential
}

// Start starts a server, or skips the test where PostgreSQL is not installed: see package needed. Settings
// such as "max_connections=10" count more than its own.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{bin: programs(), settings: settings}
	if s.bin == "" {
		needed.Missing(t, "PostgreSQL (Debian: postgresql)")
	}
	dir, err := os.MkdirTemp("", "purser-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.dir = dir
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if s.as, err = credential("postgres"); err == nil {
			err = os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	s.must(t, "initdb", "-D", data, "-A", "trust", "-U", "purser", "--no-sync", "--locale=C", "-E", "UTF8")
	s.run(t)
	s.URL = fmt.Sprintf("postgres:///postgres?host=%s&user=purser&sslmode=disable", dir)
	return s
}

// run starts the server's process and waits until it answers.
func (s *Server) run(t testing.TB) {
	t.Helper()
	s.start(t)
	t.Cleanup(func() {
		stop := s.command(context.Background(), "pg_ctl", "-D", filepath.Join(s.dir, "data"), "-m", "immediate", "-t", "60", "stop")
		_ = stop.Run() // a test may have stopped it
	})
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	options := "-c listen_addresses='' -c unix_socket_directories=" + s.dir + " -c fsync=off -c full_page_writes=off -c max_connections=500 -c shared_buffers=256MB"
	for _, setting := range s.settings {
		options += " -c " + setting
	}
	s.must(t, "pg_ctl", "-D", filepath.Join(s.dir, "data"), "-w", "-t", "60", "-l", filepath.Join(s.dir, "log"), "-o", options, "start")
}

// programs finds the folder of the server's programs: the newest version that is installed.
func programs() string {
	if found, err := exec.LookPath("initdb"); err == nil {
		if at, err := filepath.EvalSymlinks(found); err == nil {
			found = at
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(found), "postgres")); err == nil {
			return filepath.Dir(found)
		}
	}
	all, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return filepath.Dir(all[len(all)-1])
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...) //nolint:gosec // the server's own programs
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return c
}

func (s *Server) must(t testing.TB, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if out, err := s.command(ctx, program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// Exec runs a statement.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), sql)
	if err := errors.Join(err, c.Close(context.WithoutCancel(t.Context()))); err != nil {
		t.Fatal(err)
	}
}

// EndConnections ends all connections but its own, and returns how many. It is 0 while the server is away.
func (s *Server) EndConnections(t testing.TB) (n int64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		return 0
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }() // the server may be away by now
	tag, err := c.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	if err != nil {
		return 0
	}
	return tag.RowsAffected()
}

// Restart kills the server and starts it again.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.must(t, "pg_ctl", "-D", filepath.Join(s.dir, "data"), "-m", "immediate", "-w", "-t", "60", "stop")
	s.start(t)
}

// Dump takes a pg_dump of a database. load replaces the database by it.
func (s *Server) Dump(t testing.TB, database string) (load func()) {
	t.Helper()
	file := filepath.Join(s.dir, database+".dump")
	s.must(t, "pg_dump", "-h", s.dir, "-U", "purser", "-Fc", "-f", file, database)
	return func() {
		t.Helper()
		s.must(t, "dropdb", "-h", s.dir, "-U", "purser", "--force", database)
		s.must(t, "createdb", "-h", s.dir, "-U", "purser", database)
		s.must(t, "pg_restore", "-h", s.dir, "-U", "purser", "-d", database, "--exit-on-error", file)
	}
}
