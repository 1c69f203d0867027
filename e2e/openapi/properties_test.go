package openapi

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/testing/needed"
)

var (
	examples = flag.Int("openapi.examples", 30, "how many requests of each kind are made up for each endpoint")
	longest  = flag.Duration("openapi.max", 0, "how long Schemathesis goes on making them up, again and again; 0 is once")
	seed     = flag.String("openapi.seed", usualSeed, "what the requests are made up from, so that a run can be repeated; random is another one each time")
)

// usualSeed makes every run of the tests the same. make api-fuzz looks for what it misses.
const usualSeed = "402"

// endpoints is the number of described endpoints. All of them must be called.
const endpoints = 15

// report holds the parts of Schemathesis's report that the test reads.
type report struct {
	Operations struct{ Tested, Errored int }
	TestCases  struct{ Generated int } `json:"test_cases"`
	Errors     []json.RawMessage
	Failures   []json.RawMessage
}

// Whatever is sent, with a key, with another's and without one: no 500, nothing undescribed.
func TestProperties(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(filepath.Join(".venv", "bin", "schemathesis"))
	if err != nil {
		t.Fatal(err)
	}
	needed.File(t, "`make e2e-deps` installs Schemathesis from a Python package index", program)
	from := *seed
	if from == "random" {
		from = strconv.FormatUint(rand.Uint64(), 10)
	}
	t.Logf("to repeat this run: go test ./e2e/openapi -run TestProperties -openapi.examples %d -openapi.max %s -openapi.seed %s", *examples, *longest, from)
	s := startSandbox(t)
	s.liftKeyRate()
	var description json.RawMessage
	s.call("GET", "/openapi.json", nil, &description)
	dir := t.TempDir()
	r := runner{t: t, sandbox: s, program: program, seed: from, dir: dir, document: filepath.Join(dir, "openapi.json")}
	write(t, r.document, description)

	var other struct{ Key string }
	s.call("POST", "/api-keys", nil, &other)
	var mine struct{ Wallets []struct{ ID string } }
	s.call("GET", "/wallets/me", nil, &mine)
	r.kept = mine.Wallets[0].ID

	r.run("keyed", *examples, *longest*3/4, fmt.Sprintf("[auth.wfc]\npath = %q\npeers = [\"one\", \"two\"]\n", r.identities(s.Key, other.Key)))
	r.run("stranger", *examples/4, *longest/4, "") // they are all refused

	var health struct{ OK bool }
	if s.call("GET", "/health", nil, &health); !health.OK {
		t.Error("purser is not well afterwards")
	}
	var spent struct{ Events []json.RawMessage }
	s.call("GET", "/v1/spend?limit=500", nil, &spent)
	t.Logf("%d payments were settled", len(spent.Events))
	if len(spent.Events) < 3 {
		t.Errorf("only %d payments were settled: the run proves little about paying", len(spent.Events))
	}
	if _, after, panicked := strings.Cut(s.Log.String(), "panic"); panicked {
		t.Errorf("purser-sandbox panicked:%.5000s", after)
	}
}

// runner runs Schemathesis on one sandbox.
type runner struct {
	t                            *testing.T
	sandbox                      *sandbox
	program, seed, dir, document string
	kept                         string // id of the wallet that is not to be deleted
}

// run calls all endpoints for a while, with the configuration of this folder and more.
func (r runner) run(name string, examples int, longest time.Duration, more string) {
	r.t.Helper()
	shared, err := os.ReadFile("schemathesis.toml")
	if err != nil {
		r.t.Fatal(err)
	}
	hooks, err := filepath.Abs("hooks.py")
	if err != nil {
		r.t.Fatal(err)
	}
	config, told := filepath.Join(r.dir, name+".toml"), filepath.Join(r.dir, name+".json")
	write(r.t, config, fmt.Appendf(nil, "hooks = %q\n%s\n%s", hooks, shared, more))
	arguments := []string{
		"--config-file", config, "run", r.document, "--url", r.sandbox.API, "--max-examples", fmt.Sprint(max(1, examples)),
		"--report", "json", "--report-json-path", told, "--seed", r.seed,
	}
	if longest > 0 {
		arguments = append(arguments, "--max-time", fmt.Sprint(max(1, int(longest.Seconds()))))
	}
	began := time.Now()
	cmd := exec.CommandContext(r.t.Context(), r.program, arguments...)
	cmd.Dir = r.dir // it keeps what it learned there
	cmd.Env = append(os.Environ(), "PURSER_API="+r.sandbox.API, "PURSER_KEEP_WALLET="+r.kept, "PURSER_KEEP_KEY="+r.sandbox.Key, "NO_COLOR=1", "NO_PROXY=*", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s\n\npurser-sandbox said at last:\n%s", name, err, failures(string(out)), r.sandbox.Log.End())
	}
	var got report
	text, err := os.ReadFile(told)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", name, err, failures(string(out)))
	}
	r.t.Logf("%s: %d calls in %s", name, got.TestCases.Generated, time.Since(began).Round(time.Second))
	if got.Operations.Tested != endpoints || got.Operations.Errored > 0 || len(got.Failures)+len(got.Errors) > 0 {
		r.t.Errorf("%s: %d endpoints were called, %d of them failed, %d failures, %d errors\n%s", name, got.Operations.Tested,
			got.Operations.Errored, len(got.Failures), len(got.Errors), failures(string(out)))
	}
}

// identities is the file of the keys to call with.
func (r runner) identities(keys ...string) string {
	type header struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type identity struct {
		Name    string   `json:"name"`
		Headers []header `json:"fixedHeaders"`
	}
	var list []identity
	for i, key := range keys {
		list = append(list, identity{[]string{"one", "two"}[i], []header{{"X-Api-Key", key}}})
	}
	text, err := json.Marshal(map[string]any{"auth": list})
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.dir, "identities.json")
	write(r.t, path, text)
	return path
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// failures are the first failing cases in what Schemathesis said: neither what went well before nor the summary after. When
// it named none, they are the end of what it said.
func failures(said string) string {
	const most, width = 60, 1000
	lines := strings.Split(strings.TrimSpace(said), "\n")
	first := max(0, len(lines)-most)
	for i, line := range lines {
		if strings.HasPrefix(line, "====") && (strings.Contains(line, " FAILURES ") || strings.Contains(line, " ERRORS ")) {
			first = i
			break
		}
	}
	lines = lines[first:min(first+most, len(lines))]
	for i, line := range lines {
		lines[i] = line[:min(len(line), width)]
	}
	return strings.Join(lines, "\n")
}
