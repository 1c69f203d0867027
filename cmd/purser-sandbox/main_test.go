package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/vault"
)

// Every printed command works twice, and costs the printed price.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, "-port", "0")
	out := p.says(t, "Ctrl-C")
	rpc := regexp.MustCompile(`JSON-RPC +(\S+)`).FindStringSubmatch(out)[1]
	wallet := regexp.MustCompile(`wallet +(0x\S+)`).FindStringSubmatch(out)[1]
	if !strings.Contains(out, "never fund this address") {
		t.Errorf("no warning: %s", out)
	}
	_, things, _ := strings.Cut(out, "Things to try:")
	var blocks []string
	for _, block := range strings.Split(things, "\n\n") {
		var commands []string
		for _, line := range strings.Split(block, "\n") {
			if command, ok := strings.CutPrefix(line, "    "); ok {
				commands = append(commands, command)
			}
		}
		if len(commands) > 0 {
			blocks = append(blocks, strings.Join(commands, "\n"))
		}
	}
	wants := [][]string{
		{"200 OK", "Purser-Payment: ", "Purser-Amount: 10000", "Purser-Transaction: 0x", `"sky":"clear"`},
		{"hello", "Purser-Amount: 20000", `data: {"event":5,"of":5}`},
		{"200 OK", "Payment-Receipt: ", "Purser-Amount: 10000", `"order":"/settles-denies"`, `"path":"/storm"`},
		{"402 Payment Required", "Purser-Declined: per-payment"},
		{"200 Connection Established", "purser-amount: 10000", "purser-transaction: 0x", `"sky":"clear"`},
		{"200 Connection Established", "purser-amount: 10000", "purser-transaction: 0x", `"sky":"clear"`},
		{"LABEL", "sandbox", "exec"},
		{`"settled":true`, "200 OK", `"sky":"clear"`},
		{"200 OK", `"sky":"clear"`, `"state":"settled"`, `"settlement":"seller"`},
		{`"events":[{`, "/weather", `"pending":{"count":0`, `"ok":true`, "purser_"},
	}
	if len(blocks) != len(wants) {
		t.Fatalf("%d blocks of commands, want %d", len(blocks), len(wants))
	}
	for round := 1; round <= 2; round++ {
		for i, want := range wants {
			got := shell(t, blocks[i])
			for _, part := range want {
				if !strings.Contains(strings.ToLower(got), strings.ToLower(part)) { // HTTP/2 writes header names in lower case
					t.Errorf("round %d: no %q in the answer of\n%s\n%s", round, part, blocks[i], got)
				}
			}
		}
		spent := 90_000 * round
		if got := balance(t, rpc, wallet); got != fmt.Sprint(100_000_000-spent) {
			t.Errorf("round %d: balance %s after spending %d", round, got, spent)
		}
	}
	p.signal(t, os.Interrupt)
	p.exits(t, 0)
}

// Two sandboxes run side by side without contact.
func TestJSON(t *testing.T) {
	t.Parallel()
	first, second := launch(t, nil, "-json", "-port", "0"), launch(t, nil, "-json", "-port", "0")
	a, b := first.about(t), second.about(t)
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		name := va.Type().Field(i).Tag.Get("json")
		if name == "" {
			continue
		}
		if x, y := va.Field(i).String(), vb.Field(i).String(); x == "" || (x == y) != (name == "token") {
			t.Errorf("%s: %q and %q", name, x, y)
		}
		if !strings.Contains(help, "\n             "+name+" ") {
			t.Errorf("the help does not describe %s", name)
		}
	}
	for _, x := range []about{a, b} {
		for _, path := range []string{"/weather", "/v1/weather"} {
			if got := get(t, x.Proxy, x.Seller+path); got != 200 {
				t.Errorf("%s: %d", path, got)
			}
		}
		if got := get(t, "", x.Metrics); got != 200 {
			t.Errorf("metrics: %d", got)
		}
		if got := balance(t, x.RPC, x.Wallet); got != "99980000" {
			t.Errorf("balance %s", got)
		}
		if _, err := os.Stat(filepath.Join(x.Data, "purser.db")); err != nil {
			t.Error(err)
		}
	}
	if got := get(t, strings.Replace(b.Proxy, b.Key, a.Key, 1), b.Seller+"/weather"); got != 407 {
		t.Errorf("the first one's key at the second: %d", got)
	}
	first.signal(t, terminate)
	first.exits(t, 0)
	if got := get(t, b.Proxy, b.Seller+"/weather"); got != 200 {
		t.Errorf("the other one has ended: %d", got)
	}
	second.signal(t, os.Interrupt)
	second.exits(t, 0)
	if strings.Count(first.stdout.String(), "\n") != 1 {
		t.Errorf("not one line: %q", &first.stdout)
	}
}

