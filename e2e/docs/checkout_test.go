package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

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
	for _, name := range process.Files(t, "*.md", "*.py", "*.mjs", "*.ts", "*.go", "*.html", "*.yaml") {
		for _, line := range byName.FindAllString(read(t, name), -1) {
			t.Errorf("%s: %q fetches a package that is not published, or another project's", name, line)
		}
	}
}

var byName = regexp.MustCompile(`(?m)(?:pip3?|uv|pipx|npm|pnpm|yarn|bun) (?:install|add|i)\b[^\n` + "`" + `]* ["']?@?purser(?:pay)?(?:/client)?(?:["'\[\s@=]|$)`)
