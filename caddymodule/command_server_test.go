package caddymodule

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// workplace is a folder with the shipped Caddyfile and a purser.env, where the program purser is used.
type workplace struct {
	dir, ports string
}

func newWorkplace(t *testing.T) *workplace {
	t.Helper()
	w := &workplace{dir: t.TempDir()}
	for _, name := range []string{"PURSER_PORT", "PURSER_UPSTREAM_PORT", "PURSER_METRICS_PORT"} {
		w.ports += fmt.Sprintf("%s=%d\n", name, freePort(t))
	}
	w.write(t, "Caddyfile", shipped(t))
	w.variables(t)
	return w
}

func (w *workplace) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// variables writes purser.env: the ports, and what is given.
func (w *workplace) variables(t *testing.T, lines ...string) {
	t.Helper()
	w.write(t, "purser.env", w.ports+strings.Join(lines, "\n")+"\n")
}

func (w *workplace) prepare(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return inFolder(t, w.dir, []string{asCommand + "=purser"}, args...)
}

// do runs a command to its end.
func (w *workplace) do(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	c := w.prepare(t, args...)
	timer := time.AfterFunc(30*time.Second, func() { _ = c.Process.Kill() }) // such as a server that runs
	defer timer.Stop()
	return finish(t, c)
}

// server is a running purser.
type server struct {
	process *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	text    bytes.Buffer
}

func (s *server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *server) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// run starts a server and waits until it answers.
func (w *workplace) run(t *testing.T, args ...string) *server {
	t.Helper()
	return w.start(t, w.prepare(t, append([]string{"run"}, args...)...))
}

