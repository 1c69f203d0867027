// Package cli has purser's commands. They ask a running purser through its admin endpoint, or work
// on the files of one that is stopped. It knows cobra, and not Caddy: package caddymodule registers
// the commands with Caddy's.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/pay"
)

// Command is one of purser's commands. Setup adds its flags and its function.
type Command struct {
	Name, Usage, Short, Long string
	Setup                    func(*cobra.Command)
}

// Commands returns all commands. Each reads the files of variables first.
func (env *Env) Commands() []Command {
	list := env.commands()
	for i, command := range list {
		list[i].Setup = func(c *cobra.Command) {
			command.Setup(c)
			env.reads(c, statusOf(command.Name))
		}
	}
	return list
}

func (env *Env) commands() []Command {
	return []Command{
		{"exec", "[flags] [--] COMMAND [ARGUMENTS…]", "Runs a program whose requests purser pays for", execHelp, env.execCommand},
		{"env", "[flags]", "Prints the environment of a program whose requests purser pays for", envHelp(), env.envCommand},
		{"limits", "[KEY_ID] [flags]", "Shows or changes what API keys may spend", limitsHelp, env.limitsCommand},
		{"payments", "[flags]", "Lists payments, shows one, or resolves one that was left open", paymentsHelp, env.paymentsCommand},
		{"approvals", "[flags]", "Lists payments that wait for a person, and approves or denies one", approvalsHelp, env.approvalsCommand},
		{"doctor", "[flags]", "Examines this installation, and says what it lacks", doctorHelp, env.doctorCommand},
		{"keys", "[flags]", "Lists API keys, makes one, pauses, revokes or reissues one", keysHelp, env.keysCommand},
		{"wallets", "[flags]", "Lists wallets, makes, shares, exports, restores one, moves money out, or keeps it in", walletsHelp, env.walletsCommand},
		{"quote", "URL [flags]", "Asks what a request would cost, and whether purser would pay", quoteHelp, env.quoteCommand},
		{"mcp", "[flags]", "Serves a running purser to agents, as tools of the Model Context Protocol", mcpHelp, env.mcpCommand},
		{"spend", "[flags]", "Lists what was spent", spendHelp, env.spendCommand},
		{"export", "[flags]", "Writes what was spent for accounting programs", exportHelp, env.exportCommand},
		{"statement", "[MONTH] [flags]", "Sums a month up for each wallet and compares it with the chain", statementHelp, env.statementCommand},
		{"declined", "[flags]", "Lists requests that were not paid, with the reason", declinedHelp, env.declinedCommand},
		{"tail", "[flags]", "Shows payments and declines as they come", tailHelp, env.tailCommand},
		{"init", "[flags]", "Sets purser up in this folder: configuration, first key and wallet", initHelp, env.initCommand},
		{"organizations", "[flags]", "Lists organizations, or moves one to another plan", organizationsHelp, env.organizationsCommand},
		{"check", "[FILE] [flags]", "Checks the database of a purser, or a backup", checkHelp, env.checkCommand},
		{"backup", "FILE [flags]", "Backs up the database of a running purser", backupHelp, env.backupCommand},
		{"archive", "[FILE] [flags]", "Writes closed payments with what they spent to a file", archiveHelp, env.archiveCommand},
		{"compact", "[FILE] [flags]", "Makes the database of a stopped purser as small as it can be", compactHelp, env.compactCommand},
		{"migrate", "[flags]", "Moves everything from the file of bbolt to PostgreSQL", migrateHelp, env.migrateCommand},
		{"move", "--to FOLDER|FILE.tar [flags]", "Moves purser to another server, and retires this folder", moveHelp, env.moveCommand},
		{"restore", "[flags]", "Tells a restored database of PostgreSQL when its backup was taken", restoreHelp, env.restoreCommand},
		{"reconcile", "[flags]", "Shows whether a restored database is reconciled with the chain", reconcileHelp, env.reconcileCommand},
		{"rpc", "[flags]", "Shows the blocks that the RPC must have", rpcHelp, env.rpcCommand},
		{"rotate", "[flags]", "Shows or replaces the keys that guard secrets", rotateHelp, env.rotateCommand},
		{"pause", "[flags]", "Stops all new payments", pauseHelp, env.pauseCommand},
		{"resume", "[flags]", "Lets payments begin again after a pause", resumeHelp, env.resumeCommand},
		{"webhooks", "[flags]", "Shows where notices are sent to, tests it, or sends some again", webhooksHelp, env.webhooksCommand},
		{"audit", "[flags]", "Lists who changed what", auditHelp, env.auditCommand},
		{"dashboard", "[flags]", "Opens the dashboard with a link that signs you in as the operator", dashboardHelp, env.dashboardCommand},
		{"status", "[flags]", "Shows how a running purser is", statusHelp, env.statusCommand},
	}
}

// Exit is the end of a command with a status other than 0. Its error was told already.
type Exit struct {
	Status int
	Err    error // nil if there is nothing to tell
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Run makes a command of a function. The command tells an error in one line, and returns it as an
// [Exit], with status 1 unless it is one.
func Run(c *cobra.Command, f func(c *cobra.Command, args []string) error) { run(c, 1, f) }

// run is Run with another status than 1.
func run(c *cobra.Command, status int, f func(c *cobra.Command, args []string) error) {
	c.SilenceErrors, c.SilenceUsage = true, true
	c.RunE = func(c *cobra.Command, args []string) error { return end(c, status, f(c, args)) }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return end(c, status, fmt.Errorf("%s: %w (%s --help)", nameOf(c), err, c.CommandPath()))
	})
	valid := c.Args
	if valid == nil {
		valid = cobra.NoArgs
	}
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
		return end(c, status, fmt.Errorf("%s: takes %s, and was given %s (%s --help)", nameOf(c), takes, given, c.CommandPath()))
	}
}

// end tells an error and makes it an [Exit].
func end(c *cobra.Command, status int, err error) error {
	if err == nil {
		return nil
	}
	exit, is := errors.AsType[*Exit](err)
	if !is {
		exit = &Exit{status, err}
	}
	if exit.Err != nil {
		say(c, "%v", exit.Err)
	}
	return exit
}

// say writes a line for people. The line may have text of sellers, services and agents.
func say(c *cobra.Command, format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n", "; ")
	fmt.Fprintf(c.ErrOrStderr(), "purser: %s\n", label(strings.TrimPrefix(typed(c.OutOrStdout(), text), "purser: ")))
}
