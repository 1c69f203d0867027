package caddymodule

import (
	"fmt"
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// registerCommands adds purser's commands to Caddy's.
func registerCommands() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "exec", Usage: "[flags] [--] COMMAND [ARGUMENTS…]",
		Short: "Runs a program whose requests purser pays for", Long: execHelp, CobraFunc: execCommand,
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
		Name: "status", Usage: "[flags]",
		Short: "Shows how a running purser is", Long: statusHelp, CobraFunc: statusCommand,
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
}

// run makes a command of a function whose error is told in one line and is exit status 1.
func run(c *cobra.Command, f func(c *cobra.Command, args []string) error) {
	c.Run = func(c *cobra.Command, args []string) {
		if err := f(c, args); err != nil {
			say(c, "%v", err)
			os.Exit(1)
		}
	}
}

// say writes a line for people.
func say(c *cobra.Command, format string, args ...any) {
	fmt.Fprintf(c.ErrOrStderr(), "purser: "+format+"\n", args...)
}
