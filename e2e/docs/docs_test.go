package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// Every command of README.md and docs/*.md does what it is there for.
func TestCommands(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "curl", "git", "npm", "python3"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("the commands need %s", tool)
		}
	}
	all := pages(t)
	if t.Failed() {
		return
	}
	bin := binaries(t)
	for page, blocks := range all {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			run := 0
			for _, b := range blocks {
				if b.mode != "" {
					run++
				}
			}
			t.Logf("%d blocks, %d are run", len(blocks), run)
			if run == 0 {
				return
			}
			s := newStage(t, bin)
			for _, b := range blocks {
				if b.mode != "" {
					s.run(t, b)
				}
			}
		})
	}
}

// stage is the place where the commands of a page run.
type stage struct {
	bin, dir string
	sandbox  *sandbox
	own      map[string]string // ports of the page's own purser, by their defaults
	address  string            // the last one that was printed
	fresh    bool              // the checkout is there
}

func newStage(t *testing.T, bin string) *stage {
	t.Helper()
	s := &stage{bin: bin, dir: t.TempDir(), sandbox: startSandbox(t, bin), own: map[string]string{}}
	for _, port := range []string{"8402", "8406", "8407"} {
		s.own[port] = process.Port(t)
	}
	text, err := os.ReadFile(filepath.Join(process.Root(), "xcaddy.Caddyfile"))
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "xcaddy.Caddyfile"), text, 0o644)
	}
	if err == nil {
		err = os.Symlink(bin, filepath.Join(s.dir, "bin")) // some pages say bin/purser
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// home gets what operators withdraw.
const home = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

var (
	placedAt = regexp.MustCompile(`(127\.0\.0\.1|localhost|(?:api|tls)\.purser\.test):(\d+)`)
	comment  = regexp.MustCompile(`(?m)(^|\s)#.*$`)
	wallet   = regexp.MustCompile(`0x[0-9a-fA-F]{40}\b`)
)

// script is a block with its placeholders filled in.
func (s *stage) script(t *testing.T, b block) string {
	t.Helper()
	world := map[string]string{
		"02": portOf(t, s.sandbox.API), "03": portOf(t, s.sandbox.Seller), "04": portOf(t, s.sandbox.Facilitator),
		"05": portOf(t, s.sandbox.RPC), "07": portOf(t, s.sandbox.Metrics), "08": portOf(t, s.sandbox.SellerTLS),
	}
	text := placedAt.ReplaceAllStringFunc(b.text, func(at string) string {
		m := placedAt.FindStringSubmatch(at)
		port := ""
		switch base, last := m[2][:2], m[2][2:]; {
		case base == "84" && (b.mode == modeSandbox || b.mode == modeCheckout), base == "94" && b.mode != modeSandbox && b.mode != modeCheckout:
			port = world[last]
		case base == "84":
			port = s.own[m[2]]
		}
		if port == "" {
			t.Errorf("%s: nobody is at %s", b, at)
		}
		return m[1] + ":" + port
	})
	if strings.Contains(comment.ReplaceAllString(text, ""), "0x…") && s.address == "" {
		t.Errorf("%s: no address was printed before", b)
	}
	return strings.NewReplacer(
		"0198…", s.sandbox.keyID, "0199…", s.sandbox.keyID, "0x…", s.address,
		"<value of the PAYMENT-REQUIRED header>", s.sandbox.challenge(t),
	).Replace(text)
}

// environ returns the environment of the commands. It contains no purser variable from outside.
func (s *stage) environ(t *testing.T, b block) []string {
	t.Helper()
	list := []string{"TO=" + home, "PATH=" + s.bin + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "XDG_CACHE_HOME=" + filepath.Join(s.dir, ".cache"), "LANG=C.UTF-8"}
	if b.mode == modeCheckout {
		return append(packagers(), "KEY="+s.sandbox.Key)
	}
	if b.mode == modeSandbox {
		return append(list, "KEY="+s.sandbox.Key, "PURSER_ADMIN="+s.sandbox.Admin, "PURSER_PORT="+portOf(t, s.sandbox.API))
	}
	return append(list, "PURSER_PORT="+s.own["8402"], "PURSER_UPSTREAM_PORT="+s.own["8406"], "PURSER_METRICS_PORT="+s.own["8407"])
}

func (s *stage) run(t *testing.T, b block) {
	t.Helper()
	script := s.script(t, b)
	if t.Failed() {
		return
	}
	if b.mode == modeServer {
		s.serve(t, b, script)
		return
	}
	limit := commandTime
	if b.mode == modeCheckout {
		limit = fetchTime
		if !s.fresh {
			process.Checkout(t, filepath.Join(s.dir, "purser"), "clients")
			s.fresh = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	said := s.sh(ctx, t, b, script)
	missing := func(want string) bool { return !strings.Contains(said, want) }
	if again := strings.Join(booksAsked.FindAllString(script, -1), "\n"); strings.Contains(again, "spend") {
		for deadline := time.Now().Add(bookTime); slices.ContainsFunc(b.says, missing) && time.Now().Before(deadline); {
			said += s.sh(ctx, t, b, again)
		}
	}
	for _, want := range b.says {
		if missing(want) {
			t.Errorf("%s does not say %q:\n%s\nbut:\n%s", b, want, script, said)
		}
	}
	if found := wallet.FindAllString(said, -1); found != nil {
		s.address = found[len(found)-1]
	}
}

// booksAsked are lines that only show the books, which are written behind the answers, and where they are given.
var booksAsked = regexp.MustCompile(`(?m)^(cd .*|purser spend.*|curl .*/v1/spend.*)$`)

// sh runs a script, which must end well, and returns what it said.
func (s *stage) sh(ctx context.Context, t *testing.T, b block, script string) string {
	t.Helper()
	c := exec.CommandContext(ctx, "sh", "-euc", script)
	c.Dir, c.Env, c.WaitDelay = s.dir, s.environ(t, b), 5*time.Second
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s\nsaid:\n%s", b, err, script, out)
	}
	return string(out)
}

// serve starts a block whose last command goes on, and waits until it answers.
func (s *stage) serve(t *testing.T, b block, script string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(script), "\n")
	lines[len(lines)-1] = "exec " + lines[len(lines)-1] // so that signals get there
	c := exec.Command("sh", "-euc", strings.Join(lines, "\n"))
	c.Dir, c.Env = s.dir, s.environ(t, b)
	server := process.Start(t, c, nil)
	if err := server.Await("http://127.0.0.1:" + s.own["8402"] + "/health"); err != nil {
		t.Fatal(err)
	}
}
