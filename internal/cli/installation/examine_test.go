package installation

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

// rpcStandIn answers as an RPC of Base with a chain id, and a latest block of some time.
func rpcStandIn(t *testing.T, id string, latest time.Time) string {
	t.Helper()
	base, _ := x402.NetworkByWire("base")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
		}
		if json.NewDecoder(r.Body).Decode(&call) != nil {
			http.Error(w, "no call", http.StatusBadRequest)
			return
		}
		result := map[string]string{
			"eth_chainId": `"` + id + `"`, "eth_call": fmt.Sprintf(`"0x%x"`, base.Assets[0].DomainSeparator),
			"eth_getBlockByNumber": fmt.Sprintf(`{"number":"0x0","timestamp":"0x%x","hash":"0x%s"}`, latest.Unix(), strings.Repeat("1", 64)),
		}[call.Method]
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// closedSite is oneSite with an admin endpoint and a registration that are closed to others, and bounds for connections.
var closedSite = strings.NewReplacer(
	`{"apps":{"purser":{}`, `{"admin":{"listen":"unix//run/purser/admin.sock"},"apps":{"purser":{"registration":"off"}`,
	`"listen":[`, `"listener_wrappers":[{"wrapper":"purser"}],"listen":[`,
).Replace(oneSite)

// subject is an installation in an empty folder.
func subject(t *testing.T, variables map[string]string) Subject {
	t.Helper()
	dir := t.TempDir()
	return Subject{
		DefaultDataDir: "./purser-data",
		Config:         []byte(closedSite), Getenv: func(name string) string { return variables[name] }, Now: time.Now, Silence: "no answer",
		Path: func(path string) string {
			if filepath.IsAbs(path) {
				return path
			}
			return filepath.Join(dir, path)
		},
	}
}

func examined(t *testing.T, s Subject) Report {
	t.Helper()
	r, err := Examine(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// of returns the results and words of a check.
func (r Report) of(check string) (all string) {
	for _, f := range r.Findings {
		if f.Check == check {
			all += string(f.Result) + " " + f.Says + " " + f.Do + "\n"
		}
	}
	return all
}

func TestExamineAFreshFolder(t *testing.T) {
	t.Parallel()
	r := examined(t, subject(t, nil))
	for check, want := range map[string]string{
		"running": "warn no purser runs here: no answer. It would listen on ", "rpc": "warn base: none.", "wallets": "warn not looked at", "disk": "ok ",
		"variables": "ok all are known", "permissions": "ok 0 files", "limits": "ok proxy: a key spends at most 1 USDC a payment, 10 USDC a day", "authority": "ok none yet", "exposure": "ok ",
	} {
		if got := r.of(check); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
	if r.Failed != 0 || r.Warned == 0 {
		t.Errorf("%d failed, %d warned", r.Failed, r.Warned)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(strings.TrimSpace(line)) > 100 {
			t.Errorf("too wide: %s", line)
		}
	}
}

func TestExamineRPCs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name, url   string
		rpc, clocks string
	}{
		{"right", rpcStandIn(t, "0x2105", now), "ok base: answers for Base, chain 8453, at block 0", "ok agrees with the RPC of base"},
		{"another chain", rpcStandIn(t, "0x1", now), "FAIL base: PURSER_RPC_URL is for another chain", ""},
		{"stale", rpcStandIn(t, "0x2105", now.Add(-time.Hour)), "ok base", "warn agrees with the RPC of base, whose latest block is 1h0m"},
		{"ahead", rpcStandIn(t, "0x2105", now.Add(time.Hour)), "ok base", "FAIL the latest block of base is "},
		{"silent", "http://127.0.0.1:1/s3cret", "FAIL base: does not answer", ""},
	} {
		r := examined(t, subject(t, map[string]string{"PURSER_RPC_URL": c.url}))
		if got := r.of("rpc"); !strings.HasPrefix(got, c.rpc) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: %s", c.name, got)
		}
		if got := r.of("clock"); !strings.HasPrefix(got, c.clocks) || (c.clocks == "") != (got == "") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	r := examined(t, subject(t, map[string]string{"PURSER_NETWORKS": "base,nowhere,polygon", "PURSER_RPC_URL_POLYGON": rpcStandIn(t, "0x1", now)}))
	if got := r.of("rpc"); !strings.HasPrefix(got, "warn base: none") || !strings.Contains(got, `FAIL "nowhere"`) || !strings.Contains(got, "FAIL polygon: PURSER_RPC_URL_POLYGON is for another chain") {
		t.Error(got)
	}
	r = examined(t, subject(t, map[string]string{"PURSER_RPC_URL": rpcStandIn(t, "0x2105", now), "PURSER_RPC_URL_2": "http://127.0.0.1:1/s3cret"}))
	if got := r.of("rpc"); !strings.Contains(got, "FAIL base, second RPC: does not answer") || strings.Contains(got, "s3cret") {
		t.Error(got)
	}
	r = examined(t, subject(t, map[string]string{"PURSER_RPC_URL": rpcStandIn(t, "0x2105", now), "PURSER_NETWORKS": "base,tempo"}))
	if got := r.of("rpc"); !strings.Contains(got, "FAIL tempo: none, and nothing is paid on Tempo") {
		t.Error(got)
	}
}

func TestClocks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		off, age time.Duration
		dated    bool
		want     Result
	}{
		{0, time.Second, true, OK},
		{20 * time.Second, 0, true, OK},
		{-40 * time.Second, 0, true, Warn},
		{3 * time.Minute, 0, true, Fail},
		{0, 10 * time.Minute, true, Warn},
		{0, 10 * time.Minute, false, Warn},
		{0, 0, false, OK},
		{0, -3 * time.Minute, false, Fail},
	} {
		if got := clock("base", c.off, c.dated, c.age)[0]; got.Result != c.want {
			t.Errorf("%s, %s, %v: %+v, want %s", c.off, c.age, c.dated, got, c.want)
		}
	}
}

