package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// agent is a program that can be told to use a proxy and knows nothing of payments.
type agent func(t *testing.T, p *payer, o order, target string) answer

// agents returns the HTTP clients that every developer has. Each talks to a proxy in its own way.
func agents() map[string]agent {
	return map[string]agent{"go": goAgent, "curl": curlAgent, "urllib": urllibAgent, "requests": requestsAgent, "node": nodeAgent}
}

func goAgent(t *testing.T, p *payer, o order, target string) answer {
	return send(t, p.proxied(), o.method, target, o.body)
}

func curlAgent(t *testing.T, p *payer, o order, target string) answer {
	return curl(t, p, o, target)
}

// curl runs curl through the proxy; more are further arguments.
func curl(t *testing.T, p *payer, o order, target string, more ...string) answer {
	t.Helper()
	arguments := []string{"-sS", "-x", p.proxyURL().String(), "-X", o.method, "-D", "/dev/stderr", "-m", "60"}
	if o.body != "" {
		arguments = append(arguments, "-H", "Content-Type: application/json", "--data-binary", o.body)
	}
	stdout, stderr := runAgent(t, exec.Command("curl", append(append(arguments, more...), target)...))
	return answer{header: lastHeaders(stderr), status: lastStatus(t, stderr), body: stdout}
}

// lastResponse cuts the last response out of the headers that curl dumped, of which those of a tunnel come first.
func lastResponse(dump string) string {
	return dump[strings.LastIndex("\n"+dump, "\nHTTP/"):]
}

// lastStatus reads the status of the last response in what curl dumped.
func lastStatus(t *testing.T, dump string) int {
	t.Helper()
	if fields := strings.Fields(lastResponse(dump)); len(fields) > 1 {
		if status, err := strconv.Atoi(fields[1]); err == nil {
			return status
		}
	}
	t.Fatalf("no status in %q", dump)
	return 0
}

// lastHeaders reads the headers of the last response in what curl dumped.
func lastHeaders(dump string) http.Header {
	header := http.Header{}
	for line := range strings.Lines(lastResponse(dump)) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ": "); found {
			header.Add(name, value)
		}
	}
	return header
}

const urllibProgram = `
import json, os, urllib.error, urllib.request
e = os.environ
data = e["BODY"].encode() or None
req = urllib.request.Request(e["URL"], data, {"Content-Type": "application/json"} if data else {}, method=e["METHOD"])
try:
    res = urllib.request.urlopen(req, timeout=60)
except urllib.error.HTTPError as error:
    res = error
print(json.dumps({"status": res.status, "headers": dict(res.headers), "body": res.read().decode()}))
`

const requestsProgram = `
import json, os, requests
e = os.environ
kind = {"Content-Type": "application/json"} if e["BODY"] else {}
res = requests.request(e["METHOD"], e["URL"], data=e["BODY"] or None, headers=kind, timeout=60)
print(json.dumps({"status": res.status_code, "headers": dict(res.headers), "body": res.text}))
`

// python is the interpreter with the packages of requirements.txt, if there is one.
func python() string {
	if own, err := filepath.Abs(".venv/bin/python3"); err == nil {
		if _, err := os.Stat(own); err == nil {
			return own
		}
	}
	return "python3"
}

func urllibAgent(t *testing.T, p *payer, o order, target string) answer {
	return pythonAgent(t, urllibProgram, p, o, target)
}

func requestsAgent(t *testing.T, p *payer, o order, target string) answer {
	requireModule(t, "requests")
	return pythonAgent(t, requestsProgram, p, o, target)
}

// pythonAgent runs a Python program that learns of the proxy as most do, from its environment. Python's libraries send
// no credentials at all unless there is a password; to purser it is the name of a task.
func pythonAgent(t *testing.T, program string, p *payer, o order, target string) answer {
	t.Helper()
	proxy := p.proxyURL()
	proxy.User = url.UserPassword(p.key, "python")
	cmd := exec.Command(python(), "-c", program)
	cmd.Env = process.Environment(assignments(map[string]string{
		"http_proxy": proxy.String(), "URL": target, "METHOD": o.method, "BODY": o.body,
	})...)
	stdout, _ := runAgent(t, cmd)
	return decodeAgent(t, stdout)
}

func nodeAgent(t *testing.T, p *payer, o order, target string) answer {
	var got json.RawMessage
	runPeer(t, "agent.mjs", map[string]string{
		"PROXY": p.proxyURL().String(), "URL": target, "METHOD": o.method, "BODY": o.body,
	}, &got)
	return decodeAgent(t, string(got))
}

// decodeAgent reads the line in which an agent says what it got.
func decodeAgent(t *testing.T, line string) answer {
	t.Helper()
	var got struct {
		Status  int
		Headers map[string]string
		Body    string
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	header := http.Header{}
	for name, value := range got.Headers {
		header.Set(name, value)
	}
	return answer{got.Status, header, got.Body}
}

// runAgent runs a program to its end, which must be a good one.
func runAgent(t *testing.T, cmd *exec.Cmd) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if cmd.Env == nil {
		cmd.Env = process.Environment()
	}
	bounded := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bounded.Env = cmd.Env
	var out, errs bytes.Buffer
	bounded.Stdout, bounded.Stderr = &out, &errs
	if err := bounded.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", cmd.Path, err, out.String(), errs.String())
	}
	return out.String(), errs.String()
}
