package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/purserpay/purser/e2e/internal/process"
)

var (
	fenced   = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```$")
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	named    = regexp.MustCompile("`([a-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)+\\.(?:go|md|yaml|sh|service|json))`")
	reason   = regexp.MustCompile(`(?m)^\s*(?:Declined|declined|reason|Deny)[A-Z]\w* +(?:Verdict +)?= "([a-z-]+)"`)
	ruleWord = regexp.MustCompile(`(?:[^.\w]refusal\(|Rule: +|RulePaused += )"([a-z-]+)"`)
)

// markdown lists the pages of the repository that people read.
func markdown(t *testing.T) []string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md")
	c.Dir = process.Root()
	names, err := c.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00")
}

// anchors are the names that a page's headings have in links.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)] = true
	}
	return found
}

// Pages link to files and headings that exist, and name files that exist.
func TestReferences(t *testing.T) {
	t.Parallel()
	root := process.Root()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil && !os.IsNotExist(err) { // deleted, and not committed
			t.Fatal(err)
		}
		return string(text)
	}
	for _, page := range markdown(t) {
		text := read(page)
		for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, to)
			} else if anchor != "" && !anchors(read(to))[anchor] {
				t.Errorf("%s links to %s, which has no heading %q", page, to, anchor)
			}
		}
		if filepath.Dir(page) != "docs" && filepath.Dir(page) != "." {
			continue
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
}

// docs/troubleshooting.md explains each word with which purser says why it did not pay or answer.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	root := process.Root()
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := 0
	for folder, word := range map[string]*regexp.Regexp{
		"pay": ruleWord, "proxy": reason, "proxy/forward": reason, "internal/guard": reason, "caddymodule": reason,
	} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range word.FindAllStringSubmatch(string(text), -1) {
				words++
				if !strings.Contains(string(page), "`"+m[1]) {
					t.Errorf("docs/troubleshooting.md does not explain %q", m[1])
				}
			}
		}
	}
	if words < 60 {
		t.Errorf("only %d words found in the code", words)
	}
}
