package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// checkOut copies the client libraries to a folder as git has them: without what was built or installed here.
func checkOut(t *testing.T, to string) {
	t.Helper()
	root := process.Root()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "clients")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted, and not committed
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// own are variables that would let commands find what is not in the checkout, or purser's settings of the developer.
var own = regexp.MustCompile(`^(PURSER_.*|PYTHON.*|VIRTUAL_ENV|NODE_PATH)$`)

// packagers is an environment in which pip and npm find their registries as they do for the user who runs the tests.
func packagers() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return own.MatchString(name)
	})
}

// Nothing that is installed by name may be another project's: the client libraries are installed from files until they
// are published.
func TestNothingIsInstalledByName(t *testing.T) {
	t.Parallel()
	root := process.Root()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--", "*.md", "*.py", "*.mjs", "*.ts", "*.go", "*.html", "*.yaml")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, line := range byName.FindAllString(string(text), -1) {
			t.Errorf("%s: %q fetches a package that is not published, or another project's", name, line)
		}
	}
}

var byName = regexp.MustCompile(`(?m)(?:pip3?|uv|pipx|npm|pnpm|yarn|bun) (?:install|add|i)\b[^\n` + "`" + `]* ["']?@?purser(?:pay)?(?:/client)?(?:["'\[\s@=]|$)`)
