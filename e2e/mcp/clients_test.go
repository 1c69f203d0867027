package mcp

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/official"
	"github.com/purserpay/purser/e2e/internal/process"
)

// patience bounds the run of a client.
const patience = time.Minute

// A client is an official one with a mode.
type client struct {
	name, script, mode string
	// modern: it tries the protocol of 2026-07-28 first.
	modern bool
}

var clients = []client{
	{"npm-sdk-1.32", "sdk.mjs", "", false},
	{"npm-client-2.4-legacy", "client.mjs", "legacy", false},
	{"npm-client-2.4", "client.mjs", "auto", true},
	{"pypi-mcp-1.30", "mcp1.py", "", false},
	{"pypi-mcp-2.3-legacy", "mcp2.py", "legacy", false},
	{"pypi-mcp-2.3", "mcp2.py", "auto", true},
	{"go-sdk-1.8", "gosdk", "", true},
}

// call is one call of a tool.
type call struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

// A result comes from a client for one call. Failure is its error instead of a result.
type result struct {
	Failure    string         `json:"failure"`
	IsError    bool           `json:"isError"`
	Text       string         `json:"text"`
	Structured map[string]any `json:"structured"`
	Meta       map[string]any `json:"meta"`
}

// weather is the paid call for a city, n times.
func weather(city string, n int) (calls []call) {
	for range n {
		calls = append(calls, call{"get_weather", map[string]string{"city": city}})
	}
	return calls
}

// delivered reports whether the result has what was paid for.
func (r result) delivered(city string) bool {
	return r.Failure == "" && !r.IsError && r.Text == "sunny in "+city
}

// command is the client's command line.
func (c client) command(t testing.TB) []string {
	t.Helper()
	if c.script == "gosdk" {
		return []string{goClient(t)}
	}
	return []string{programFor(t, c.script), here("clients", c.script)}
}

// goClient builds the client for Go once. It is a module of its own, because purser itself may have another go-sdk.
func goClient(t testing.TB) string {
	t.Helper()
	path := filepath.Join(env.Dir, "gosdk")
	env.building.Do(func() {
		if out, err := exec.Command("go", "build", "-C", here("clients", "gosdk"), "-o", path, ".").CombinedOutput(); err != nil {
			t.Errorf("build the client for Go: %v\n%s", err, out)
		}
	})
	return path
}

// variables tells the client by its environment what to do.
func (c client) variables(t testing.TB, server string, calls []call) []string {
	t.Helper()
	text, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"SERVER=" + server, "CALLS=" + string(text), "MODE=" + c.mode}
}

// run has the client make calls, and returns what it got.
func (c client) run(t testing.TB, server string, calls []call) []result {
	t.Helper()
	command := c.command(t)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = process.Environment(c.variables(t, server, calls)...)
	return finish(t, cmd, len(calls))
}

// finish runs a client's command to its end, with few others beside it.
func finish(t testing.TB, cmd *exec.Cmd, calls int) []result {
	t.Helper()
	return official.Results[result](t, env.Town, cmd, patience, calls)
}
