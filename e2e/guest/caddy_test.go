package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

const runTime = 20 * time.Second

// server is one of the two programs, with a folder, ports and a home of its own.
type server struct {
	program, dir string
	site, admin  int
	running      *process.Process
	log          *process.Log
}

func newServer(t *testing.T, program string) *server {
	t.Helper()
	ports := process.Ports(t, 2)
	s := &server{program: program, dir: t.TempDir(), site: ports[0], admin: ports[1]}
	s.write(t, "Caddyfile", fmt.Sprintf("http://127.0.0.1:%d {\n\trespond \"said {$WORD:nothing}\"\n}\n", s.site))
	s.write(t, "broken", "http://127.0.0.1:1 {\n\tresponds x\n}\n")
	s.write(t, "unmade", "http://127.0.0.1:1 {\n\troot nowhere\n\tfile_server {\n\t\tprecompressed nonsense\n\t}\n}\n")
	s.write(t, "taken", fmt.Sprintf("http://192.0.2.1:%d {\n\tbind 192.0.2.1\n\trespond x\n}\n", s.site))
	s.write(t, "vars", "WORD=file\n")
	s.write(t, "purser.env", "WORD=purser\nPURSER_PORT=1\n")
	return s
}

func (s *server) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *server) prepare(ctx context.Context, environ []string, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.program, arguments...) //nolint:gosec // a program of this test
	cmd.Dir = s.dir
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "CADDY_ADMIN=localhost:" + strconv.Itoa(s.admin),
	}, environ...)
	return cmd
}

// do runs a command to its end and returns what it said, and its exit status, in words that are the same for both programs.
func (s *server) do(t *testing.T, environ []string, arguments ...string) string {
	t.Helper()
	return s.given(t, "", environ, arguments...)
}

func (s *server) given(t *testing.T, stdin string, environ []string, arguments ...string) string {
	t.Helper()
	status, stdout, stderr := s.verbatim(t, stdin, environ, arguments...)
	return fmt.Sprintf("status %d\n%s\n--\n%s", status, s.same(stdout), sorted(s.same(stderr)))
}

// verbatim runs a command to its end and returns its exit status, and what it said, with every digit in it.
func (s *server) verbatim(t *testing.T, stdin string, environ []string, arguments ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	cmd := s.prepare(ctx, environ, arguments...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if _, is := errors.AsType[*exec.ExitError](err); err != nil && !is {
		t.Fatalf("%v: %v", arguments, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// changes lists what changes from run to run.
var changes = []struct {
	of   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`"ts":[0-9.]+`), `"ts":0`},
	{regexp.MustCompile(`"pid":[0-9]+`), `"pid":0`},
	{regexp.MustCompile(`pid=[0-9]+`), `pid=0`},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+->`), "client->"},
	{regexp.MustCompile(`"remote_port":"[0-9]+"`), `"remote_port":"0"`},
	{regexp.MustCompile(`"(GOMEMLIMIT|previous)":[0-9]+`), `"$1":0`},
	{regexp.MustCompile(`0x[0-9a-f]{6,}`), "0x0"},
	{regexp.MustCompile(`"origins":\[[^}]*`), `"origins":[]`},
	{regexp.MustCompile(`"headers":\{[^}]*\}`), `"headers":{}`},
	{regexp.MustCompile(`"(duration|instance|since|last_clean|try_again|try_again_in)":[^,}]+`), `"$1":0`},
}

// same replaces what differs between the two programs in any case.
func (s *server) same(text string) string {
	text = strings.NewReplacer(s.dir, "DIR", s.program, "PROGRAM", strconv.Itoa(s.site), "SITE", strconv.Itoa(s.admin), "ADMIN").Replace(text)
	for _, c := range changes {
		text = c.of.ReplaceAllString(text, c.with)
	}
	return text
}

// run starts the server and waits until its site answers.
func (s *server) run(t *testing.T, environ []string, arguments ...string) {
	t.Helper()
	s.log = new(process.Log)
	var err error
	if s.running, err = process.Run(s.prepare(context.Background(), environ, append([]string{"run"}, arguments...)...), s.log, nil); err != nil {
		t.Fatal(err)
	}
	s.running.Cleanup(t)
	if err := s.running.Await(s.url()); err != nil {
		t.Fatalf("%v\n%s", err, s.log.End())
	}
}

func (s *server) url() string { return fmt.Sprintf("http://127.0.0.1:%d/", s.site) }

// says returns what the site answers.
func (s *server) says(t *testing.T) string {
	t.Helper()
	a, err := process.Ask(t.Context(), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: runTime}, http.MethodGet, s.url(), "")
	if err != nil {
		return s.same(err.Error())
	}
	return strconv.Itoa(a.Status) + " " + a.Body
}

// logged returns what the server has said until its end.
func (s *server) logged(t *testing.T) string {
	t.Helper()
	<-s.running.Done
	return sorted(s.same(s.log.String()))
}

// cleaning matches lines of what Caddy does when it has time.
var cleaning = regexp.MustCompile(`"logger":"tls","msg":"(cleaning storage|finished cleaning|storage cleaning)`)

// sorted returns the lines of a log, each once: parts of one Caddy start and end side by side.
func sorted(log string) string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(log), "\n"), cleaning.MatchString)
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

