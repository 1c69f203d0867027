package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/failpoint"
)

// examined is the output of `purser-sandbox attack --json`.
type examined struct {
	TestBuild bool `json:"test_build"`
	Findings  []struct {
		Group, Attack, Result, Says string
		Story                       []string
		Seconds                     float64
	}
	Held, Failed, Off, Unmade int
	Seconds                   float64
}

// names are the attacks with a result.
func (e examined) names(result string) (list []string) {
	for _, f := range e.Findings {
		if f.Result == result {
			list = append(list, f.Attack)
		}
	}
	return list
}

// consult runs `purser-sandbox attack` against a purser, with the configuration that people start from,
// in a folder that is not the user's.
func consult(t *testing.T, binary string, environ []string, arguments ...string) (stdout, stderr string, status int) {
	t.Helper()
	dir := t.TempDir()
	scratch := filepath.Join(dir, "tmp")
	if err := os.Mkdir(scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(env.ctx, 4*time.Minute)
	defer cancel()
	if !slices.Contains(arguments, "/nowhere") {
		arguments = append(arguments, filepath.Join(process.Root(), "xcaddy.Caddyfile"))
	}
	cmd := exec.CommandContext(ctx, process.Program(t, process.Offline), append([]string{"attack", "--purser", binary}, arguments...)...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(process.Environment(environ...), "TMPDIR="+scratch)
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	for _, folder := range []string{dir, scratch} {
		left, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range left {
			if folder == scratch || one.Name() != "tmp" {
				t.Errorf("it left %s in %s", one.Name(), folder)
			}
		}
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// examine is consult with --json.
func examine(t *testing.T, binary string, environ []string, arguments ...string) (examined, int) {
	t.Helper()
	stdout, stderr, status := consult(t, binary, environ, append([]string{"--json"}, arguments...)...)
	var e examined
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatalf("status %d, %v in %q\n%s", status, err, stdout, stderr)
	}
	return e, status
}

// The shipped configuration holds against everything, and says so in all words.
func TestAttackOnADefaultInstallation(t *testing.T) {
	t.Parallel()
	binary := process.Program(t, process.Plain)
	listed, _, status := consult(t, binary, nil, "--list")
	if status != 0 {
		t.Fatalf("--list: status %d", status)
	}
	// The doctor neither uses nor tells the user's settings.
	e, status := examine(t, binary, []string{
		"PURSER_RPC_URL=http://127.0.0.1:9", "PURSER_FACILITATOR_URL=http://127.0.0.1:9", "PURSER_MASTER_KEY=not a key at all",
	})
	if status != 0 || e.Failed != 0 || e.Off != 0 || e.Unmade != 0 || e.TestBuild {
		t.Errorf("status %d: %d failed, %d off, %d unmade, test build %v", status, e.Failed, e.Off, e.Unmade, e.TestBuild)
		for _, f := range e.Findings {
			if f.Result != "ok" {
				t.Logf("%s %s: %s\n%s", f.Result, f.Attack, f.Says, strings.Join(f.Story, "\n"))
			}
		}
	}
	if n := strings.Count(listed, "\n") - 1; len(e.Findings) != n || n < 30 {
		t.Errorf("%d findings, %d attacks", len(e.Findings), n)
	}
	t.Logf("%d attacks took %.1f s", len(e.Findings), e.Seconds)
}

// As it comes, strangers who reach purser make keys once it listens for others; TestAttackOnTheComposeFile has it as it is
// deployed.
func TestAttackOnAnOpenPort(t *testing.T) {
	t.Parallel()
	e, status := examine(t, process.Program(t, process.Plain), []string{"PURSER_BIND=0.0.0.0"}, "--only", "registration", "--only", "failing-flood")
	if status != 1 || !slices.Equal(e.names("ok"), []string{"failing-flood"}) || !slices.Equal(e.names("FAIL"), []string{"registration"}) {
		t.Errorf("status %d: %+v", status, e.Findings)
	}
}

// A protection that is switched off is missed, by the attack that it protects from and not by another one.
func TestAttackMissesWhatIsOff(t *testing.T) {
	t.Parallel()
	binary := process.Program(t, process.Failpoints)
	for _, c := range []struct{ off, fails, holds string }{
		{failpoint.Repeats, "answer-lost", "wrong-token"},
		{failpoint.Repeats, "seller-hangs-up", "no-time"},
		{failpoint.Repeats, "twice-at-once", "no-key"},
		{failpoint.Journal, "killed", "no-key"},
		{failpoint.Evidence, "answer-lost", "price-above-limit"},
		{failpoint.Limits, "price-above-limit", "wrong-token"},
		{failpoint.Limits, "daily-budget", "wrong-amount"},
		{failpoint.Limits, "limits-on-rest", "wrong-token"},
		{failpoint.Limits, "shared-budget", "no-time"},
		{failpoint.Guard, "private-addresses", "key-to-seller"},
		{failpoint.Guard, "own-listeners", "no-key"},
		{failpoint.Strip, "key-to-seller", "private-addresses"},
		{failpoint.Browsers, "rebinding", "key-flood"},
		{failpoint.Browsers, "cross-site", "config-secrets"},
		{failpoint.Floods, "key-flood", "cross-site"},
		{failpoint.Rooms, "uploads", "key-flood"},
	} {
		t.Run(c.off+"/"+c.fails, func(t *testing.T) {
			t.Parallel()
			e, status := examine(t, binary, []string{failpoint.SwitchedOff + "=" + c.off}, "--only", c.fails, "--only", c.holds)
			if status != 1 || !slices.Equal(e.names("FAIL"), []string{c.fails}) || !slices.Equal(e.names("ok"), []string{c.holds}) || !e.TestBuild {
				t.Errorf("status %d, test build %v: %+v", status, e.TestBuild, e.Findings)
			}
			for _, f := range e.Findings {
				if f.Result == "FAIL" && len(f.Story) == 0 {
					t.Errorf("%s has no story", f.Attack)
				}
			}
		})
	}
}

// A test build is not called healthy without a word, whatever holds.
func TestAttackOfATestBuild(t *testing.T) {
	t.Parallel()
	stdout, _, status := consult(t, process.Program(t, process.Failpoints), nil, "--only", "rebinding")
	if status != 0 || strings.Count(stdout, "THIS IS A TEST BUILD") != 1 || !strings.Contains(stdout, "test build, which must not handle money") {
		t.Errorf("status %d: %s", status, stdout)
	}
}

// The attack tells an installation that it cannot examine from one that is not healthy.
func TestAttackThatCannot(t *testing.T) {
	t.Parallel()
	binary := process.Program(t, process.Plain)
	for name, c := range map[string]struct {
		environ   []string
		arguments []string
		want      string
	}{
		"no such attack":               {nil, []string{"--only", "kill"}, "--list"},
		"no such file":                 {nil, []string{"/nowhere"}, "/nowhere"},
		"no such flag":                 {nil, []string{"--nothing", "x"}, "--help"},
		"no such program":              {nil, []string{"--purser", "/nowhere/purser"}, "/nowhere/purser"},
		"a configuration that is bad":  {[]string{"PURSER_MAX_PAYMENT=lots"}, nil, "PURSER_MAX_PAYMENT"},
		"too little time":              {nil, []string{"--timeout", "4s", "--only", "answer-lost"}, "time limit of 4s"},
		"too little time for anything": {nil, []string{"--timeout", "1ms"}, "time limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, status := consult(t, binary, c.environ, c.arguments...)
			if status != 2 || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("status %d, %q, %q", status, stdout, stderr)
			}
		})
	}
}
