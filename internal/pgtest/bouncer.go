package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/testing/needed"
)

// Bouncer starts a PgBouncer before the server, or skips the test where it is not installed. mode is its pool_mode. It
// returns the URL of its database. Further lines go into its configuration.
func (s *Server) Bouncer(t testing.TB, mode string, lines ...string) string {
	t.Helper()
	program := needed.Program(t, "Debian: pgbouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	dir, err := os.MkdirTemp("", "purser-bouncer")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	file := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s user=purser\n[pgbouncer]\nunix_socket_dir = %s\nlisten_port = 5432\nauth_type = any\npool_mode = %s\nmax_client_conn = 500\n%s\n",
		s.dir, dir, mode, strings.Join(lines, "\n"))
	must(t, os.WriteFile(file, []byte(text), 0o644)) //nolint:gosec // the server's user reads it
	if s.as != nil {                                 // PgBouncer refuses to run as root, too
		must(t, os.Chown(dir, int(s.as.Uid), int(s.as.Gid)))
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), program, "-q", file) //nolint:gosec // found by needed
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: s.as}
	must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill() // it keeps nothing
		_ = c.Wait()
	})
	url := strings.Replace(s.URL, s.dir, dir, 1)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			must(t, conn.Close(context.WithoutCancel(t.Context())))
			return url
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