// get returns the status of a request. It goes through a proxy, if one is given.
func get(t *testing.T, proxy, address string) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	if proxy != "" {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		transport.Proxy = http.ProxyURL(u)
	}
	client := &http.Client{Transport: transport, Timeout: patience}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func TestPorts(t *testing.T) {
	t.Parallel()
	base := freeBase(t)
	args := []string{"-json", "-port", fmt.Sprint(base)}
	p := launch(t, nil, args...)
	a := p.about(t)
	for got, offset := range map[string]int{
		a.API: 0, a.Seller: 1, a.Facilitator: 2, a.RPC: 3, strings.TrimSuffix(a.Metrics, "/metrics"): 5, a.SellerTLS: 6,
	} {
		if !strings.HasSuffix(got, fmt.Sprintf(":%d", base+offset)) {
			t.Errorf("%s is not at port %d", got, base+offset)
		}
	}
	again := launch(t, nil, args...)
	again.exits(t, 1)
	if text := again.stderr.String(); !strings.Contains(text, "address already in use") || !strings.Contains(text, "-port 0") {
		t.Errorf("%s", text)
	}
	neighbour := launch(t, nil, "-port", fmt.Sprint(base-1))
	neighbour.exits(t, 1)
	if text := neighbour.stderr.String(); !strings.Contains(text, "address already in use") {
		t.Errorf("%s", text)
	}
	p.signal(t, terminate)
	p.exits(t, 0)
}

func TestData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	var last about
	for range 2 {
		p := launch(t, nil, "-json", "-port", "0", "-data", dir)
		a := p.about(t)
		if a.Data != dir || a.Key == last.Key || a.Wallet == last.Wallet {
			t.Errorf("%+v after %+v", a, last)
		}
		other := launch(t, nil, "-json", "-port", "0", "-data", dir)
		other.exits(t, 1)
		if text := other.stderr.String(); !strings.Contains(text, "store is in use") {
			t.Errorf("two with one database: %s", text)
		}
		if last.Key != "" && get(t, "http://"+last.Key+"@"+strings.TrimPrefix(a.API, "http://"), a.Seller+"/free") != 200 {
			t.Error("an older key is unknown")
		}
		last = a
		p.signal(t, terminate)
		p.exits(t, 0)
	}
	// Only a sandbox opens a sandbox's database.
	db, err := openStore(t, dir, "")
	if err == nil {
		db.Close()
		t.Error("a purser opened the sandbox's database")
	}
}

