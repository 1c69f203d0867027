package e2e

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
)

// mcpClients are the official clients of the Model Context Protocol, each with the call that they need.
func mcpClients() map[string]func(t *testing.T) *exec.Cmd {
	return map[string]func(t *testing.T) *exec.Cmd{
		"python": func(t *testing.T) *exec.Cmd {
			requireModule(t, "mcp")
			return exec.Command(python(), filepath.Join("agents", "mcp_client.py"))
		},
		"typescript": func(*testing.T) *exec.Cmd { return exec.Command("node", filepath.Join("peers", "mcp-client.mjs")) },
	}
}

type mcpCall struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

type mcpResult struct {
	Error      bool
	Text       string
	Structured json.RawMessage
}

// newAgentKey makes a key as an operator does for an agent, in a file, with a funded wallet and a
// budget for a day.
func (p *purser) newAgentKey(t *testing.T, budget string) (agent *payer, file string) {
	t.Helper()
	out, err := p.Command(t, "keys", "create", "--label", "mcp "+t.Name(), "--daily-budget", budget, "--wallet", "new", "--json")
	var made adminapi.CreatedKey
	if err != nil || json.Unmarshal([]byte(out), &made) != nil || made.Address == nil {
		t.Fatalf("%v: %s", err, out)
	}
	file = filepath.Join(t.TempDir(), "agent.key")
	if err := os.WriteFile(file, []byte(made.Key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent = &payer{p.Host(), made.Key, common.HexToAddress(*made.Address), p}
	env.fund(t, agent.wallet)
	return agent, file
}

// Both official clients buy from an official seller through `purser mcp`, over stdio and over HTTP. They
// ask the price first, are told of a limit in words, and see their books. The chain has one payment.
func TestMCP(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, client := range mcpClients() {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(name+" "+transport, func(t *testing.T) {
				t.Parallel()
				cmd := client(t)
				agent, file := p.newAgentKey(t, "0.015")
				command := []string{p.Binary, "mcp", "--key-file", file, "--proxy", "http://" + agent.host, "--task", "reports"}
				server, s, scheme := p.serveMCP(t, transport, command), env.v2, "https"
				if transport == "http" {
					s, scheme = env.v1, "http"
				}
				target := s.under(t, scheme) + getPaid.path
				calls := []mcpCall{
					{"quote", map[string]any{"url": target}},
					{"fetch_paid", map[string]any{"url": target, "max_amount": "0.001"}},
					{"fetch_paid", map[string]any{"url": target, "max_amount": "0.02", "idempotency_key": "order-1"}},
					{"fetch_paid", map[string]any{"url": target, "idempotency_key": "order-1"}},
					{"fetch_paid", map[string]any{"url": target}},
					{"limits", map[string]any{}},
					{"spend", map[string]any{"task": "reports"}},
					{"payments", map[string]any{"limit": 5}},
				}
				got := runMCP(t, cmd, server, calls)
				for i, want := range []struct {
					fails bool
					says  []string
				}{
					{false, []string{`"verdict":"would pay"`, `"price":"0.01 USDC"`, strings.ToLower(s.payTo.Hex())}},
					{true, []string{"not paid: max-amount: 0.01 USDC is above the limit of 0.001 USDC"}},
					{false, []string{`"status":200`, `"amount":"0.01 USDC"`, `"transaction":"0x`, "sunny"}},
					{true, []string{"not paid: paid-before: this was paid before"}}, // the seller keeps no answers
					{true, []string{"not paid: daily-budget: 0.01 USDC would pass the daily budget of 0.015 USDC"}},
					{false, []string{`"left":"0.005 USDC"`}},
					{false, []string{`"amount":"0.01 USDC"`, `"task":"reports"`}},
					{false, []string{`"state":"settled"`}},
				} {
					r := got[i]
					if r.Error != want.fails {
						t.Errorf("%d, %s: %+v", i, calls[i].Name, r)
					}
					for _, words := range want.says {
						if !strings.Contains(strings.ToLower(r.Text), strings.ToLower(words)) {
							t.Errorf("%d, %s: no %q in %s", i, calls[i].Name, words, r.Text)
						}
					}
					if strings.Contains(r.Text+string(r.Structured), agent.key) {
						t.Errorf("%d: the key is in %s", i, r.Text)
					}
				}
				agent.requireSettled(t, s.payTo, 1)
			})
		}
	}
}

// An agent gives up a call after the payment has left, by cancelling it or by ending the server, and calls again. The
// order is paid once, with an idempotency key and without.
func TestMCPCallRepeated(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, ends := range map[string]bool{"cancelled": false, "input closed": true} {
		for keyName, key := range keyed() {
			t.Run(name+" "+keyName, func(t *testing.T) {
				t.Parallel()
				payer, relay := p.newPayer(t), startRelay(t, env.v2.url)
				trap := relay.set(paidRequest, nothing)
				arguments := map[string]any{"url": relay.url + getPaid.path}
				if key != "" {
					arguments["idempotency_key"] = key
				}
				call := &mcp.CallToolParams{Name: "fetch_paid", Arguments: arguments}
				first, input := payer.connectMCP(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					if <-trap.sprung; ends {
						_ = input.Close()
						return
					}
					cancel()
				}()
				if got, err := first.CallTool(ctx, call); err == nil {
					t.Fatalf("the answer was not lost: %+v", got)
				}
				second, _ := payer.connectMCP(t)
				got, err := second.CallTool(t.Context(), call)
				if err != nil || !got.IsError {
					t.Fatalf("%v: %+v", err, got)
				}
				if text := got.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, "not paid: paid-not-delivered") {
					t.Error(text)
				}
				payer.requireOnce(t, env.v2.payTo)
			})
		}
	}
}

