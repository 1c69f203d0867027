package caddymodule

import (
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

var (
	// replacing are Caddy's commands that would put another program in the place of this one.
	replacing      = []string{"upgrade", "add-package", "remove-package"}
	serverCommands = []string{"run", "start", "stop", "reload", "validate", "version"}
)

// Commands that would put another program in the place of this one are neither shown nor done.
func TestReplacingCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range replacing {
		if _, caddys := caddycmd.Commands()[name]; !caddys {
			t.Errorf("Caddy has no %s any more", name)
		}
		for _, args := range [][]string{{name, "--keep-backup", "example.com/x"}, {name, "--help"}} {
			if o := process(t, nil, args...); o.Status != 1 || !strings.Contains(o.Stderr, "purser: "+name+": it would replace this program") || o.Stdout != "" {
				t.Errorf("%v: %d, %s%s", args, o.Status, o.Stdout, o.Stderr)
			}
		}
		if o := process(t, nil, "help", name); !strings.Contains(o.Stdout, "Not for purser") {
			t.Errorf("help %s: %s", name, o.Stdout)
		}
	}
	o := process(t, nil, "--help")
	for _, name := range replacing {
		if strings.Contains(o.Stdout, "\n  "+name) {
			t.Errorf("the help has %s", name)
		}
	}
}

// Each command is under its heading, and Caddy's documentation is that of Caddy's commands.
func TestHelpHasHeadings(t *testing.T) {
	t.Parallel()
	help := process(t, nil, "--help").Stdout
	ours, rest, _ := strings.Cut(help, "The server, which is Caddy:")
	server, others, found := strings.Cut(rest, "Other commands of Caddy:")
	if !found || strings.Contains(help, "Additional Commands") {
		t.Fatalf("%s", help)
	}
	for _, c := range ownCommands() {
		if c.Parent().Name() == "purser" && !strings.Contains(ours, "\n  "+c.Name()+" ") {
			t.Errorf("%s is not among purser's commands", c.Name())
		}
	}
	for _, name := range serverCommands {
		if !strings.Contains(server, "\n  "+name+" ") {
			t.Errorf("%s is not among the server's commands", name)
		}
	}
	if !strings.Contains(others, "\n  adapt ") || !strings.Contains(others, "\n  help ") || strings.Contains(ours, "\n  adapt ") {
		t.Errorf("%s", help)
	}
	const caddys = "caddyserver.com"
	for _, name := range []string{"exec", "status"} {
		if o := process(t, nil, name, "--help"); o.Status != 0 || strings.Contains(o.Stdout, caddys) || !strings.Contains(o.Stdout, "Usage:") {
			t.Errorf("%s: %s", name, o.Stdout)
		}
	}
	if o := process(t, nil, "fmt", "--help"); !strings.Contains(o.Stdout, caddys) {
		t.Errorf("fmt: %s", o.Stdout)
	}
}