// step is something that a program did, and how that went.
type step struct{ what, went string }

// older starts the admin endpoint of another Caddy, which knows no command and writes down what it is asked.
func older(t *testing.T) (address string, asked func() string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // one that breaks off differs in what is written down
		mu.Lock()
		list = append(list, fmt.Sprint(r.Method, " ", r.URL, r.Header, string(body)))
		mu.Unlock()
		http.Error(w, `{"error":"an older Caddy"}`, http.StatusTeapot)
	}))
	t.Cleanup(s.Close)
	address = s.Listener.Addr().String()
	return address, func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.ReplaceAll(strings.Join(list, "\n"), address, "OLDER")
	}
}

// everything has a program do all that concerns no purser.
func (s *server) everything(t *testing.T) (steps []step) {
	t.Helper()
	add := func(what, went string) { steps = append(steps, step{what, went}) }
	do := func(environ []string, arguments ...string) {
		t.Helper()
		add(s.same(fmt.Sprint(environ, arguments)), s.do(t, environ, arguments...))
	}
	for _, command := range []string{
		"run", "start", "stop", "reload", "validate", "adapt", "upgrade", "add-package", "remove-package", "version", "environ", "fmt", "trust", "untrust",
		"file-server", "reverse-proxy", "respond", "hash-password", "storage", "manpage", "completion", "list-modules", "build-info",
	} {
		do(nil, command, "--help")
	}
	for _, command := range []string{"status", "keys", "exec", "init", "nonsense"} {
		do(nil, command)
	}
	do(nil, "version")
	do(nil, "run", "--nonsense")
	for _, command := range []string{"validate", "adapt"} {
		do(nil, command)
		do([]string{"WORD=client"}, command, "--config", "Caddyfile")
		do(nil, command, "--config", "Caddyfile", "--envfile", "vars")
		do(nil, command, "--config", "Caddyfile", "--envfile", "nowhere")
		do(nil, command, "--config", "broken", "--adapter", "caddyfile")
		do(nil, command, "--config", "unmade", "--adapter", "caddyfile")
		do(nil, command, "--config", "nowhere", "--adapter", "caddyfile")
	}
	add("an empty variable", s.given(t, "http://127.0.0.1:1 {\n\trespond \"{$WORD:unset}\"\n}\n", []string{"WORD="}, "adapt", "--config", "-", "--adapter", "caddyfile"))
	do(nil, "run", "--config", "broken", "--adapter", "caddyfile")
	do(nil, "run", "--config", "unmade", "--adapter", "caddyfile")
	do(nil, "run", "--config", "taken", "--adapter", "caddyfile")
	do(nil, "stop")
	do(nil, "reload")

	s.run(t, nil, "--config", "Caddyfile", "--envfile", "vars")
	add("the file of variables", s.says(t))
	do([]string{"WORD=file"}, "reload", "--config", "Caddyfile") // unchanged
	do([]string{"WORD=file"}, "reload", "--config", "Caddyfile", "--force")
	do([]string{"WORD=client"}, "reload")
	add("the client's variables", s.says(t))
	do(nil, "reload", "--config", "broken", "--adapter", "caddyfile")
	do(nil, "reload", "--config", "unmade", "--adapter", "caddyfile")
	do(nil, "reload", "--config", "taken", "--adapter", "caddyfile")
	add("what was before", s.says(t))
	config := fmt.Sprintf("http://127.0.0.1:%d {\n\trespond typed\n}\n", s.site)
	add("reload -", s.given(t, config, nil, "reload", "--config", "-", "--adapter", "caddyfile"))
	add("what was typed", s.says(t))
	do([]string{"CADDY_ADMIN="}, "reload", "--config", "Caddyfile", "--address", fmt.Sprintf("localhost:%d", s.admin))
	add("no variable", s.says(t))
	address, asked := older(t)
	for _, command := range [][]string{{"reload", "--config", "Caddyfile"}, {"reload", "--force"}, {"stop"}} {
		add(fmt.Sprint("older", command), strings.ReplaceAll(s.do(t, nil, append(command, "--address", address)...), address, "OLDER"))
	}
	s.write(t, "elsewhere", "{\n\tadmin "+address+"\n}\n")
	add("older by its file", strings.ReplaceAll(s.do(t, nil, "stop", "--config", "elsewhere", "--adapter", "caddyfile"), address, "OLDER"))
	add("what an older one was asked", s.same(asked()))
	do(nil, "stop")
	add("the log", s.logged(t))
	s.run(t, []string{"WORD=started"}, "--environ")
	if err := s.running.Cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	process.Eventually(t, runTime, func() string {
		if strings.Contains(s.log.String(), "SIGUSR1") {
			return ""
		}
		return "the signal was not noticed"
	})
	if err := s.running.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	add("the exit", fmt.Sprint(s.running.Cmd.ProcessState.ExitCode()))
	return steps
}