// A check fails if a configuration leaves open what the shipped Caddyfile protects against.
func TestExamineExposure(t *testing.T) {
	t.Parallel()
	s := subject(t, nil)
	s.Config = []byte(oneSite)
	r := examined(t, s)
	got := r.of("exposure")
	for _, want := range []string{"FAIL Caddy's admin endpoint is at localhost:2019", "admin unix//run/purser/admin.sock", "FAIL POST /api-keys at [::]:9402", "PURSER_REGISTRATION=off"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if r.Failed != 2 {
		t.Errorf("%d failed", r.Failed)
	}
}

func TestExamineAPurserThatRuns(t *testing.T) {
	t.Parallel()
	s := subject(t, nil)
	s.Running = &adminapi.Status{OK: true, Version: "v1", Process: 7}
	address, none, some := "0x62b5", "0", "5"
	s.Wallets = []adminapi.Wallet{
		{KeyID: "k", KeyLabel: "poor", Operator: true, Network: "base", Address: &address, Balance: &none},
		{KeyID: "k2", Operator: true, Network: "base", Address: &address, Balance: &some},
		{KeyID: "k3", KeyLabel: "exec", Network: "base", Address: new("0xother"), Balance: &none}, // a stranger's
	}
	if r := examined(t, s); !strings.HasPrefix(r.of("running"), "ok purser v1, pid 7, on http://127.0.0.1:8402") ||
		r.of("wallets") != "warn the wallet of key poor is empty send USDC on Base to 0x62b5\n" {
		t.Errorf("%s%s", r.of("running"), r.of("wallets"))
	}
	s.Wallets[0].Balance = &some
	if r := examined(t, s); r.of("wallets") != "ok 2 with money in them \n" {
		t.Error(r.of("wallets"))
	}
	s.Wallets[0].Code = "a delegation to 0x1 (EIP-7702)"
	if got := examined(t, s).of("wallets"); !strings.Contains(got, "of key poor cannot pay: it has a delegation to 0x1 (EIP-7702)") {
		t.Error(got)
	}
	if s.Wallets[0].CodeAccepts = true; strings.Contains(examined(t, s).of("wallets"), "cannot pay") {
		t.Error("a wallet whose code agrees cannot pay")
	}
	s.Wallets = []adminapi.Wallet{{Operator: true, Address: &address, Unknown: "no RPC"}}
	s.Running.OK = false
	if r := examined(t, s); !strings.HasPrefix(r.of("wallets"), "warn balances are unknown: no RPC") || !strings.HasPrefix(r.of("running"), "FAIL") || r.Failed != 1 {
		t.Errorf("%s%s", r.of("running"), r.of("wallets"))
	}
}

func TestExamineVariables(t *testing.T) {
	t.Parallel()
	s := subject(t, map[string]string{
		"PURSER_KEY": "a", "PURSER_KEY_FILE": "b", "PURSER_MAX_PAYMENT": "20", "PURSER_RPC_URL_POLYGON": "http://127.0.0.1:1", "PURSER_DAILY_BUDGET": "10",
	})
	s.Warnings = []string{"PURSER_X does nothing"}
	got := examined(t, s).of("variables")
	for _, want := range []string{"FAIL PURSER_KEY and PURSER_KEY_FILE are both set", "warn one payment may cost 20 USDC", "warn PURSER_RPC_URL_POLYGON is set, and nothing", "warn PURSER_X does nothing"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	off := examined(t, subject(t, map[string]string{"PURSER_DAILY_BUDGET": "off", "PURSER_REGISTRATION": "off"})).of("limits")
	if !strings.HasPrefix(off, "warn proxy: a key spends at most 1 USDC a payment, without a bound a day") || !strings.Contains(off, "no others can make keys") {
		t.Error(off)
	}
}

func TestExamineFiles(t *testing.T) {
	t.Parallel()
	s := subject(t, map[string]string{"PURSER_DATA_DIR": "data"})
	root := s.Path("data/pki/authorities/purser")
	if err := os.MkdirAll(root, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Private = []string{s.Path("purser.env")}
	for _, file := range []string{s.Path("purser.env"), s.Path("data/purser.db")} { // the folder of the second is closed
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // that is what is looked for
			t.Fatal(err)
		}
	}
	if got := examined(t, s).of("permissions"); !strings.HasPrefix(got, "FAIL others can get at "+s.Private[0]) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
	for _, c := range []struct {
		left time.Duration
		want Result
	}{{-time.Hour, Fail}, {24 * time.Hour, Warn}, {400 * 24 * time.Hour, OK}} {
		if err := os.WriteFile(filepath.Join(root, "root.crt"), certificate(t, time.Now().Add(c.left)), 0o600); err != nil {
			t.Fatal(err)
		}
		r := examined(t, s)
		if i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == "authority" }); r.Findings[i].Result != c.want {
			t.Errorf("%s: %+v", c.left, r.Findings[i])
		}
	}
}

// certificate makes a root that ends at a time.
func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// An RPC that never answers holds nothing up for longer than it may.
func TestExamineEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice that the client leaves
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	r, err := Examine(ctx, subject(t, map[string]string{"PURSER_RPC_URL": s.URL}))
	if err != nil || !strings.HasPrefix(r.of("rpc"), "FAIL base: does not answer") {
		t.Errorf("%v %s", err, r.of("rpc"))
	}
}
