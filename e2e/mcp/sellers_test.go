package mcp

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/x402"
)

const (
	// sellerName is the name by which purser knows the sellers.
	sellerName = "tools.seller.test"
	// price of the paid tool: one cent, in the smallest unit of USDC.
	price = 10_000
)

// A kind is an official seller with options.
type kind struct {
	name    string
	dialect dialect
	program string
	options []string
	// modern: it speaks the protocol of 2026-07-28, without sessions.
	modern bool
	// alone: one client at a time. The store of Python's server is one for all sessions, and knows a stream by the id of
	// its request alone.
	alone bool
}

const (
	inPython     = "x402_seller.py"
	inCloudflare = "cloudflare.mjs"
	inVercel     = "vercel.mjs"
)

// kinds lists the sellers that every client meets.
var kinds = []kind{
	{"x402-json", dialectX402, inPython, []string{"JSON=1"}, false, false},
	{"x402-sse-session", dialectX402, inPython, []string{"SESSION=1", "PROGRESS=1"}, false, false},
	{"cloudflare-json-session", dialectCloudflare, inCloudflare, []string{"SDK=1", "SESSION=1", "JSON=1"}, false, false},
	{"cloudflare-sse", dialectCloudflare, inCloudflare, []string{"SDK=1", "PROGRESS=1"}, false, false},
	{"cloudflare2-json", dialectCloudflare, inCloudflare, []string{"SDK=2", "JSON=1"}, true, false},
	{"cloudflare2-sse", dialectCloudflare, inCloudflare, []string{"SDK=2", "PROGRESS=1"}, true, false},
	{"vercel-sse", dialectVercel, inVercel, []string{"PROGRESS=1"}, false, false},
}

// resumable lists those that keep the events of streams, and close the stream of a paid call before they answer it.
var resumable = []kind{
	{"x402-events", dialectX402, inPython, []string{"SESSION=1", "EVENTS=1", "CUT=1"}, false, true},
	{"cloudflare-events", dialectCloudflare, inCloudflare, []string{"SDK=1", "SESSION=1", "EVENTS=1", "CUT=1"}, false, false},
}

// seller is one that runs.
type seller struct {
	*process.Process
	kind kind
	// payTo receives the money of this kind and of no other.
	payTo x402.Address
	// taken is held by the test that has the seller alone.
	taken sync.Mutex
	URL   string `json:"url"`
	TLS   string `json:"tls"`
}

// seller returns the seller of a kind, which runs as long as the tests do.
func (w *world) seller(t testing.TB, k kind) *seller {
	t.Helper()
	w.mu.Lock()
	start := w.sellers[k.name]
	if start == nil {
		start = sync.OnceValues(func() (*seller, error) { return w.start(t, k) })
		w.sellers[k.name] = start
	}
	w.mu.Unlock()
	s, err := start()
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	if k.alone {
		s.taken.Lock()
		t.Cleanup(s.taken.Unlock)
	}
	return s
}

// start starts the seller of a kind, which ends with the run.
func (w *world) start(t testing.TB, k kind) (*seller, error) {
	t.Helper()
	s := &seller{kind: k, payTo: payeeOf(k.name)}
	cmd := exec.Command(programFor(t, k.program), here("sellers", k.program))
	cmd.Env = process.Environment(append(k.options,
		"FACILITATOR_URL="+w.money.FacilitatorURL(), "PAY_TO="+s.payTo.String(),
		"TLS_CERT="+w.certificates.File, "TLS_KEY="+w.certificates.KeyFile)...)
	p, line, err := process.Announced(cmd, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.running = append(w.running, p)
	w.mu.Unlock()
	s.Process = p
	if err := json.Unmarshal([]byte(line), s); err != nil {
		return nil, fmt.Errorf("its first line is %q: %w", line, err)
	}
	return s, nil
}

// payeeOf is the address that is paid by the buyers of a seller. It has no known private key.
func payeeOf(name string) x402.Address {
	return x402.EVMAddress([20]byte(crypto.Keccak256([]byte(name))[12:]))
}

// direct talks to servers without any proxy.
var direct = process.Client(nil, nil)

// runs counts the runs of the paid tool for a city.
func (s *seller) runs(t testing.TB, city string) int {
	t.Helper()
	return runsAt(t, s.URL, city)
}

func runsAt(t testing.TB, base, city string) int {
	t.Helper()
	got, err := process.Ask(t.Context(), direct, "GET", base+"/runs", "")
	counts := map[string]int{}
	if err == nil {
		err = got.Decode(200, &counts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return counts[city]
}

// programFor is the interpreter of a script.
func programFor(t testing.TB, script string) string {
	t.Helper()
	switch {
	case filepath.Ext(script) == ".mjs":
		needed.File(t, "run `make e2e-deps`", here("node_modules", "agents"))
		return node(t)
	case script == "mcp2.py":
		return python(t, filepath.Join(process.Root(), "e2e", ".venv"))
	default:
		return python(t, here(".venv"))
	}
}

func python(t testing.TB, venv string) string {
	t.Helper()
	needed.File(t, "run `make e2e-deps`", filepath.Join(venv, ".done"))
	return filepath.Join(venv, "bin", "python3")
}

// node is one whose fetch heeds the proxy variables: the one among the packages of e2e/peers.
func node(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(process.Root(), "e2e", "peers", "node_modules", "node-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if exec.Command(path, "--version").Run() == nil { // else it is for another kind of machine
			return path
		}
	}
	needed.Missing(t, "no Node 24 in e2e/peers, run `make e2e-deps`")
	return ""
}

// endpoint returns the URL of the MCP server at an address.
func endpoint(base string) string { return base + "/mcp" }

// named is an address with the sellers' name in place of the host.
func named(t testing.TB, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = sellerName + ":" + u.Port()
	return u.String()
}
