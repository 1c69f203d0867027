package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
)

// buy makes an order through the proxy.
func (p *payer) buy(t *testing.T, o order, target string) answer {
	t.Helper()
	return send(t, p.proxied(), o.method, target, o.body)
}

// curlCommand returns curl's command line for an order. It dumps headers to its standard error.
func curlCommand(o order, target string) []string {
	command := []string{"curl", "-sS", "-m", "60", "-X", o.method, "-D", "/dev/stderr"}
	if o.body != "" {
		command = append(command, "-H", "Content-Type: application/json", "--data-binary", o.body)
	}
	return append(command, target)
}

// curled reads the last answer that curl got. Answers of a tunnel come before it.
func curled(t *testing.T, stdout, stderr string) answer {
	t.Helper()
	last := strings.Replace(stderr[strings.LastIndex("\n"+stderr, "\nHTTP/"):], "HTTP/2 ", "HTTP/2.0 ", 1)
	res, err := http.ReadResponse(bufio.NewReader(strings.NewReader(last)), nil)
	if err != nil {
		t.Fatalf("%v in %q", err, stderr)
	}
	return answer{Status: res.StatusCode, Header: res.Header, Body: stdout}
}

// wgetCommand returns wget's command line for an order. Its status 8 is an error status of the server.
func wgetCommand(t *testing.T, o order, target string) []string {
	t.Helper()
	if _, err := exec.LookPath("wget"); err != nil {
		needed.Missing(t, "no wget")
	}
	command := []string{"sh", "-c", `wget "$@" || test $? = 8`, "sh", "-q", "-S", "-O", "-", "--content-on-error", "--tries=1", "--timeout=60", "--method=" + o.method}
	if o.body != "" {
		command = append(command, "--header=Content-Type: application/json", "--body-data="+o.body)
	}
	return append(command, target)
}

// wgot reads the answer that wget got: it prints headers with a margin.
func wgot(t *testing.T, stdout, stderr string) answer {
	t.Helper()
	var lines strings.Builder
	for line := range strings.Lines(stderr) {
		if header, is := strings.CutPrefix(line, "  "); is {
			lines.WriteString(header)
		}
	}
	return curled(t, stdout, lines.String()+"\n")
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

// decodeAgent reads the line in which an agent says what it got.
func decodeAgent(t *testing.T, line, _ string) answer {
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
	return answer{Status: got.Status, Header: header, Body: got.Body}
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
