package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

// Guest holds the peculiarities of a Caddy of one's own, which purser was built into.
type Guest struct {
	// DataDir is the data directory of a purser that is told none.
	DataDir string
}

// guestName is the one command that a Caddy of one's own has of purser.
const guestName = "purser"

const guestHelp = `
purser pays HTTP 402s for agents. It is in this Caddy, which runs it: caddy run, caddy reload.

    $ purser status                          how purser is
    $ purser exec -- python3 agent.py        runs a program that purser pays for
    $ purser limits                          what keys may spend; also changes it
    $ purser spend                           what was spent

The commands ask the running purser at Caddy's admin endpoint: the one of --admin, else the one that
--config or the Caddyfile in this folder names, else that of CADDY_ADMIN, else Caddy's default.
Each command's --help has more.`

// Join makes c the command of a Caddy of one's own: all of purser's commands are below it.
func (env *Env) Join(c *cobra.Command) {
	for _, command := range env.Commands() {
		sub := &cobra.Command{Use: command.Name + " " + command.Usage, Short: command.Short, Long: command.Long}
		command.Setup(sub)
		c.AddCommand(sub)
	}
	c.Long = guestHelp
	c.SetHelpTemplate(new(cobra.Command).HelpTemplate()) // without references to Caddy's documentation
	c.PersistentFlags().StringP("config", "c", "", "configuration that names the admin endpoint (default: the Caddyfile in this folder)")
	c.PersistentFlags().StringP("adapter", "a", "", "name of the config adapter to apply")
	Run(c, func(c *cobra.Command, _ []string) error { return c.Help() })
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return end(c, 1, fmt.Errorf("there is no command %.64q (%s --help)", args[0], c.CommandPath()))
	}
	out := newGuestOut(c)
	c.SetOut(out)
	out.retype(c)
}

// nameOf returns the name of a command for its errors, without the program's.
func nameOf(c *cobra.Command) string {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	return strings.TrimPrefix(name, guestName+" ")
}

// runCommand returns the command that starts a purser with the files that init has written.
func (env *Env) runCommand() string {
	if env.Guest != nil {
		return "caddy run --envfile " + initEnvFile
	}
	return "purser run"
}

// envFileHead says what the file of variables is for that init writes.
func (env *Env) envFileHead() string {
	if env.Guest != nil {
		return "Variables of purser: " + env.runCommand() + " reads them, and takes no changes until it is started again."
	}
	return "Variables of purser, for its commands in this folder; 'purser reload' takes changes."
}

func (env *Env) defaultDataDir() string {
	if env.Guest != nil {
		return env.Guest.DataDir
	}
	return defaultDataDir
}

func (env *Env) defaultAdmin() string {
	if env.Guest != nil {
		return env.Caddy.DefaultAdmin
	}
	return DefaultAdmin
}

// adminDefault ends the usage of --admin.
const adminDefault = "(default: " + adminapi.AddressVariable + ", else " + DefaultAdmin + ")"

// adminAddress returns the address of the admin endpoint that a command names, "" for that of the environment or the
// default one. In a Caddy of one's own it is found as Caddy finds it, by the configuration in a file, which is that
// of --config, else the Caddyfile in this folder.
func (env *Env) adminAddress(c *cobra.Command, file string) (string, error) {
	given := flag(c, "admin")
	file = cmp.Or(flag(c, "config"), file)
	switch variable := env.Getenv(adminapi.AddressVariable); {
	case given != "" || env.Guest == nil:
		return cmp.Or(given, variable), nil
	case flag(c, "config") == "" && variable != "":
		return variable, nil
	}
	env.Caddy.Hush()
	config, used, _, err := env.Caddy.LoadConfig(env.path(file), flag(c, "adapter"))
	if err != nil {
		return "", mistake(err, cmp.Or(used, file, initCaddyfile), env.Layer)
	}
	return cmp.Or(adminIn(config), env.Caddy.DefaultAdmin), nil
}
