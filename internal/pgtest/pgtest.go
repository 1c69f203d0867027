// Package pgtest starts a PostgreSQL server of its own for tests, in a folder of its own, and ends it with
// them. It knows nothing of purser.
package pgtest

import (
	"cmp"
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

	"github.com/purserpay/purser/internal/testing/needed"
)

// Server is a running PostgreSQL.
type Server struct {
	// URL leads to its database, with a query string.
	URL string

	bin, dir string
	settings []string
	as       *syscall.Credential
}

// ErrMissing: PostgreSQL is not installed.
var ErrMissing = errors.New("PostgreSQL is not installed (Debian: postgresql)")

// Start starts a server, or skips the test where PostgreSQL is not installed: see package needed. Settings
// such as "max_connections=10" count more than its own.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Launch(t.Context(), "", settings...)
	if errors.Is(err, ErrMissing) {
		needed.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.End(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Launch starts a server with its data below a folder. "": in one for temporary files. ErrMissing.
func Launch(ctx context.Context, below string, settings ...string) (s *Server, err error) {
	s = &Server{bin: programs(), settings: settings}
	if s.bin == "" {
		return nil, ErrMissing
	}
	sweep(cmp.Or(below, os.TempDir()))
	if s.dir, err = os.MkdirTemp(below, prefix); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if s.as, err = credential("postgres"); err == nil {
			err = os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid))
		}
	}
	if err == nil {
		err = s.run(ctx, "initdb", "-D", s.data(), "-A", "trust", "-U", "purser", "--no-sync", "--locale=C", "-E", "UTF8")
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.End())
	}
	s.URL = fmt.Sprintf("postgres:///postgres?host=%s&user=purser&sslmode=disable", s.dir)
	return s, nil
}

// prefix begins the names of the folders of servers.
const prefix = "purser-pg"

// sweep removes the folders of servers that are gone: those of killed tests would fill the disk. A folder that is younger
// than an hour may belong to a server that is being made.
func sweep(below string) {
	list, _ := filepath.Glob(filepath.Join(below, prefix+"*")) // of a good pattern
	for _, dir := range list {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Hour && !runs(dir) {
			_ = os.RemoveAll(dir) // another test may be about to
		}
	}
}

// runs reports whether the server of a folder runs, or belongs to another user.
func runs(dir string) bool {
	mark, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid")) //nolint:gosec // below a folder for tests
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	var pid int
	if _, err := fmt.Sscan(string(mark), &pid); err != nil {
		return false
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// End kills the server and removes its data.
func (s *Server) End() error {
	_ = s.stop(context.Background()) // a test may have stopped it
	return os.RemoveAll(s.dir)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) start(ctx context.Context) error {
	options := "-c listen_addresses='' -c unix_socket_directories=" + s.dir + " -c fsync=off -c full_page_writes=off -c max_connections=500 -c shared_buffers=256MB"
	for _, setting := range s.settings {
		options += " -c " + setting
	}
	return s.run(ctx, "pg_ctl", "-D", s.data(), "-w", "-t", "60", "-l", filepath.Join(s.dir, "log"), "-o", options, "start")
}

func (s *Server) stop(ctx context.Context) error {
	return s.run(ctx, "pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "-t", "60", "stop")
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

// Command prepares a run of one of the server's programs, as the server's user.
func (s *Server) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...) //nolint:gosec // the server's own programs
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return c
}

// Host names the folder of the server's socket, as its programs take it after -h.
func (s *Server) Host() string { return s.dir }

func (s *Server) run(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if out, err := s.Command(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out)
	}
	return nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
	must(t, s.stop(context.Background()))
	must(t, s.start(context.Background()))
}

// Dump takes a pg_dump of a database. load replaces the database by it.
func (s *Server) Dump(t testing.TB, database string) (load func()) {
	t.Helper()
	file := filepath.Join(s.dir, database+".dump")
	must(t, s.run(context.Background(), "pg_dump", "-h", s.dir, "-U", "purser", "-Fc", "-f", file, database))
	return func() {
		t.Helper()
		must(t, s.run(context.Background(), "dropdb", "-h", s.dir, "-U", "purser", "--force", database))
		must(t, s.run(context.Background(), "createdb", "-h", s.dir, "-U", "purser", database))
		must(t, s.run(context.Background(), "pg_restore", "-h", s.dir, "-U", "purser", "-d", database, "--exit-on-error", file))
	}
}
