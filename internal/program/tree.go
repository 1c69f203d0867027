package program

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/cli"
)

// Headings of the help.
const (
	groupPurser = "purser"
	groupServer = "server"
	groupCaddy  = "caddy"
)

// serverCommands lists Caddy's commands that every operator needs.
var serverCommands = []string{"run", "start", "stop", "reload", "validate", "version"}

// replacing are Caddy's commands that put another program in the place of this one: a build
// of Caddy's website, without purser or with another one than this.
var replacing = []string{"upgrade", "add-package", "remove-package"}

// tree is the command line as a whole, which Caddy builds and does not hand out. The first of
// purser's commands is kept, so that the last one finds what it was put under.
type tree struct {
	env   *cli.Env
	first *cobra.Command
}

// starts marks the first command.
func (t *tree) starts(f func(*cobra.Command)) func(*cobra.Command) {
	return func(c *cobra.Command) {
		t.first = c
		f(c)
	}
}

// ends dresses the tree, once all but the last command are in it.
func (t *tree) ends(f func(*cobra.Command)) func(*cobra.Command) {
	return func(c *cobra.Command) {
		f(c)
		if t.first != nil && t.first.HasParent() {
			c.GroupID = groupPurser
			c.SetHelpTemplate(new(cobra.Command).HelpTemplate())
			t.dress(t.first.Parent())
		}
		t.first = nil
	}
}

// dress gives purser's commands a heading of their own and help without Caddy's references, and
// takes away what would replace this program.
func (t *tree) dress(root *cobra.Command) {
	var own []string
	for _, command := range t.env.Commands() {
		own = append(own, command.Name)
	}
	root.AddGroup(
		&cobra.Group{ID: groupPurser, Title: "Commands of purser:"},
		&cobra.Group{ID: groupServer, Title: "The server, which is Caddy:"},
		&cobra.Group{ID: groupCaddy, Title: "Other commands of Caddy:"},
	)
	root.SetHelpCommandGroupID(groupCaddy)
	caddys, plain := root.HelpTemplate(), new(cobra.Command).HelpTemplate()
	root.Example = "" // `caddy run`; the description has ours
	root.SetHelpTemplate(plain)
	for _, c := range root.Commands() {
		switch name := c.Name(); {
		case name == one:
			root.RemoveCommand(c) // its commands are the program's
			continue
		case slices.Contains(own, name):
			c.GroupID = groupPurser
			c.SetHelpTemplate(plain)
			continue
		case slices.Contains(replacing, name):
			refuse(c)
		case slices.Contains(serverCommands, name):
			c.GroupID = groupServer
		default:
			c.GroupID = groupCaddy
		}
		c.SetHelpTemplate(caddys)
		t.env.Wrap(c)
	}
}

// refuse makes a command one that does nothing and says why.
func refuse(c *cobra.Command) {
	const why = "it would replace this program with a Caddy from elsewhere, without this purser; " +
		"install a new purser instead, and build one with other modules with xcaddy"
	c.Hidden, c.DisableFlagParsing, c.Args = true, true, cobra.ArbitraryArgs
	c.Long = "Not for purser: " + why + "."
	c.RunE = nil
	cli.Run(c, func(c *cobra.Command, _ []string) error {
		return fmt.Errorf("%s: %s", c.Name(), why)
	})
}
