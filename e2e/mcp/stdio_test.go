package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

// streamBuyer is an agent whose configuration has `purser mcp run` in the place of a server.
type streamBuyer struct {
	*process.Purser
	key, keyFile, folder string
	wallet               x402.Address
}

// newStreamBuyer makes a key with a limit for a day, in a file.
func newStreamBuyer(t *testing.T, p *process.Purser, budget string, options ...string) *streamBuyer {
	t.Helper()
	var made adminapi.CreatedKey
	out := p.Must(t, append([]string{"keys", "create", "--label", strings.ReplaceAll(t.Name(), "/", " "), "--daily-budget", budget, "--wallet", "new", "--json"}, options...)...)
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Address == nil {
		t.Fatalf("%v: %s", err, out)
	}
	wallet, err := x402.ParseAddress(*made.Address)
	if err != nil {
		t.Fatal(err)
	}
	env.fund(t, wallet)
	b := &streamBuyer{Purser: p, key: made.Key, folder: t.TempDir(), wallet: wallet}
	b.keyFile = filepath.Join(b.folder, "agent.key")
	if err := os.WriteFile(b.keyFile, []byte(made.Key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// command is the server as the client's configuration has it.
func (b *streamBuyer) command(t *testing.T, variables ...string) *exec.Cmd {
	t.Helper()
	seller, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return b.wraps([]string{seller}, variables...)
}

// wraps is `purser mcp run` with a server's command.
func (b *streamBuyer) wraps(server []string, variables ...string) *exec.Cmd {
	cmd := exec.Command(b.Binary, append([]string{
		"mcp", "run", "--key-file", b.keyFile, "--proxy", "http://" + b.Host(), "--name", "weather", "--state", filepath.Join(b.folder, "state"), "--",
	}, server...)...)
	cmd.Env = b.Environment(append([]string{
		sellsOnStreams + "=1", sellerFolder + "=" + b.folder, "FACILITATOR_URL=" + env.Money.FacilitatorURL(), "PAY_TO=" + env.Money.PayTo.String(),
	}, variables...)...)
	return cmd
}

// connect has the official client for Go start the server.
func connectTo(t *testing.T, cmd *exec.Cmd) *sdk.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func askWeather(ctx context.Context, s *sdk.ClientSession, name, city string) (text string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := s.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: map[string]string{"city": city}})
	if err != nil {
		return "", false, err
	}
	said, is := got.Content[0].(*sdk.TextContent)
	if !is {
		return "", got.IsError, errors.New("the result has no text")
	}
	return said.Text, got.IsError, nil
}

func requireWeather(t *testing.T, s *sdk.ClientSession, city string) {
	t.Helper()
	if text, failed, err := askWeather(t.Context(), s, "get_weather", city); err != nil || failed || text != "sunny in "+city {
		t.Fatalf("%q, %v", text, err)
	}
}

// requireDebits fails unless the chain and the books have so many payments of the price.
func (b *streamBuyer) requireDebits(t *testing.T, n int) {
	t.Helper()
	from := common.Address(b.wallet.EVM())
	moved, err := env.Money.Chain.Transfers(t.Context(), &from, nil, 0)
	if err != nil || len(moved) != n {
		t.Fatalf("%d debits, not %d: %v", len(moved), n, err)
	}
	process.Eventually(t, time.Minute, func() string {
		got, err := process.Ask(t.Context(), process.Client(nil, nil), "GET", b.URL("/v1/payments?limit=100&state=settled"), "", "X-Api-Key", b.key)
		var list struct {
			Payments []struct {
				URL string `json:"request_url"`
			}
		}
		if err == nil {
			err = got.Decode(http.StatusOK, &list)
		}
		if err != nil {
			return err.Error()
		}
		if len(list.Payments) != n || n > 0 && list.Payments[0].URL != "mcp://weather.stdio/tool/get_weather" {
			return "the books: " + got.Body
		}
		return ""
	})
}

// streamPurser is a purser for the tests of servers on standard streams.
func streamPurser(t *testing.T) *process.Purser {
	t.Helper()
	p := process.NewPurser(t, process.Program(t, process.Plain), filepath.Join(t.TempDir(), "data"),
		"PURSER_RPC_URL="+env.Money.RPCURL(), "PURSER_FACILITATOR_URL="+env.Money.FacilitatorURL(), "PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=off")
	p.Start(t)
	return p
}

// An official client buys from a server on standard streams: calls, results, runs and debits are the same, until the
// budget ends. A free tool costs nothing. The exit status is the server's.
func TestStreams(t *testing.T) {
	t.Parallel()
	p := streamPurser(t)
	b := newStreamBuyer(t, p, "0.035")
	cmd := b.command(t)
	s := connectTo(t, cmd)
	for range 3 {
		requireWeather(t, s, "Kiel")
	}
	if text, failed, err := askWeather(t.Context(), s, "get_weather", "Kiel"); err != nil || !failed || !strings.Contains(text, "purser did not pay: 0.01 USDC would pass the daily budget") {
		t.Errorf("%q, %v", text, err)
	}
	if text, failed, err := askWeather(t.Context(), s, "hello", "Kiel"); err != nil || failed || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	_ = s.Close()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit status %d", got)
	}
	b.requireDebits(t, 3)

	cmd = b.command(t) // and the server gets signals
	s = connectTo(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = s.Wait()
	_ = s.Close()
	if got := cmd.ProcessState.ExitCode(); got != 128+int(syscall.SIGTERM) {
		t.Errorf("exit status %d", got)
	}

	// A rule for one tool, and one for hosts without payees, which mean nothing on REST.
	for rule, want := range map[string]string{
		"--host=mcp://weather.stdio/tool/get_weather=max:0.001": "payees",
		"--door=proxy": "Developer",
	} {
		other := newStreamBuyer(t, p, "1", rule)
		s := connectTo(t, other.command(t))
		if text, failed, err := askWeather(t.Context(), s, "get_weather", "Kiel"); err != nil || !failed || !strings.Contains(text, want) {
			t.Errorf("%s: %q, %v", rule, text, err)
		}
		_ = s.Close()
		other.requireDebits(t, 0)
	}
}

// The same from the official seller for Python.
func TestStreamsOfAnOfficialSeller(t *testing.T) {
	t.Parallel()
	b := newStreamBuyer(t, streamPurser(t), "1")
	s := connectTo(t, b.wraps([]string{programFor(t, inPython), here("sellers", inPython)}, "STREAMS=1"))
	for range 2 {
		requireWeather(t, s, "Kiel")
	}
	_ = s.Close()
	b.requireDebits(t, 2)
}

// A seller of MPP settles, and asks anew. The client has its answer for one payment, or hears of the payment without one.
func TestStreamsOfASellerThatRotates(t *testing.T) {
	t.Parallel()
	p := streamPurser(t)
	for denials, delivers := range map[string]bool{"0": true, "2": true, "3": false} {
		t.Run(denials, func(t *testing.T) {
			t.Parallel()
			b := newStreamBuyer(t, p, "1")
			s := connectTo(t, b.command(t, sellerCharges+"="+denials))
			text, failed, err := askWeather(t.Context(), s, "get_weather", "Kiel")
			if err != nil || failed == delivers || delivers && text != "sunny in Kiel" || !delivers && !strings.Contains(text, "the server asks for money again") {
				t.Errorf("%q, %v", text, err)
			}
			_ = s.Close()
			b.requireDebits(t, 1)
		})
	}
}

// `purser mcp run` is killed after the payment, before the answer. The agent's equal call in the next run has the answer,
// for the same payment; the one after that is a purchase.
func TestStreamsKilledBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	b := newStreamBuyer(t, streamPurser(t), "1")
	cmd := b.command(t, sellerHangs+"=1")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	s := connectTo(t, cmd)
	answered := make(chan error, 1)
	go func() {
		_, _, err := askWeather(context.WithoutCancel(t.Context()), s, "get_weather", "Kiel")
		answered <- err
	}()
	for lines := bufio.NewScanner(said); lines.Scan() && lines.Text() != "settled"; {
		t.Log(lines.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err == nil {
		t.Fatal("the call has an answer")
	}
	_, _ = io.Copy(io.Discard, said)
	_ = s.Close()
	again := connectTo(t, b.command(t))
	requireWeather(t, again, "Kiel")
	b.requireDebits(t, 1)
	requireWeather(t, again, "Kiel")
	_ = again.Close()
	b.requireDebits(t, 2)
}