// Without a key the exec key pays, which comes from the admin socket, as with `purser exec`.
func TestMCPWithExecKey(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	session, _ := p.connectMCP(t, "--admin", p.Admin())
	got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "limits"})
	if err != nil || got.IsError {
		t.Fatalf("%v: %+v", err, got)
	}
	text := got.Content[0].(*mcp.TextContent).Text
	if !strings.Contains(text, `"pays":true`) || strings.Contains(text, "pk_") {
		t.Error(text)
	}
}

// connectMCP starts `purser mcp` with a payer's key.
func (p *payer) connectMCP(t *testing.T) (session *mcp.ClientSession, input io.Closer) {
	t.Helper()
	return p.purser.connectMCP(t, "--key", p.key, "--proxy", "http://"+p.host)
}

// connectMCP starts `purser mcp`. The test ends it by closing its input, if it does not do so before.
func (p *purser) connectMCP(t *testing.T, flags ...string) (session *mcp.ClientSession, input io.Closer) {
	t.Helper()
	cmd := exec.Command(p.Binary, append([]string{"mcp"}, flags...)...)
	cmd.Env = p.Environment()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("purser mcp: %v", err)
		}
	})
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	if session, err = client.Connect(t.Context(), &mcp.IOTransport{Reader: stdout, Writer: stdin}, nil); err != nil {
		t.Fatal(err)
	}
	return session, stdin
}

// serveMCP returns the command of a server on stdio as a client wants it, or the URL of one that runs.
func (p *purser) serveMCP(t *testing.T, transport string, command []string) string {
	t.Helper()
	if transport == "stdio" {
		text, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	cmd := exec.Command(command[0], append(command[1:], "--listen", "127.0.0.1:0")...)
	cmd.Env = p.Environment()
	running, line, err := process.Announced(cmd, func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(syscall.SIGTERM); err != nil {
			t.Errorf("purser mcp: %v\n%s", err, running.Log.End())
		}
	})
	return strings.TrimPrefix(line, "MCP at ")
}

// runMCP makes a client call tools, and returns what it got.
func runMCP(t *testing.T, cmd *exec.Cmd, server string, calls []mcpCall) []mcpResult {
	t.Helper()
	text, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = process.Environment("SERVER="+server, "CALLS="+string(text))
	stdout, stderr := runAgent(t, cmd)
	var got struct {
		Tools   []string
		Results []mcpResult
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Results) != len(calls) {
		t.Fatalf("%v: %s\n%s", err, stdout, stderr)
	}
	if tools := strings.Join(got.Tools, " "); tools != "fetch_paid limits payments quote spend" {
		t.Errorf("tools: %s", tools)
	}
	return got.Results
}
