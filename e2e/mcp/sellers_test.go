package mcp

import (
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/e2e/internal/official"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
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
	*official.Seller
	kind kind
}

// seller returns the seller of a kind, which runs as long as the tests do.
func (w *world) seller(t testing.TB, k kind) *seller {
	t.Helper()
	s := w.Seller(t, k.name, []string{programFor(t, k.program), here("sellers", k.program)}, k.options...)
	if k.alone {
		s.Taken.Lock()
		t.Cleanup(s.Taken.Unlock)
	}
	return &seller{s, k}
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
		return official.Node(t)
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

// endpoint returns the URL of the MCP server at an address.
func endpoint(base string) string { return base + "/mcp" }

// named is an address with the sellers' name in place of the host.
func named(t testing.TB, raw string) string {
	t.Helper()
	return official.Under(t, sellerName, raw)
}