// both returns the two programs. PURSER_PLAIN_BIN and PURSER_GUEST_BIN name two that have the same further modules.
func both(t *testing.T) (plain, guest string) {
	t.Helper()
	if plain, guest = os.Getenv("PURSER_PLAIN_BIN"), os.Getenv("PURSER_GUEST_BIN"); plain != "" && guest != "" {
		return plain, guest
	}
	return process.Build(t, "plain", "./e2e/guest/plain"), process.Build(t, "caddy", "./e2e/guest/caddy")
}

// With a configuration that has no purser in it, a Caddy with purser is as one without.
func TestCaddyStaysCaddy(t *testing.T) {
	t.Parallel()
	one, other := both(t)
	plain, guest := newServer(t, one), newServer(t, other)
	var want, got []step
	var each sync.WaitGroup
	each.Go(func() { want = plain.everything(t) })
	each.Go(func() { got = guest.everything(t) })
	each.Wait()
	if len(want) != len(got) {
		t.Fatalf("%d steps, and %d", len(want), len(got))
	}
	for i, w := range want {
		if got[i] != w {
			t.Errorf("%s:\n%s\nin a plain Caddy:\n%s", w.what, got[i].went, w.went)
		}
	}
}

// The help has one line more, and so have completion and manual one command.
func TestOneCommandMore(t *testing.T) {
	t.Parallel()
	one, other := both(t)
	plain, guest := newServer(t, one), newServer(t, other)
	for _, arguments := range [][]string{{"help"}, {"--help"}, {}, {"__complete", ""}} {
		lines := func(s *server) []string { return strings.Split(s.do(t, nil, arguments...), "\n") }
		had := lines(plain)
		more := slices.DeleteFunc(lines(guest), func(line string) bool { return slices.Contains(had, line) })
		if len(more) != 1 || !strings.HasPrefix(strings.TrimSpace(more[0]), "purser") {
			t.Errorf("%v: %q", arguments, more)
		}
	}
	for _, s := range []*server{plain, guest} {
		s.do(t, nil, "manpage", "--directory", "man")
	}
	for _, s := range []*server{plain, guest} {
		found, err := filepath.Glob(filepath.Join(guest.dir, "man", "*"))
		if err != nil || len(found) == 0 {
			t.Fatal(err)
		}
		for _, path := range found {
			name := filepath.Base(path)
			if text, err := os.ReadFile(filepath.Join(s.dir, "man", name)); err != nil != (s == plain && strings.HasPrefix(name, "caddy-purser")) {
				t.Errorf("%s: %v, %d bytes", name, err, len(text))
			}
		}
	}
}

