package e2e

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var updateScreens = flag.Bool("e2e.screens", false, "write the screens of docs/agents.md")

const screensPage = "../docs/agents.md"

// screenBlocks finds a program of the page with the screen behind it.
var screenBlocks = regexp.MustCompile("(?s)(<!-- program: ([a-z.]+) -->\n```[a-z]+\n)(.*?)(```\n\n<!-- screen: [a-z.]+ -->\n```\n)(.*?)```\n")

// The developer of a program whose key has met a limit sees why, in what the program's library prints. The page of the
// docs shows programs and screens as they are. Nothing is paid, and no library repeats the request for long.
func TestScreens(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(screensPage)
	if err != nil {
		t.Fatal(err)
	}
	agent, _ := sharedPurser(t).newAgentKey(t, "0.005")
	dir := t.TempDir() // Node looks for packages beside the program
	modules, err := filepath.Abs(filepath.Join("peers", "node_modules"))
	if err == nil {
		err = os.Symlink(modules, filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		t.Fatal(err)
	}
	found := screenBlocks.FindAllStringSubmatch(string(text), -1)
	if len(found) != strings.Count(string(text), "<!-- program: ") || len(found) < 9 {
		t.Fatalf("%d programs with a screen", len(found))
	}
	screens := make([]string, len(found))
	t.Run("programs", func(t *testing.T) { // which ends when they have
		for i, m := range found {
			t.Run(m[2], func(t *testing.T) {
				t.Parallel()
				screens[i] = agent.screen(t, dir, m[2], m[3])
				const words = "purser did not pay: 0.01 USDC would pass the daily budget of 0.005 USDC; 0.005 left until 00:00 UTC"
				if !strings.Contains(screens[i], words) {
					t.Errorf("no %q in\n%s", words, screens[i])
				}
				if !*updateScreens && screens[i] != m[5] {
					t.Errorf("the page shows\n%s\nand the program\n%s\n(go test ./e2e -run TestScreens -e2e.screens)", m[5], screens[i])
				}
			})
		}
	})
	// The same where the proxy is asked in the clear, on a site of HTTP/1 only.
	resp, err := agent.proxied().Get(env.v2.under(t, "http") + "/paid")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if !strings.HasPrefix(resp.Status, "402 Payment Required; purser did not pay: 0.01 USDC would pass the daily budget") {
		t.Errorf("the status line says %q", resp.Status)
	}
	if all := agent.payments(t, ""); len(all) != 0 {
		t.Errorf("paid: %v", all)
	}
	if *updateScreens && !t.Failed() {
		i := -1
		out := screenBlocks.ReplaceAllStringFunc(string(text), func(block string) string {
			i++
			m := screenBlocks.FindStringSubmatch(block)
			return m[1] + m[3] + m[4] + screens[i] + "```\n"
		})
		if err := os.WriteFile(screensPage, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// screen runs a program behind `purser exec` and returns the lines of its standard error that name the error or
// purser.
func (p *payer) screen(t *testing.T, dir, name, text string) string {
	t.Helper()
	const public = "https://api.example.com"
	seller := env.v2.under(t, "https")
	file := filepath.Join(dir, "program-"+name) // no module is called so
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, public, seller)), 0o600); err != nil {
		t.Fatal(err)
	}
	var program []string
	switch filepath.Ext(name) {
	case ".py":
		requireModule(t, strings.Replace(strings.TrimSuffix(name, ".py"), "langchain", "langchain_openai", 1))
		program = []string{python(), file}
	default:
		program = []string{nodeWithEnvProxy(t), file}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := p.execCommand(t, nil, program...)
	bounded := exec.CommandContext(ctx, command.Path, command.Args[1:]...)
	bounded.Env, bounded.WaitDelay = command.Env, time.Second
	// A file, because Node loses the end of a long error when the reader of its pipe is slow.
	printed, err := os.Create(filepath.Join(dir, "stderr-"+name))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	var stdout strings.Builder
	bounded.Stdout, bounded.Stderr = &stdout, printed
	err = bounded.Run()
	stderr, readErr := os.ReadFile(printed.Name())
	if err == nil || ctx.Err() != nil || readErr != nil {
		t.Fatalf("%v, %v, %v: %s%s", err, ctx.Err(), readErr, stdout.String(), stderr)
	}
	var screen strings.Builder
	lines := strings.Split(strings.TrimSpace(string(stderr)), "\n")
	if filepath.Ext(name) == ".py" {
		lines = lines[len(lines)-1:]
		if strings.HasPrefix(lines[0], "For more information") || strings.HasPrefix(lines[0], "During task") {
			lines = strings.Split(strings.TrimSpace(string(stderr)), "\n")
			lines = lines[len(lines)-2:]
		}
	} else {
		named := false
		kept := lines[:0]
		for _, line := range lines {
			first := !named && errorLine.MatchString(line)
			if named = named || first; first || named && strings.Contains(line, "purser did not pay") {
				kept = append(kept, line)
			}
		}
		lines = kept
	}
	for _, line := range lines {
		screen.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	shown := strings.ReplaceAll(screen.String(), strings.TrimPrefix(seller, "https://"), "api.example.com")
	return midnight.ReplaceAllString(shown, "2026-12-01T00:00:00Z")
}

var (
	// errorLine begins what Node prints of an error that nothing has caught.
	errorLine = regexp.MustCompile(`^([A-Za-z]*Error|file:.*Error)\b`)
	midnight  = regexp.MustCompile(`\d{4}-\d\d-\d\dT00:00:00Z`)
)
