package caddymodule

import (
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// What would put another program in the place of this one is neither shown nor done.
func TestReplacingCommandsAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range replacing {
		if _, caddys := caddycmd.Commands()[name]; !caddys {
			t.Errorf("Caddy has no %s any more", name)
		}
		for _, args := range [][]string{{name}, {name, "--keep-backup", "example.com/x"}, {name, "--help"}} {
			if o := command(t, nil, args...); o.status() != 1 || !strings.Contains(o.stderr, "purser: "+name+": it would replace this program") || o.stdout != "" {
				t.Errorf("%v: %s, %s%s", args, o.state, o.stdout, o.stderr)
			}
		}
		if o := command(t, nil, "help", name); !strings.Contains(o.stdout, "Not for purser") {
			t.Errorf("help %s: %s", name, o.stdout)
		}
	}
	o := command(t, nil, "--help")
	for _, name := range replacing {
		if strings.Contains(o.stdout, "\n  "+name) {
			t.Errorf("the help has %s", name)
		}
	}
}

// Each command is under its heading, and Caddy's documentation is that of Caddy's commands.
func TestHelpHasHeadings(t *testing.T) {
	t.Parallel()
	help := command(t, nil, "--help").stdout
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
	for _, name := range []string{"exec", "spend", "status"} {
		if o := command(t, nil, name, "--help"); o.status() != 0 || strings.Contains(o.stdout, caddys) || !strings.Contains(o.stdout, "Usage:") {
			t.Errorf("%s: %s", name, o.stdout)
		}
	}
	if o := command(t, nil, "fmt", "--help"); !strings.Contains(o.stdout, caddys) {
		t.Errorf("fmt: %s", o.stdout)
	}
}
