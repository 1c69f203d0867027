// Package program joins purser's commands to Caddy's command line. The program purser has them beside Caddy's, and Caddy's
// own are made for it. In a Caddy of one's own they are below one command, and nothing of Caddy's is changed.
//
// It knows cobra and Caddy's command line. The commands' work is in package cli.
package program

import (
	"errors"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/environment"
)

// one is the name of the command in a Caddy of one's own.
const one = "purser"

// Register adds the command of a Caddy of one's own, which has purser's commands below it.
func Register(env *cli.Env) {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: one, Usage: "COMMAND", Short: "Pays HTTP 402s for agents: keys, limits, wallets, payments", CobraFunc: func(c *cobra.Command) {
			if env.Guest == nil {
				return // the tree of the program loses it
			}
			env.Join(c)
			exits(c)
		},
	})
}

// Main is the main function of the program purser.
func Main(env *cli.Env) {
	environment.UnsetEmpty()
	beside(env)
	caddycmd.Main()
}

// beside puts purser's commands beside Caddy's.
func beside(env *cli.Env) {
	tree := &tree{env: env}
	commands := env.Commands()
	for i, command := range commands {
		setup := func(c *cobra.Command) {
			command.Setup(c)
			exits(c)
		}
		switch i {
		case 0:
			setup = tree.starts(setup)
		case len(commands) - 1:
			setup = tree.ends(setup)
		}
		caddycmd.RegisterCommand(caddycmd.Command{
			Name: command.Name, Usage: command.Usage, Short: command.Short, Long: command.Long, CobraFunc: setup,
		})
	}
}

// exits makes the process end with the status that a command or one of its own commands returns.
func exits(c *cobra.Command) {
	status := func(c *cobra.Command, err error) error {
		exit, is := errors.AsType[*cli.Exit](err)
		if !is || exit.Status == 1 {
			return err // the process exits with 1
		}
		// Caddy's program knows no other error with a status than the one that this makes.
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return exit.Status, nil })(c, nil)
	}
	run, wrong, valid := c.RunE, c.FlagErrorFunc(), c.Args
	c.RunE = func(c *cobra.Command, args []string) error { return status(c, run(c, args)) }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return status(c, wrong(c, err)) })
	c.Args = func(c *cobra.Command, args []string) error { return status(c, valid(c, args)) }
	for _, sub := range c.Commands() {
		exits(sub)
	}
}
