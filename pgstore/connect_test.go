package pgstore_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pgstore"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"postgres://u:secret@db.example/books":                             "postgres://u@db.example:5432/books",
		"postgres://u:secret@db.example:6000/books?search_path=paid":       "postgres://u@db.example:6000/books?search_path=paid",
		"host=db.example user=u password=secret dbname=books":              "postgres://u@db.example:5432/books",
		"postgres:///books?host=/run/pg&user=u&sslmode=disable":            "postgres://u@/books?host=%2Frun%2Fpg&port=5432",
		"postgres://u:secret@[::1]/books?sslmode=disable&pool_max_conns=4": "postgres://u@[::1]:5432/books",
	} {
		if got, err := pgstore.Place(given); got != want || err != nil {
			t.Errorf("%s: %s, %v", given, got, err)
		}
	}
	if _, err := pgstore.Place("postgres://u:secret@h:port/books"); !errors.Is(err, pgstore.ErrURL) || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}

// with returns a URL with another part.
func with(t *testing.T, databaseURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestConnectSaysWhatToDo(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	server.Exec(t, `CREATE ROLE poor LOGIN`)
	used := fresh(t, server)
	db, err := pgstore.Connect(t.Context(), pgstore.Options{URL: used, MasterKey: vault.Given(testMaster)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	foreign, newer := fresh(t, server), fresh(t, server)
	schema := func(databaseURL string) string {
		_, name, _ := strings.Cut(databaseURL, "search_path=")
		return `"` + name + `"`
	}
	server.Exec(t, `CREATE TABLE `+schema(foreign)+`.customers (id int)`)
	db, err = pgstore.Connect(t.Context(), pgstore.Options{URL: newer, MasterKey: vault.Given(testMaster)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, `INSERT INTO `+schema(newer)+`.settings VALUES ('minimum', '99') ON CONFLICT (name) DO UPDATE SET value = excluded.value`)
	missing := t.TempDir() + "/master.key"
	for name, c := range map[string]struct {
		url    string
		master vault.Source
		is     error
		says   string
	}{
		"unreachable":   {"postgres://u:hush@127.0.0.1:1/d?sslmode=disable", nil, pgstore.ErrUnreachable, "127.0.0.1"},
		"URL":           {"postgres://u:hush@h:port/d", nil, pgstore.ErrURL, "postgres://USER"},
		"unknown user":  {with(t, with(t, used, "user", "stranger"), "password", "hush"), nil, pgstore.ErrRefused, "stranger"},
		"no database":   {strings.Replace(used, "/postgres?", "/nothing?", 1), nil, pgstore.ErrUnreachable, "CREATE DATABASE"},
		"other program": {foreign, nil, pgstore.ErrForeign, "customers"},
		"newer":         {newer, nil, pgstore.ErrNewer, "run that one"},
		"privileges":    {with(t, with(t, server.URL, "user", "poor"), "password", "hush"), nil, pgstore.ErrPrivileges, "granted"},
		"master key":    {used, vault.Given(vault.MasterKey{9}), vault.ErrWrongMasterKey, "all nodes"},
		"no master key": {used, vault.From("", "", missing), nil, "PURSER_MASTER_KEY"},
	} {
		master := c.master
		if master == nil {
			master = vault.Given(testMaster)
		}
		db, err := pgstore.Connect(t.Context(), pgstore.Options{URL: c.url, MasterKey: master}, 0)
		if err == nil {
			t.Errorf("%s: it opens", name)
			_ = db.Close()
			continue
		}
		if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// heard closes itself at the first line that has a text.
type heard struct {
	text string
	ch   chan struct{}
}

func (h heard) Write(b []byte) (int, error) {
	if strings.Contains(string(b), h.text) {
		close(h.ch)
	}
	return len(b), nil
}

// A database that starts after purser is waited for, with one line in the log.
func TestConnectWaitsForDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	if err := reserved.Close(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(fresh(t, server))
	if err != nil {
		t.Fatal(err)
	}
	socket := u.Query().Get("host") + "/.s.PGSQL.5432"
	host, port, _ := net.SplitHostPort(address)
	late := with(t, with(t, u.String(), "host", host), "port", port)
	waits := heard{"waiting for the database", make(chan struct{})}
	go func() {
		select {
		case <-waits.ch:
			forward(t, address, socket)
		case <-t.Context().Done():
		}
	}()
	db, err := pgstore.Connect(t.Context(), pgstore.Options{
		URL: late, MasterKey: vault.Given(testMaster), Logger: slog.New(slog.NewTextHandler(waits, nil)),
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// forward leads connections to a socket until the test ends.
func forward(t *testing.T, address, socket string) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	serve(t, listener, socket)
}

// serve leads the connections of a listener to a socket until the test ends.
func serve(t *testing.T, listener net.Listener, socket string) {
	context.AfterFunc(t.Context(), func() { _ = listener.Close() })
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", socket)
		if err != nil {
			_ = from.Close()
			continue
		}
		go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
		go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	}
}

// The way to another machine is proven by a certificate, unless the operator has said another thing.
func TestWayToAnotherMachineIsProven(t *testing.T) {
	for given, want := range map[string]string{
		"postgres://u@db.example/books":                                    "db.example",
		"postgresql://u@db.example/books?pool_max_conns=4":                 "db.example",
		"host=db.example user=u dbname=books":                              "db.example",
		"postgres://u@10.1.2.3/books":                                      "10.1.2.3",
		"postgres://u@127.0.0.1:5432,db.example:5432/books":                "127.0.0.1",
		"postgres://u@db.example/books?sslmode=disable":                    "plain",
		"host=db.example user=u dbname=books sslmode = disable":            "plain",
		"postgres://u@db.example/books?sslmode=require":                    "unproven",
		"postgres://u@127.0.0.1/books":                                     "unproven",
		"postgres://u@[::1]/books":                                         "unproven",
		"postgres://u@localhost/books":                                     "unproven",
		"postgres:///books?host=/run/pg&user=u":                            "plain",
		"postgres://u@db.example/books?application_name=x%3Dsslmode%3Doff": "db.example",
	} {
		config, err := pgstore.ConfigOf(given)
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		got := "plain"
		if c := config.ConnConfig.TLSConfig; c != nil && c.InsecureSkipVerify {
			got = "unproven"
		} else if c != nil {
			got = c.ServerName
		}
		if got != want {
			t.Errorf("%s: %s, not %s", given, got, want)
		}
		for _, f := range config.ConnConfig.Fallbacks {
			if got == want && got != "unproven" && got != "plain" && f.TLSConfig == nil {
				t.Errorf("%s falls back to plain text", given)
			}
		}
	}
	t.Setenv("PGSSLMODE", "disable")
	if config, err := pgstore.ConfigOf("postgres://u@db.example/books"); err != nil || config.ConnConfig.TLSConfig != nil {
		t.Errorf("PGSSLMODE does not count: %v", err)
	}
}

// A server that cannot prove its name is named as that at once, and not waited for.
func TestConnectNamesMissingProof(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(fresh(t, pgtest.Start(t)))
	if err != nil {
		t.Fatal(err)
	}
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(reserved.Addr().String())
	go serve(t, reserved, u.Query().Get("host")+"/.s.PGSQL.5432")
	plain := with(t, with(t, u.String(), "host", host), "port", port)
	_, err = pgstore.Connect(t.Context(), pgstore.Options{URL: with(t, plain, "sslmode", "verify-full"), MasterKey: vault.Given(testMaster)}, time.Hour)
	if !errors.Is(err, pgstore.ErrTLS) || !strings.Contains(err.Error(), "sslrootcert") {
		t.Errorf("error %v", err)
	}
}

// A database that hangs while purser starts is waited for longer than one that is not there.
func TestConnectWaitsForDatabaseThatHangs(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	at := fresh(t, server)
	goOn := server.Freeze(t)
	waits := heard{"waiting for the database", make(chan struct{})}
	go func() {
		select {
		case <-waits.ch:
			goOn()
		case <-t.Context().Done():
		}
	}()
	const patience = 4 * time.Second // shorter than one try takes
	db, err := pgstore.Connect(t.Context(), pgstore.Options{
		URL: at, MasterKey: vault.Given(testMaster), Logger: slog.New(slog.NewTextHandler(waits, nil)),
	}, patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