// start is run for a command that was prepared.
func (w *workplace) start(t *testing.T, c *exec.Cmd) *server {
	t.Helper()
	s := &server{process: c, ended: make(chan struct{})}
	s.process.Stdout, s.process.Stderr = s, s
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.process.Wait()
	}()
	t.Cleanup(func() {
		_ = s.process.Process.Kill()
		<-s.ended
	})
	for !strings.Contains(s.said(), "serving initial configuration") {
		select {
		case <-s.ended:
			t.Fatalf("the server ended: %s", s.said())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return s
}

func (s *server) runs() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

func (w *workplace) status(t *testing.T) adminapi.Status {
	t.Helper()
	return decode[cli.Overview](t, w.do(t, "status", "--json").Stdout).Status
}

// A reload takes the variables of purser.env, and forgets those that are gone from it.
func TestReloadTakesTheFile(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.run(t)
	if r := w.status(t).Registration; r == nil || !r.Open {
		t.Fatalf("%+v", r)
	}
	root, err := os.ReadFile(filepath.Join(w.dir, "purser-data", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	w.variables(t, "PURSER_REGISTRATION=off", fmt.Sprintf("PURSER_METRICS_PORT=%d", port))
	said(t, w.do(t, "reload"), 0, "purser.env; changed: PURSER_METRICS_PORT, PURSER_REGISTRATION\n", "")
	if r := w.status(t).Registration; r.Open {
		t.Error("registration is open still")
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err != nil {
		t.Errorf("a listener has not moved: %v", err)
	} else {
		_ = c.Close()
	}
	if err := os.Remove(filepath.Join(w.dir, "purser.env")); err != nil {
		t.Fatal(err)
	}
	w.ports = ""
	if o := w.do(t, "validate"); o.Status != 0 || !strings.Contains(o.Stdout, "Valid configuration") {
		t.Errorf("%+v", o)
	}
	w.variables(t, fmt.Sprintf("PURSER_PORT=%d\nPURSER_UPSTREAM_PORT=%d\nPURSER_METRICS_PORT=%d", freePort(t), freePort(t), port))
	said(t, w.do(t, "reload"), 0, "changed: PURSER_PORT, PURSER_REGISTRATION, PURSER_UPSTREAM_PORT\n", "")
	if r := w.status(t).Registration; !r.Open {
		t.Error("a variable that is gone is in force")
	}
	if now, err := os.ReadFile(filepath.Join(w.dir, "purser-data", "ca.crt")); err != nil || !bytes.Equal(now, root) {
		t.Errorf("another interception root: %v", err)
	}

	// A mistake changes nothing.
	before, _ := os.ReadFile(filepath.Join(w.dir, "purser.env"))
	w.write(t, "purser.env", string(before)+"PURSER_REGISTRATION=off\nPURSER_PLANS=maybe\n")
	o := w.do(t, "reload")
	said(t, o, 1, "", "purser: reload: plans (PURSER_PLANS): ")
	if !strings.Contains(o.Stderr, "purser.env:5") || !strings.Contains(o.Stderr, "nothing was changed") || !w.status(t).Registration.Open {
		t.Errorf("%+v", o)
	}
	w.write(t, "purser.env", string(before)+"nonsense\n")
	said(t, w.do(t, "reload"), 1, "", "purser: reload: the line is not NAME=value, at purser.env:4")
}

// A signal is another way to say reload.
func TestSignalReloads(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	s := w.run(t)
	w.variables(t, "PURSER_REGISTRATION=off")
	if err := s.process.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "registration is off", func() bool { return !w.status(t).Registration.Open })
}

// caddy prepares a command of a Caddy of one's own in the folder.
func (w *workplace) caddy(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	return inFolder(t, w.dir, append([]string{asCommand + "=caddy"}, environ...), args...)
}

// In a Caddy of one's own, purser is one command with all others below it. It finds the admin endpoint as Caddy does, and
// texts have the commands as they are typed there.
func TestCaddyWithPurser(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.run(t)
	as := func(environ []string, args ...string) clitest.Outcome {
		t.Helper()
		return finish(t, w.caddy(t, environ, args...))
	}
	socket := "unix/" + filepath.Join(w.dir, "purser-admin.sock")
	said(t, as(nil, "purser", "status"), 0, w.dir, "")
	said(t, as(nil, "purser", "status", "--config", "Caddyfile", "--envfile", "purser.env"), 0, w.dir, "")
	w.write(t, "other", "{\n\tadmin "+socket+"\n}\n")
	w.write(t, "none", "{\n\tpersist_config off\n}\n")
	said(t, as([]string{"CADDY_ADMIN=localhost:1", "PURSER_ADMIN=unix/nowhere"}, "purser", "status", "-c", "other", "--adapter", "caddyfile"), 0, w.dir, "")
	said(t, as([]string{"CADDY_ADMIN=" + socket}, "purser", "status", "-c", "none", "-a", "caddyfile"), 0, w.dir, "")
	said(t, as(nil, "purser", "status", "-c", "none", "-a", "caddyfile", "--admin", socket), 0, w.dir, "")
	said(t, as(nil, "purser", "status", "-c", "nowhere"), 1, "", "nowhere")
	said(t, as(nil, "purser", "keys", "nothing"), 1, "", "purser: keys: takes no arguments but create")
	said(t, as(nil, "purser", "keys", "nothing"), 1, "", "(caddy purser keys --help)")
	said(t, as(nil, "purser", "wallets", "share", "nothing", "--with", "exec"), 1, "", "'caddy purser wallets' lists them")
	said(t, as(nil, "purser", "nonsense"), 1, "", `purser: there is no command "nonsense" (caddy purser --help)`)
	said(t, as(nil, "status"), 1, "", `unknown command "status"`)
	said(t, as(nil, "purser", "exec", "--", "sh", "-c", "exit 7"), 7, "", "fund")
	for _, args := range [][]string{{"purser"}, {"purser", "--help"}, {"help", "purser"}} {
		o := as(nil, args...)
		said(t, o, 0, "\n  keys  ", "")
		if strings.Contains(o.Stdout, "caddyserver.com") || strings.Contains(o.Stdout, "$ purser") {
			t.Errorf("%v: %s", args, o.Stdout)
		}
	}
	said(t, as(nil, "purser", "keys", "--help"), 0, "$ caddy purser keys create", "")
	said(t, as(nil, "__complete", "purser", "keys", "rev"), 0, "revoke", "ShellCompDirective")
	if made := process(t, nil, "purser", "status"); made.Status != 1 || !strings.Contains(made.Stderr, `unknown command "purser"`) {
		t.Errorf("the program purser: %+v", made)
	}
}

// The data directory of a Caddy of one's own is in Caddy's.
func TestCaddyHasTheDataDirectory(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	data := filepath.Join(w.dir, "share")
	o := finish(t, w.caddy(t, []string{"XDG_DATA_HOME=" + data}, "purser", "check", "--help"))
	said(t, o, 0, "else "+filepath.Join(data, "caddy", "purser")+")", "")
	o = finish(t, w.caddy(t, []string{"XDG_DATA_HOME=" + data}, "purser", "init", "--yes", "--force"))
	said(t, o, 0, "\n    caddy run --envfile purser.env\n", "")
	said(t, o, 0, "\n    caddy purser exec -- curl", "")
	if _, err := os.Stat(filepath.Join(data, "caddy", "purser", "purser.db")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(w.dir, "Caddyfile")); err != nil || !strings.HasPrefix(string(text), "# Made by 'caddy purser init'. Start it in this folder: caddy run --envfile purser.env\n") {
		t.Errorf("%v, %.100s", err, text)
	}
}

func TestStopEndsThePurserOfThisFolder(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	s := w.run(t)
	pid := w.status(t).Process
	if pid != s.process.Process.Pid {
		t.Errorf("pid %d, want %d", pid, s.process.Process.Pid)
	}
	said(t, w.do(t, "stop"), 0, fmt.Sprintf("Stopped purser (pid %d)", pid), "")
	<-s.ended
	said(t, w.do(t, "stop"), 1, "", "purser: stop: no answer from purser's admin endpoint unix/"+w.dir)
	said(t, w.do(t, "reload"), 1, "", "purser: reload: no answer from purser's admin endpoint unix/"+w.dir)
}

// A plain Caddy on this machine is not touched.
func TestPlainCaddyIsLeftAlone(t *testing.T) {
	t.Parallel()
	plain := &workplace{dir: t.TempDir()}
	plain.write(t, "Caddyfile", fmt.Sprintf("{\n\tadmin localhost:2019\n\tpersist_config off\n}\nhttp://127.0.0.1:%d {\n\trespond plain\n}\n", freePort(t)))
	caddys := plain.run(t)
	w := newWorkplace(t)
	for _, command := range []string{"stop", "reload"} {
		said(t, w.do(t, command), 1, "", "no answer from purser's admin endpoint unix/"+w.dir)
	}
	w.run(t)
	said(t, w.do(t, "reload"), 0, "no variable has changed", "")
	said(t, w.do(t, "stop"), 0, "Stopped", "")
	if !caddys.runs() || !strings.Contains(plain.do(t, "adapt").Stdout, "plain") {
		t.Error("the plain Caddy was ended")
	}
	// Nor is another program, where it is named.
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	w.variables(t, "PURSER_ADMIN="+other.Listener.Addr().String())
	for command, want := range map[string]string{"stop": "is it a purser", "reload": "is it a purser", "run": "another program serves at the admin endpoint"} {
		said(t, w.do(t, command), 1, "", want)
	}
}

// A second run leaves the first its socket. A socket that a killed one has left is taken.
func TestSecondRunLeavesTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	s := w.run(t)
	o := w.do(t, "run")
	said(t, o, 1, "", fmt.Sprintf("a purser (pid %d) runs already, with the admin endpoint unix/%s", s.process.Process.Pid, w.dir))
	if said := w.do(t, "start"); said.Status == 0 || !strings.Contains(said.Stderr, "runs already") {
		t.Errorf("start: %+v", said)
	}
	if w.status(t).Process != s.process.Process.Pid {
		t.Error("the first does not answer")
	}
	if err := s.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if _, err := os.Lstat(filepath.Join(w.dir, "purser-admin.sock")); err != nil {
		t.Fatalf("no socket is left: %v", err)
	}
	again := w.run(t)
	if w.status(t).Process != again.process.Process.Pid {
		t.Error("the second does not answer")
	}
}

// A start lets go of its output while the server runs, and a failed start says why.
func TestStartLetsGo(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.variables(t, "PURSER_DATA_DIR=books")
	c := w.prepare(t, "start")
	c.WaitDelay = 30 * time.Second // it ends with an error where a server keeps the output
	o := finish(t, c)
	log := filepath.Join(w.dir, "books", "purser.log")
	if real, err := filepath.EvalSymlinks(log); err == nil {
		log = real
	}
	pid := w.status(t).Process
	t.Cleanup(func() {
		if p, err := os.FindProcess(pid); err == nil && pid > 0 {
			_ = p.Kill()
		}
	})
	said(t, o, 0, fmt.Sprintf("Started purser (pid %d). Its log is %s\n", pid, log), "")
	text, err := os.ReadFile(log)
	info, statErr := os.Stat(log)
	if err != nil || statErr != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(text), "serving initial configuration") {
		t.Errorf("%v, %v, %s", err, info, text)
	}
	// The variables of the file are the server's to change.
	w.variables(t, "PURSER_DATA_DIR=books", "PURSER_REGISTRATION=off")
	said(t, w.do(t, "reload"), 0, "PURSER_REGISTRATION", "")
	said(t, w.do(t, "start"), 1, "", "runs already")
	said(t, w.do(t, "stop"), 0, fmt.Sprintf("Stopped purser (pid %d)", pid), "")
	w.variables(t, "PURSER_DATA_DIR=books", "PURSER_DAILY_BUDGET=much")
	said(t, w.do(t, "start"), 1, "", "PURSER_DAILY_BUDGET")
}

func TestNothingConfigured(t *testing.T) {
	t.Parallel()
	w := &workplace{dir: t.TempDir()}
	for command, status := range map[string]int{"run": 1, "start": 1, "validate": 1, "doctor": 2} {
		o := w.do(t, command)
		if o.Status != status || o.Stderr != "purser: "+command+": nothing is configured in this folder: 'purser init' sets purser up here, and --config names a configuration elsewhere\n" {
			t.Errorf("%s: %+v", command, o)
		}
	}
	w.write(t, "purser.env", "")
	said(t, w.do(t, "run"), 1, "", "there is no Caddyfile in this folder, only purser.env")
	if made := clitest.Written(t, w.dir); made != "purser.env" {
		t.Errorf("made: %s", made)
	}
}

func TestDoctorExaminesTheInstallation(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.variables(t, "PURSER_DAILY_BUGET=5")
	if err := os.Chmod(filepath.Join(w.dir, "purser.env"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := w.do(t, "doctor")
	said(t, o, 0, "warn  running      no purser runs here", "")
	said(t, o, 0, "warn  variables    PURSER_DAILY_BUGET at ", "")
	w.run(t)
	said(t, w.do(t, "doctor"), 0, "ok    running      purser ", "")
	said(t, w.do(t, "doctor", "--installation"), 0, "\nTo attack a scratch copy of it: purser-sandbox attack\n", "")
	if err := os.Chmod(filepath.Join(w.dir, "purser.env"), 0o644); err != nil { //nolint:gosec // that is what is looked for
		t.Fatal(err)
	}
	said(t, w.do(t, "doctor", "--json"), 1, `"installation": {`, "")
}

func TestUnknownVariablesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.variables(t, "PURSER_DAILY_BUGET=5")
	const want = "PURSER_DAILY_BUGET at "
	o := w.do(t, "validate")
	said(t, o, 0, "Valid configuration", want)
	if strings.Count(o.Stderr, "\n") != 1 {
		t.Errorf("more than the warning: %s", o.Stderr)
	}
	said(t, w.do(t, "doctor"), 0, want, "")
	s := w.run(t)
	if !strings.Contains(s.said(), want) || !strings.Contains(s.said(), "but PURSER_DAILY_BUDGET") {
		t.Errorf("%s", s.said())
	}
	said(t, w.do(t, "reload"), 0, "Reloaded", want)
}

// Errors begin with what is wrong, and end with file and line.
func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	check := func(want string) {
		t.Helper()
		for _, command := range []string{"run", "validate"} {
			o := w.do(t, command)
			last := strings.Split(strings.TrimSpace(o.Stderr), "\n")
			if got := last[len(last)-1]; o.Status != 1 || got != "purser: "+command+": "+want {
				t.Errorf("%s: %d\n%s\nwant %s", command, o.Status, o.Stderr, want)
			}
		}
	}
	w.variables(t, "PURSER_PRICE_GUARD=x")
	check(`price_guard (PURSER_PRICE_GUARD): "x" is neither a positive number nor off, at purser.env:4`)
	w.variables(t, "PURSER_UPSTREAM=x")
	check(`purser_upstream to (PURSER_UPSTREAM): not an absolute http or https URL such as https://api.example.com, at purser.env:4`)
	w.variables(t, "PURSER_UPSTREAM=https://"+strings.Repeat("a", 254)+"/")
	check(`purser_upstream to (PURSER_UPSTREAM): not an absolute http or https URL such as https://api.example.com, at purser.env:4`)
	w.variables(t)
	w.write(t, "Caddyfile", "{\n\tpurser {\n\t\tprice_gard 3\n\t}\n}\n")
	check(`unrecognized subdirective "price_gard", at Caddyfile:3`)
	w.write(t, "Caddyfile", "{\n\tadmin off\n\tpurser {\n\t\tprice_guard x\n\t}\n}\n")
	check(`price_guard (PURSER_PRICE_GUARD): "x" is neither a positive number nor off, at Caddyfile:4`)
}

// A program that purser starts for its user gets nothing of purser.env.
func TestExecKeepsTheFileToItself(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.variables(t, "OTEL_SECRET=secret", "MINE=of the file")
	w.run(t)
	c := w.prepare(t, "exec", "--", "sh", "-c", "echo [$OTEL_SECRET] [$MINE] $HTTPS_PROXY")
	c.Env = append(c.Env, "MINE=of the user")
	if o := finish(t, c); o.Status != 0 || !strings.HasPrefix(o.Stdout, "[] [of the user] http://") {
		t.Errorf("%+v", o)
	}
}

// A purser of another folder names what its own configuration refers to.
func TestExecElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.write(t, "more", "upgrade_url {env.MY_UPGRADE}\n")
	w.write(t, "Caddyfile", strings.Replace(shipped(t), "store {$", "import more\n\t\tstore {$", 1))
	w.variables(t, "MY_UPGRADE=https://u.example")
	w.run(t)
	c := inFolder(t, t.TempDir(), []string{asCommand + "=purser", "MY_UPGRADE=x", "PURSER_STORE=x", "MINE=x"},
		"exec", "--admin", "unix/"+filepath.Join(w.dir, "purser-admin.sock"), "--", "sh", "-c", "echo [$MY_UPGRADE] [$PURSER_STORE] [$MINE]")
	if o := finish(t, c); o.Status != 0 || o.Stdout != "[] [] [x]\n" {
		t.Errorf("%+v", o)
	}
}

func TestVersionIsPursers(t *testing.T) {
	t.Parallel()
	w := &workplace{dir: t.TempDir()}
	said(t, w.do(t, "version"), 0, "purser "+Version()+" (Caddy ", "")
	if o := finish(t, w.caddy(t, nil, "version")); o.Status != 0 || strings.HasPrefix(o.Stdout, "purser") {
		t.Errorf("a Caddy with purser in it: %+v", o)
	}
}
