package pgtest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Stop kills the server. Start it again with Again.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	must(t, s.stop(context.Background()))
}

// Again starts the server that Stop has killed.
func (s *Server) Again(t testing.TB) {
	t.Helper()
	must(t, s.start(context.Background()))
}

// ReadOnly makes transactions read only, as those of a standby are, or lets them write again. It ends all
// connections, as a change of servers does.
func (s *Server) ReadOnly(t testing.TB, is bool) {
	t.Helper()
	s.Exec(t, "ALTER SYSTEM SET default_transaction_read_only = "+strconv.FormatBool(is))
	s.Exec(t, "SELECT pg_reload_conf()")
	for { // the server reads its configuration some time later
		var now bool
		c, err := pgx.Connect(t.Context(), s.URL)
		if err == nil {
			err = c.QueryRow(t.Context(), "SELECT current_setting('default_transaction_read_only')::boolean").Scan(&now)
		}
		if err == nil && now == is {
			_, err = c.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
		}
		if c != nil {
			err = errors.Join(err, c.Close(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
		if now == is {
			return
		}
	}
}

// TakeConnections takes all connections, also those that others have. release gives them back.
func (s *Server) TakeConnections(t testing.TB) (release func()) {
	t.Helper()
	var all []*pgx.Conn
	var own []uint32
	for others := int64(1); others > 0; {
		c, err := pgx.Connect(t.Context(), s.URL)
		if err == nil {
			all, own = append(all, c), append(own, c.PgConn().PID())
			continue
		}
		tag, err := all[0].Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> ALL ($1) AND backend_type = 'client backend'`, own)
		if err != nil {
			t.Fatal(err)
		}
		others = tag.RowsAffected()
	}
	return func() {
		for _, c := range all {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}

// Freeze stops all processes of the server: it takes connections and answers nothing. goOn lets them go on,
// and is safe to call twice.
func (s *Server) Freeze(t testing.TB) (goOn func()) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	master, err := strconv.Atoi(first)
	if err == nil {
		err = syscall.Kill(master, syscall.SIGSTOP) // it starts no other ones from now on
	}
	if err != nil {
		t.Fatal(err)
	}
	all := []int{master}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path) //nolint:gosec // of the system
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || len(fields) < 2 || fields[1] != first {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGSTOP); err == nil {
			all = append(all, pid)
		}
	}
	var once sync.Once
	goOn = func() {
		once.Do(func() {
			for _, pid := range all {
				_ = syscall.Kill(pid, syscall.SIGCONT) // one may have ended
			}
		})
	}
	t.Cleanup(goOn)
	return goOn
}

// Link is a way to a server that a test can cut.
type Link struct {
	// URL leads to the server through the link.
	URL string

	server string
	mu     sync.Mutex
	cut    bool
	armed  []byte // "": nothing
	after  bool
	delay  time.Duration
	held   chan struct{} // nil: answers go through
	conns  map[net.Conn]bool
}

// Link makes one.
func (s *Server) Link(t testing.TB) *Link {
	t.Helper()
	dir, err := os.MkdirTemp("", "purser-link")
	if err != nil {
		t.Fatal(err)
	}
	const name = ".s.PGSQL.5432"
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{URL: strings.Replace(s.URL, s.dir, dir, 1), server: filepath.Join(s.dir, name), conns: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // the test is over
		l.end()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	return l
}

// Delay makes the link as slow as a network: what is sent arrives that much later.
func (l *Link) Delay(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = by
}

func (l *Link) wait() {
	l.mu.Lock()
	by := l.delay
	l.mu.Unlock()
	if by > 0 {
		time.Sleep(by)
	}
}

// Hold keeps answers of the server until goOn is called.
func (l *Link) Hold(t testing.TB) (goOn func()) {
	held := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	goOn = sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = nil
		close(held)
	})
	t.Cleanup(goOn)
	return goOn
}

// waitHeld waits while answers are kept.
func (l *Link) waitHeld() {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil {
		<-held
	}
}

// CutAt cuts the link once a client sends a text: after the server has it, or before. Answers to it are lost.
func (l *Link) CutAt(text string, after bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.after = []byte(text), after
}

// IsCut reports whether the link is cut.
func (l *Link) IsCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Mend lets connections through again.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.armed = false, nil
}

func (l *Link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		_ = c.Close() // it is cut
	}
}

func (l *Link) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "unix", l.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns[client], l.conns[server] = true, true
	l.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		l.copy(client, server, nil)
		_ = client.Close()
	})
	waits := false
	l.copy(server, client, func(b []byte) (stops bool) {
		stops, waits = l.cutsAt(server, b)
		return stops
	})
	if !waits { // for the server to have done what it got
		_ = server.Close()
	}
	back.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, client)
	delete(l.conns, server)
}

// copy copies until a side ends, or stops says so.
func (l *Link) copy(to, from net.Conn, stops func([]byte) bool) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := from.Read(buffer)
		if n > 0 && stops != nil && stops(buffer[:n]) {
			return
		}
		if n > 0 && stops == nil && l.IsCut() {
			l.end() // this is the answer that is lost
			return
		}
		if n > 0 {
			l.wait()
			if stops == nil {
				l.waitHeld()
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cutsAt cuts the link if a client sends what CutAt waits for. It reports whether the server must do that
// before its connection ends.
func (l *Link) cutsAt(server net.Conn, b []byte) (stops, waits bool) {
	l.mu.Lock()
	if len(l.armed) == 0 || !strings.Contains(string(b), string(l.armed)) {
		l.mu.Unlock()
		return false, false
	}
	l.cut = true
	after := l.after
	l.mu.Unlock()
	if after {
		_, err := server.Write(b)
		return true, err == nil
	}
	l.end()
	return true, false
}
