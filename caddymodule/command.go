package caddymodule

import (
	"fmt"
	"os"
	"slices"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/pay"
)

// registerCommands adds purser's commands to Caddy's.
func registerCommands() {
	commands := plantTree()
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "exec", Usage: "[flags] [--] COMMAND [ARGUMENTS…]",
		Short: "Runs a program whose requests purser pays for", Long: execHelp, CobraFunc: commands.starts(execCommand),
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "env", Usage: "[flags]",
		Short: "Prints the environment of a program whose requests purser pays for", Long: envHelp(), CobraFunc: envCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "limits", Usage: "[KEY_ID] [flags]",
		Short: "Shows or changes what API keys may spend", Long: limitsHelp, CobraFunc: limitsCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "payments", Usage: "[flags]",
		Short: "Lists payments, shows one, or resolves one that was left open", Long: paymentsHelp, CobraFunc: paymentsCommand,
	})
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "doctor", Usage: "[flags]",
		Short: "Attacks a scratch copy of this installation and says what held", Long: doctorHelp, CobraFunc: doctorCommand,
	})
	registerBookCommands()
	registerInitCommand()
	registerOrganizationsCommand()
	registerStoreCommands()
	registerReconcileCommand()
	registerRPCCommand()
	registerStopCommands()
	registerAuditCommand()
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "status", Usage: "[flags]",
		Short: "Shows how a running purser is", Long: statusHelp, CobraFunc: commands.ends(statusCommand),
	})
}

// run makes a command of a function whose error is told in one line and is exit status 1.
func run(c *cobra.Command, f func(c *cobra.Command, args []string) error) {
	strict(c, 1)
	c.Run = func(c *cobra.Command, args []string) {
		if err := f(c, args); err != nil {
			say(c, "%v", err)
			os.Exit(1)
		}
	}
}

// strict makes wrong flags and arguments an error like any other: one line that says where to
// read on, and an exit status.
func strict(c *cobra.Command, status int) {
	name := func(c *cobra.Command) string { _, name, _ := strings.Cut(c.CommandPath(), " "); return name }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		say(c, "%s: %v (%s --help)", name(c), err, c.CommandPath())
		os.Exit(status)
		return nil
	})
	valid := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if valid(c, args) == nil {
			return nil
		}
		takes := "no arguments"
		if _, names, some := strings.Cut(c.Use, " "); some && names[0] != '-' && names != "[flags]" {
			takes = strings.TrimSuffix(names, " [flags]")
		}
		for i, sub := range c.Commands() {
			takes += []string{" but ", " or "}[min(i, 1)] + sub.Name()
		}
		given := "none"
		switch {
		case slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, pay.KeyPrefix) }):
			given = "an API key, which is better kept out of command lines"
		case len(args) > 0:
			given = fmt.Sprintf("%q", args)
		}
		say(c, "%s: takes %s, and was given %s (%s --help)", name(c), takes, given, c.CommandPath())
		os.Exit(status)
		return nil
	}
}

// say writes a line for people. What sellers, services and agents wrote may be in it.
func say(c *cobra.Command, format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "; ")
	fmt.Fprintf(c.ErrOrStderr(), "purser: %s\n", label(strings.TrimPrefix(text, "purser: ")))
}
