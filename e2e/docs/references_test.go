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
	declared = regexp.MustCompile("`(pay|x402)\\.([A-Z]\\w*)`")
	reason   = regexp.MustCompile(`(?m)^\s*(?:Declined|declined|reason|Deny)[A-Z]\w* +(?:Verdict +)?= "([a-z-]+)"`)
	ruleWord = regexp.MustCompile(`(?:[^.\w]refusal\(|Rule: +|RulePaused += )"([a-z-]+)"`)
)

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(process.Root(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// source is the code of a package without its tests.
func source(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(process.Root(), folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
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
	for _, page := range process.Files(t, "*.md") {
		text := read(t, page)
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
			} else if anchor != "" && !anchors(read(t, to))[anchor] {
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

// docs/architecture.md has each package on its map, and docs/design names types and functions that exist.
func TestMapAndVocabulary(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "./...")
	c.Dir = process.Root()
	list, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	page := read(t, "docs/architecture.md")
	for dir := range strings.Lines(string(list)) {
		name, err := filepath.Rel(process.Root(), strings.TrimSpace(dir))
		if err != nil {
			t.Fatal(err)
		}
		if folders := strings.Split(filepath.ToSlash(name), "/"); folders[0] == "internal" {
			name = strings.Join(folders[:2], "/")
		} else {
			name = folders[0]
		}
		if name != "." && !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`"+name+"/") {
			t.Errorf("docs/architecture.md does not name the package %s", name)
		}
	}
	var design strings.Builder
	for _, name := range []string{"README", "words", "payments", "calls", "treasury", "stores", "surfaces"} {
		design.WriteString(read(t, "docs/design/"+name+".md"))
	}
	for _, m := range declared.FindAllStringSubmatch(design.String(), -1) {
		if !regexp.MustCompile(`(?m)^(?:type|func|\t)\s*` + m[2] + `\b`).MatchString(source(t, m[1])) {
			t.Errorf("docs/design names %s.%s, which does not exist", m[1], m[2])
		}
	}
}

// docs/troubleshooting.md explains each word with which purser says why it did not pay or answer.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/troubleshooting.md")
	words := 0
	for folder, word := range map[string]*regexp.Regexp{
		"pay": ruleWord, "proxy": reason, "proxy/forward": reason, "internal/guard": reason, "caddymodule": reason,
	} {
		for _, m := range word.FindAllStringSubmatch(source(t, folder), -1) {
			words++
			if !strings.Contains(page, "`"+m[1]) {
				t.Errorf("docs/troubleshooting.md does not explain %q", m[1])
			}
		}
	}
	if words < 60 {
		t.Errorf("only %d words found in the code", words)
	}
}
