package caddymodule

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
)

// building is held while commands are built, which is for one at a time.
var building sync.Mutex

// ownCommands are purser's commands, without Caddy's.
func ownCommands() (list []*cobra.Command) {
	building.Lock()
	defer building.Unlock()
	root := &cobra.Command{Use: "purser"}
	for _, command := range line.Commands() {
		c := &cobra.Command{Use: command.Name + " " + command.Usage, Short: command.Short, Long: command.Long}
		command.Setup(c)
		root.AddCommand(c)
		list = append(append(list, c), c.Commands()...)
	}
	return list
}

// Each command says what it is for, and has an example: in its own help, or in that of the
// command that it belongs to.
func TestHelpHasExamples(t *testing.T) {
	t.Parallel()
	list := ownCommands()
	if len(list) < 15 {
		t.Fatalf("only %d commands", len(list))
	}
	for _, c := range list {
		help := c.Long + c.Example
		if c.HasParent() {
			help += c.Parent().Long + c.Parent().Example
		}
		if c.Short == "" || !strings.Contains(help, "$ "+c.CommandPath()) && !strings.Contains(help, `"$(`+c.CommandPath()) {
			t.Errorf("%s: no example", c.CommandPath())
		}
		if flags := c.Flags().FlagUsages(); strings.Contains(flags, "string\n") || strings.Contains(flags, "string   \n") {
			t.Errorf("%s: a flag is not described:\n%s", c.CommandPath(), flags)
		}
	}
}

// Completion scripts and man pages are Caddy's, with purser's name and commands in them.
func TestCompletionAndManPages(t *testing.T) {
	t.Parallel()
	if o := process(t, nil, "completion", "bash"); o.Status != 0 || !strings.Contains(o.Stdout, "__complete") {
		t.Errorf("%+v", o)
	}
	dir := t.TempDir()
	if o := process(t, nil, "manpage", "-o", dir); o.Status != 0 {
		t.Fatalf("%d %s", o.Status, o.Stderr)
	}
	for _, c := range ownCommands() {
		// The test program is not called purser.
		words := strings.Fields(c.CommandPath())[1:]
		name := strings.Join(words, "-")
		found, err := filepath.Glob(filepath.Join(dir, "*-"+name+".8"))
		found = slices.DeleteFunc(found, func(page string) bool {
			return strings.Count(filepath.Base(page), "-") != strings.Count(name, "-")+1
		})
		if err != nil || len(found) != 1 {
			t.Errorf("%s: pages %v, %v", c.CommandPath(), found, err)
			continue
		}
		if text, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(text), ".SH OPTIONS") && c.HasFlags() {
			t.Errorf("%s: %v", found[0], err)
		}
	}
}
