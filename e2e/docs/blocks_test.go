package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// block is a block of commands with what is to be done with it.
type block struct {
	page string // relative to the repository
	line int
	text string

	mode   string // sandbox, checkout, alone or server; empty: not run
	says   []string
	except []string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

const modeSandbox, modeCheckout, modeAlone, modeServer = "sandbox", "checkout", "alone", "server"

var (
	instruction = regexp.MustCompile(`^<!-- (run|not run): (.+?) -->$`)
	exception   = regexp.MustCompile(`^(.+), because .{4,}$`)
)

// parseBlocks reads a page.
func parseBlocks(page, text string) (list []block, err error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		fence := strings.TrimSpace(lines[i])
		if fence != "```sh" && fence != "```bash" && fence != "```console" && fence != "```shell" {
			if strings.HasPrefix(fence, "```") { // another language: to its end
				for i++; i < len(lines) && !strings.HasPrefix(strings.TrimSpace(lines[i]), "```"); i++ {
				}
			}
			continue
		}
		b := block{page: page, line: i + 1}
		if i == 0 || !instruction.MatchString(strings.TrimSpace(lines[i-1])) {
			return nil, fmt.Errorf("%s: no <!-- run: … --> or <!-- not run: why --> in front of the commands", b)
		}
		m := instruction.FindStringSubmatch(strings.TrimSpace(lines[i-1]))
		var commands []string
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			commands = append(commands, lines[i])
		}
		if i == len(lines) {
			return nil, fmt.Errorf("%s: it has no end", b)
		}
		if m[1] == "run" {
			if err := b.instruct(m[2]); err != nil {
				return nil, fmt.Errorf("%s: %w", b, err)
			}
			if commands, err = b.without(commands); err != nil {
				return nil, err
			}
		}
		b.text = strings.Join(commands, "\n")
		list = append(list, b)
	}
	return list, nil
}

// instruct reads what comes after "run:".
func (b *block) instruct(text string) error {
	parts := strings.Split(text, ";")
	if b.mode = strings.TrimSpace(parts[0]); !slices.Contains([]string{modeSandbox, modeCheckout, modeAlone, modeServer}, b.mode) {
		return fmt.Errorf("run: %q is neither sandbox, checkout, alone nor server", b.mode)
	}
	for _, part := range parts[1:] {
		name, value, _ := strings.Cut(strings.TrimSpace(part), ": ")
		switch m := exception.FindStringSubmatch(value); {
		case name == "says" && value != "":
			b.says = append(b.says, value)
		case name == "except" && m != nil:
			b.except = append(b.except, m[1])
		default:
			return fmt.Errorf("%q is neither says: TEXT nor except: TEXT, because WHY", part)
		}
	}
	return nil
}

// without leaves out the lines that are not to be run.
func (b *block) without(commands []string) ([]string, error) {
	for _, except := range b.except {
		before := len(commands)
		commands = slices.DeleteFunc(commands, func(line string) bool { return strings.Contains(line, except) })
		if len(commands) == before {
			return nil, fmt.Errorf("%s: no line has %q", b, except)
		}
	}
	return commands, nil
}

// pages are README.md, docs/*.md and what the client libraries' READMEs tell to type, with their blocks.
func pages(t *testing.T) map[string][]block {
	t.Helper()
	root := process.Root()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]block{}
	files = append(files, filepath.Join(root, "README.md"))
	for _, client := range []string{"python", "typescript"} {
		files = append(files, filepath.Join(root, "clients", client, "README.md"))
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		list, err := parseBlocks(filepath.ToSlash(page), string(text))
		if err != nil {
			t.Error(err)
		}
		all[filepath.ToSlash(page)] = list
	}
	return all
}

func TestParseBlocks(t *testing.T) {
	t.Parallel()
	good := "# x\n<!-- run: sandbox; says: ok, so; except: rm, because it is gone then -->\n```sh\necho a\nrm b\n```\n\n```\nnot sh\n```\n" +
		"<!-- not run: no network -->\n```sh\ncurl x\n```\n"
	list, err := parseBlocks("x.md", good)
	if err != nil || len(list) != 2 || list[0].text != "echo a" || list[0].says[0] != "ok, so" || list[0].line != 3 || list[1].mode != "" {
		t.Errorf("%+v, %v", list, err)
	}
	for name, text := range map[string]string{
		"none":       "```sh\nx\n```\n",
		"far":        "<!-- run: sandbox -->\n\n```sh\nx\n```\n",
		"why":        "<!-- not run: -->\n```sh\nx\n```\n",
		"mode":       "<!-- run: somewhere -->\n```sh\nx\n```\n",
		"exception":  "<!-- run: sandbox; except: x -->\n```sh\nx\n```\n",
		"not there":  "<!-- run: sandbox; except: y, because not -->\n```sh\nx\n```\n",
		"attribute":  "<!-- run: sandbox; quietly -->\n```sh\nx\n```\n",
		"no end":     "<!-- run: sandbox -->\n```sh\nx\n",
		"other name": "```bash\nx\n```\n",
	} {
		if list, err := parseBlocks("x.md", text); err == nil {
			t.Errorf("%s: %+v", name, list)
		}
	}
}
