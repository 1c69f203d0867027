package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// paidSite is a running purser that has paid once, with its admin endpoint.
func paidSite(t *testing.T, app string) (s *site, admin string) {
	t.Helper()
	f := newStandIn(t)
	s = newSite(t)
	s.app = "facilitator http {\n url " + f.URL + "\n}\n" + app
	socket, _ := adminSite(t, s)
	key := newKey(t, s.url())
	mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(5, "https://api.example.com/a"))
	return s, "--admin=unix/" + socket
}

// damage adds a counter that no payment makes.
func damage(t *testing.T, path string) {
	t.Helper()
	file, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("counters")).Put([]byte("lost"), []byte("1")) }); err != nil {
		t.Fatal(err)
	}
}

func TestStoreCommands(t *testing.T) {
	s, admin := paidSite(t, "")
	database := filepath.Join(s.dir, "purser.db")
	dir := t.TempDir()
	file := filepath.Join(dir, "backup.db")

	// While purser runs.
	said(t, clitest.Run(t, nil, "check", admin), 0, "payments      1 (1 settled)", "")
	said(t, clitest.Run(t, nil, "check", "--data-dir", s.dir), 1, "", "a running purser has it open")
	said(t, clitest.Run(t, nil, "compact", "--data-dir", s.dir), 1, "", "a running purser has it open")
	o := clitest.Run(t, nil, "backup", admin, file)
	said(t, o, 0, "payments 1 (1 settled), spend events 1, keys 1, wallets 1", "no RPC is configured")
	if !strings.Contains(o.Stdout, "keep a copy of "+filepath.Join(s.dir, "master.key")) || !strings.Contains(o.Stdout, "at no known block") {
		t.Errorf("%q", o.Stdout)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	master, err := os.ReadFile(filepath.Join(s.dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(first), strings.TrimSpace(string(master))) {
		t.Errorf("the master key is in the backup, %v", err)
	}
	said(t, clitest.Run(t, nil, "backup", admin, file), 1, "", "--force")
	said(t, clitest.Run(t, nil, "backup", admin, "--force", database), 1, "", "is the database of a running purser")
	said(t, clitest.Run(t, nil, "backup", admin, "--force", dir), 1, "", "is not a file")
	said(t, clitest.Run(t, nil, "backup", admin, filepath.Join(dir, "none", "b")), 1, "", "no such file")
	said(t, clitest.Run(t, nil, "backup", admin, "--force", file), 0, "payments 1", "no RPC")
	said(t, clitest.Run(t, nil, "backup", file+"2"), 1, "", "is purser running")
	said(t, clitest.Run(t, nil, "check"), 1, "", "--data-dir")
	said(t, clitest.Run(t, nil, "check", file), 0, "not tried", "")
	said(t, clitest.Run(t, []string{"PURSER_MASTER_KEY=" + strings.TrimSpace(string(master))}, "check", file), 0, "backup        taken 20", "")
	said(t, clitest.Run(t, nil, "check", file, "--data-dir", dir), 1, "", "two databases")
	if list := listed(t, dir); list != "backup.db" {
		t.Errorf("left behind: %s", list)
	}
	if list := listed(t, s.dir); strings.Contains(list, "temp") {
		t.Errorf("left behind: %s", list)
	}

	// When it is stopped.
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	o = clitest.Run(t, nil, "check", "--data-dir", s.dir)
	said(t, o, 0, "faults        none", "")
	if strings.Contains(o.Stdout, "not tried") {
		t.Errorf("the master key is there: %q", o.Stdout)
	}
	said(t, clitest.Run(t, []string{"PURSER_DATA_DIR=" + s.dir}, "compact"), 0, " before, ", "")
	said(t, clitest.Run(t, []string{"PURSER_BOLT_PATH=" + database}, "compact"), 0, database+": ", "")
	damage(t, database)
	said(t, clitest.Run(t, nil, "check", database), 1, "counter lost is 1, the payments make 0", "has faults")
	said(t, clitest.Run(t, nil, "compact", database), 1, "", "has faults")
	said(t, clitest.Run(t, nil, "check", "--data-dir", t.TempDir()), 1, "", "no such file")

	// And the backup takes its place: without an RPC, nothing is paid before the operator says so.
	if err := os.Rename(file, database); err != nil {
		t.Fatal(err)
	}
	socket, _ := adminSite(t, s)
	admin = "--admin=unix/" + socket
	if h := mustCall(t, 503, "GET", s.url()+"/health", "", ""); h["ok"] != false || h["reconciling"] == nil {
		t.Errorf("%v", h)
	}
	eventually(t, "it is known that there is no RPC", func() bool {
		o = clitest.Run(t, nil, "reconcile", admin)
		return strings.Contains(o.Stdout, "purser reconcile --accept-risk")
	})
	said(t, o, 1, "restored from a backup of 20", "no RPC")
	said(t, clitest.Run(t, nil, "status", admin), 1, "restored from a backup of 20", "no RPC")
	if value := gauge(t, "purser_reconciling"); value != 1 {
		t.Errorf("purser_reconciling is %v", value)
	}
	said(t, clitest.Run(t, nil, "reconcile", admin, "--accept-risk"), 1, "accepted", "stays unknown")
	said(t, clitest.Run(t, nil, "reconcile", admin), 1, "accepted  by ", "at the earliest")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	longAgo(t, database)
	socket, _ = adminSite(t, s)
	admin = "--admin=unix/" + socket
	if o := clitest.Run(t, nil, "reconcile", admin, "--wait"); o.Status != 0 || !strings.Contains(o.Stdout, "nothing to reconcile") {
		t.Errorf("%+v", o)
	}
	said(t, clitest.Run(t, nil, "reconcile", admin, "--accept-risk"), 1, "", "is reconciled")
	mustCall(t, 200, "GET", s.url()+"/health", "", "")
	if value := gauge(t, "purser_reconciling"); value != 0 {
		t.Errorf("purser_reconciling is %v", value)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	said(t, clitest.Run(t, nil, "check", "--data-dir", s.dir), 0, "by the word of ", "")
}

// longAgo has a stopped purser's database be restored ten minutes ago.
func longAgo(t *testing.T, database string) {
	t.Helper()
	file, err := bbolt.Open(database, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = file.Update(func(tx *bbolt.Tx) error {
		meta, key := tx.Bucket([]byte("meta")), []byte("reconciling")
		var r pay.Restore
		if err := json.Unmarshal(meta.Get(key), &r); err != nil {
			return err
		}
		r.At = r.At.Add(-10 * time.Minute)
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return meta.Put(key, text)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func listed(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

// A check on a running purser tells what it finds, and does not end it.
func TestCheckRunning(t *testing.T) {
	s, _ := paidSite(t, "")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	damage(t, filepath.Join(s.dir, "purser.db"))
	socket, _ := adminSite(t, s)
	code, text := adminSend(t, socket, "POST", "/purser/check", "application/json", "{}")
	if a := decode[cli.CheckAnswer](t, text); code != 200 || len(a.Faults) != 1 || !a.Secrets || a.Pages || !strings.HasSuffix(a.Path, "/data/purser.db") {
		t.Errorf("status %d: %s", code, text)
	}
	said(t, clitest.Run(t, nil, "check", "--admin=unix/"+socket), 1, "  counter lost is 1", "has faults")
	said(t, clitest.Run(t, nil, "backup", "--admin=unix/"+socket, filepath.Join(t.TempDir(), "b")), 1, "", "counter lost is 1")
	if code, text := adminSend(t, socket, "POST", "/purser/backup", "text/plain", "{}"); code != 415 {
		t.Errorf("status %d: %s", code, text)
	}
	if code, text := adminSend(t, socket, "GET", "/purser/backup", "application/json", ""); code != 405 {
		t.Errorf("status %d: %s", code, text)
	}
}

// rpc answers what a backup asks of the chain.
func rpc(t *testing.T, genesis string) *httptest.Server {
	t.Helper()
	base, _ := x402.NetworkByWire("base")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params []json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		result := `"0x2105"`
		switch call.Method {
		case "eth_getBlockByNumber":
			result = `{"number":"0x7b","timestamp":"0x6a000000","hash":"0x` + strings.Repeat("ab", 32) + `"}`
			if string(call.Params[0]) == `"0x0"` {
				result = `{"number":"0x0","timestamp":"0x0","hash":"` + genesis + `"}`
			}
		case "eth_call":
			result = fmt.Sprintf(`"0x%x"`, base.Assets[0].DomainSeparator)
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
	}))
	t.Cleanup(server.Close)
	return server
}

func TestBackupHasTheBlock(t *testing.T) {
	genesis := "0x" + strings.Repeat("01", 32)
	s := newSite(t)
	s.app = "rpc_url " + rpc(t, genesis).URL
	socket, _ := adminSite(t, s)
	mustCall(t, 200, "GET", s.url()+"/health", "", "") // makes the chain known to the store
	file := filepath.Join(t.TempDir(), "backup.db")
	said(t, clitest.Run(t, nil, "backup", "--admin=unix/"+socket, file), 0, "at block 123 of base", "")
	r, err := boltstore.CheckFile(t.Context(), file, nil)
	if err := errors.Join(err, r.Err()); err != nil || len(r.Backups) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if b := r.Backups[0].Block; b == nil || b.Genesis != genesis || b.Number != 123 || b.Hash != "0x"+strings.Repeat("ab", 32) || b.Time.Unix() != 0x6a000000 {
		t.Errorf("%+v", b)
	}

	// An RPC that is on another chain now has no block of this store's.
	s.app = "rpc_url " + rpc(t, "0x"+strings.Repeat("02", 32)).URL
	socket, _ = adminSite(t, s)
	o := clitest.Run(t, nil, "backup", "--admin=unix/"+socket, "--force", file)
	said(t, o, 0, "at no known block", "another chain")
}

// A backup that breaks off leaves nothing, and what was there before.
func TestBackupCutOff(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"cut off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, "a part")
			panic(http.ErrAbortHandler)
		},
		"not a store": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, strings.Repeat("0123456789", 10000))
		},
		"refused": func(w http.ResponseWriter) {
			http.Error(w, `{"error":"too little free disk space"}`, http.StatusInsufficientStorage)
		},
		"page": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		t.Cleanup(server.Close)
		dir := t.TempDir()
		file := filepath.Join(dir, "backup.db")
		if err := os.WriteFile(file, []byte("before"), 0o600); err != nil {
			t.Fatal(err)
		}
		o := clitest.Run(t, nil, "backup", "--force", "--admin="+strings.TrimPrefix(server.URL, "http://"), file)
		said(t, o, 1, "", "purser: ")
		text, err := os.ReadFile(file)
		if err != nil || string(text) != "before" || listed(t, dir) != "backup.db" {
			t.Errorf("%s: %q, %v, %s", name, text, err, listed(t, dir))
		}
	}
}

// A client that leaves in the middle of a backup leaves nothing behind at the server, and
// the next one is served.
func TestBackupLeft(t *testing.T) {
	s, admin := paidSite(t, "")
	socket := strings.TrimPrefix(admin, "--admin=unix/")
	for range 3 {
		conn, err := new(net.Dialer).DialContext(context.Background(), "unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "POST /purser/backup HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		eventually(t, "the copy is removed", func() bool { return !strings.Contains(listed(t, s.dir), "temp") })
	}
	eventually(t, "the next backup", func() bool {
		return clitest.Run(t, nil, "backup", admin, filepath.Join(t.TempDir(), "b")).Status == 0
	})
}