// A sandbox does not touch another purser's database.
func TestForeignData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := openStore(t, dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := launch(t, nil, "-json", "-port", "0", "-data", dir)
	p.exits(t, 1)
	if text := p.stderr.String(); !strings.Contains(text, "store of another world") || p.stdout.String() != "" {
		t.Errorf("%s", text)
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(before) != len(after) {
		t.Errorf("%v became %v, %v", before, after, err)
	}
}

func openStore(t *testing.T, dir, world string) (*boltstore.DB, error) {
	t.Helper()
	return boltstore.Open(t.Context(), boltstore.Options{
		Path: filepath.Join(dir, "purser.db"), World: world, MasterKey: vault.From("", "", filepath.Join(dir, "master.key")),
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, "-h")
	p.exits(t, 0)
	if p.stdout.String() != help || p.stderr.String() != "" {
		t.Errorf("help: %q, %q", &p.stdout, &p.stderr)
	}
	for _, args := range [][]string{{"-nonsense"}, {"-port", "-1"}, {"-port", "65530"}, {"-port", "x"}, {"start"}} {
		p := launch(t, nil, args...)
		p.exits(t, 2)
		if text := p.stderr.String(); !strings.HasPrefix(text, "purser-sandbox: ") || !strings.Contains(text, "-h") || p.stdout.String() != "" {
			t.Errorf("%q: %q, %q", args, text, &p.stdout)
		}
	}
}

// Variables that lead out of the sandbox are ignored; limits are heeded.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	p := launch(t, []string{
		"PURSER_RPC_URL=http://203.0.113.1:1", "PURSER_FACILITATOR_URL=http://203.0.113.1:1", "PURSER_KEY=pk_real-secret",
		"PURSER_STORE=nonsense", "PURSER_DATA_DIR=/nowhere", "PURSER_MASTER_KEY=nonsense", "PURSER_PORT=",
		"PURSER_MAX_PAYMENT=3",
	}, "-json", "-port", "0")
	a := p.about(t)
	if got := get(t, a.Proxy, a.Seller+"/report"); got != 200 {
		t.Errorf("/report: %d", got)
	}
	if got := get(t, "http://pk_real-secret@"+strings.TrimPrefix(a.API, "http://"), a.Seller+"/free"); got != 407 {
		t.Errorf("the real key: %d", got)
	}
	text := p.stderr.String()
	for _, name := range []string{"PURSER_RPC_URL", "PURSER_FACILITATOR_URL", "PURSER_KEY", "PURSER_STORE", "PURSER_DATA_DIR", "PURSER_MASTER_KEY"} {
		if !strings.Contains(text, name+" is ignored") {
			t.Errorf("%s is not mentioned: %s", name, text)
		}
	}
	if strings.Contains(text, "PURSER_MAX_PAYMENT") || strings.Contains(text, "real-secret") {
		t.Errorf("%s", text)
	}
	p.signal(t, terminate)
	p.exits(t, 0)
}

// A signal ends the sandbox during its start, and while a client holds a stream open.
func TestSignals(t *testing.T) {
	t.Parallel()
	early := launch(t, nil, "-port", "0")
	early.says(t, "starting a chain")
	early.signal(t, terminate)
	early.exits(t, 0)

	p := launch(t, nil, "-json", "-port", "0")
	a := p.about(t)
	proxy, err := url.Parse(a.Proxy)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport}).Get(a.Seller + "/stream?events=1000&interval=100ms")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 10)); err != nil || resp.StatusCode != 200 {
		t.Fatalf("stream: %d, %v", resp.StatusCode, err)
	}
	began := time.Now()
	p.signal(t, os.Interrupt)
	p.exits(t, 0)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %s to end", took)
	}
}

// When its output is closed, the sandbox ends and cleans up.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	got := shell(t, "TMPDIR="+quote(temp)+" "+quote(binary)+" -port 0 2>/dev/null | head -n 1")
	if !strings.Contains(got, "starting a chain") {
		t.Errorf("%q", got)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Caddy's admin endpoint answers on its socket, and can end the program as cleanly as a signal.
func TestAdmin(t *testing.T) {
	t.Parallel()
	p := launch(t, nil, "-json", "-port", "0")
	a := p.about(t)
	socket, ok := strings.CutPrefix(a.Admin, "unix/")
	if !ok {
		t.Fatalf("admin %q", a.Admin)
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := client.Get("http://admin/purser/status")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(text), `"world":"sandbox"`) {
		t.Errorf("%s", text)
	}
	resp, err = client.Post("http://admin/stop", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	p.exits(t, 0)
}