// Caddy's own unit and Caddyfile work: purser lies in Caddy's data directory, and its command finds it as `caddy reload`
// finds Caddy.
func TestPurserInCaddy(t *testing.T) {
	t.Parallel()
	_, program := both(t)
	s := newServer(t, program)
	data := filepath.Join(s.dir, ".local/share/caddy/purser")
	file := func(more string) {
		s.write(t, "Caddyfile", fmt.Sprintf("{\n\tadmin unix/%s/admin.sock\n\tpurser {\n\t\tregistration off\n%s\t}\n}\n"+
			"http://127.0.0.1:%d {\n\trespond /site plain\n\troute /* {\n\t\tpurser_api\n\t}\n}\n", s.dir, more, s.site))
	}
	file("")
	if said := s.do(t, nil, "validate", "--config", "Caddyfile"); !strings.HasPrefix(said, "status 0\n") {
		t.Fatal(said)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("validate has made the data directory")
	}
	s.run(t, nil, "--environ")
	if _, err := os.Stat(filepath.Join(data, "purser.db")); err != nil {
		t.Errorf("%v\n%s", err, s.log.End())
	}
	expect := func(status int, want string, arguments ...string) {
		t.Helper()
		if said := s.do(t, nil, arguments...); !strings.HasPrefix(said, fmt.Sprintf("status %d\n", status)) || !strings.Contains(said, want) {
			t.Errorf("%v: %s", arguments, said)
		}
	}
	expect(0, "DIR/.local/share/caddy/purser/purser.db", "purser", "status")
	expect(0, "caddy purser limits", "purser", "keys", "create", "--label", "agent")
	expect(0, "agent", "purser", "keys", "--config", filepath.Join(s.dir, "Caddyfile"))
	expect(0, "", "reload")
	expect(0, "", "reload", "--force")
	file("\t\tdata_dir " + filepath.Join(s.dir, "empty") + "\n")
	expect(1, "data_dir (PURSER_DATA_DIR) changes from DIR/.local/share/caddy/purser to DIR/empty with a restart only", "reload")
	expect(0, "agent", "purser", "keys", "--admin", "unix/"+filepath.Join(s.dir, "admin.sock"))
	file("")
	expect(0, "", "stop", "--config", "Caddyfile")
	<-s.running.Done
	expect(1, "is purser running", "purser", "status")
}

// With Caddy's default admin endpoint purser starts, and takes no orders there: agents could give them, too.
func TestAdminAtAnAddress(t *testing.T) {
	t.Parallel()
	_, program := both(t)
	s := newServer(t, program)
	for option, want := range map[string][]string{
		"":                  {"status 1\n", "purser takes no orders over TCP", "write `admin unix//", "`admin_over_tcp on`"},
		"admin_over_tcp on": {"status 0\n", "DIR/.local/share/caddy/purser/purser.db"},
	} {
		s.write(t, "Caddyfile", fmt.Sprintf("{\n\tpurser {\n\t\tregistration off\n\t\t%s\n\t}\n}\nhttp://127.0.0.1:%d {\n\tpurser_api\n}\n", option, s.site))
		s.run(t, nil)
		said := s.do(t, nil, "purser", "status")
		for _, part := range want {
			if !strings.Contains(said, part) {
				t.Errorf("%q: %s, want %q", option, said, part)
			}
		}
		s.do(t, nil, "stop")
		<-s.running.Done
	}
}
