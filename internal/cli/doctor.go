package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/installation"
	"github.com/purserpay/purser/internal/environment"
)

const doctorHelp = `
Examines this installation, and changes nothing. It looks at the purser that runs, if one does,
and asks the configured RPCs: their chain, our clock, wallets that are empty, room on the disk,
variables, who may read which file, what keys may spend at each door, and the root that opens
HTTPS. It takes 15 seconds at most.

    $ purser doctor
    $ purser doctor --config xcaddy.Caddyfile
    $ purser doctor --json > doctor.json

A line begins with ok, warn (it works, and should be better) or FAIL (payments fail, or others
can get at secrets), and says behind → what to do.

Another program, purser-sandbox, attacks a scratch copy of the installation and says what held:

    $ purser-sandbox attack
    $ purser-sandbox attack xcaddy.Caddyfile

The exit status is 0 if everything is well, also where a line warns. It is 1 if a line says FAIL,
and 2 if the examination could not be made, as with a configuration that does not work. The names
of checks and of the fields of the JSON stay the same over versions.`

const (
	doctorFailed = 1
	doctorUnmade = 2
)

// attackFlags are flags that the command had when it made the attacks, too.
var attackFlags = []string{"attacks", "all", "list", "only", "timeout"}

func (env *Env) doctorCommand(c *cobra.Command) {
	c.Flags().StringP("config", "c", "", "configuration file (default: Caddyfile in this folder, as for 'purser run')")
	c.Flags().StringP("adapter", "a", "", "name of the config adapter to apply")
	asJSON := c.Flags().Bool("json", false, "print one JSON object instead of lines")
	adminFlag(c)
	c.Flags().Bool("installation", true, "examine this installation, which is all that is done")
	hidden := []string{"installation"}
	for _, name := range attackFlags {
		c.Flags().StringArray(name, nil, "")
		if name != "only" && name != "timeout" {
			c.Flags().Lookup(name).NoOptDefVal = "true"
		}
		hidden = append(hidden, name)
	}
	for _, name := range hidden {
		c.Flags().Lookup(name).Hidden = true
	}
	run(c, doctorUnmade, func(c *cobra.Command, _ []string) error {
		for _, name := range attackFlags {
			if c.Flags().Changed(name) {
				return fmt.Errorf("doctor: --%s is for attacks, which another program makes: %s", name, attackCommand(env.configFile(c)))
			}
		}
		report, err := env.examine(c)
		if err != nil {
			return fmt.Errorf("doctor: %w", err)
		}
		for i, f := range report.Findings {
			report.Findings[i].Says, report.Findings[i].Do = typed(c.OutOrStdout(), f.Says), typed(c.OutOrStdout(), f.Do)
		}
		if *asJSON {
			err = show(c.OutOrStdout(), jsonForm{on: true}, map[string]any{"installation": report}, nil)
		} else if err = report.Write(c.OutOrStdout()); err == nil {
			_, err = fmt.Fprintf(c.OutOrStdout(), "\nTo attack a scratch copy of it: %s\n", attackCommand(env.configFile(c)))
		}
		if err == nil && report.Failed > 0 {
			return &Exit{Status: doctorFailed}
		}
		return err
	})
}

// attackCommand returns the command that attacks a scratch copy of a configuration.
func attackCommand(file string) string {
	if file == "" || file == initCaddyfile {
		return "purser-sandbox attack"
	}
	return "purser-sandbox attack " + file
}

// examine looks at the installation that a configuration is for.
func (env *Env) examine(c *cobra.Command) (*installation.Report, error) {
	file := env.configFile(c)
	if file == "" {
		return nil, env.errNothing()
	}
	env.Caddy.Hush()
	config, _, _, err := env.Caddy.LoadConfig(file, flag(c, "adapter"))
	if err != nil {
		return nil, mistake(err, file, env.Layer)
	}
	return env.examineInstallation(c, config, file)
}

// examineInstallation looks at the installation that a configuration is for, and at the purser that runs.
func (env *Env) examineInstallation(c *cobra.Command, config []byte, file string) (*installation.Report, error) {
	s := installation.Subject{
		Config: config, Getenv: env.Getenv, Path: env.path, Now: env.Now, DefaultDataDir: env.defaultDataDir(),
		Warnings: append(env.change.Warnings(), env.unknown(file)...), Private: env.named,
	}
	if len(s.Private) == 0 {
		if beside, err := environment.Beside(env.path(file)); err == nil {
			s.Private = beside
		}
	}
	address, err := env.adminAddress(c, file)
	var client *adminClient
	if err == nil {
		client, err = env.newAdminClient(cmp.Or(address, adminIn(config)))
	}
	var state adminapi.Status
	if err == nil {
		err = client.call(c.Context(), http.MethodGet, "/purser/status", nil, &state)
	}
	if err != nil {
		s.Silence, _, _ = strings.Cut(label(err.Error()), " (is purser")
	} else {
		s.Running = &state
		if list, _, err := fetchPage[adminapi.Wallet](c.Context(), client, "wallets", url.Values{}); err == nil {
			s.Wallets = list
		}
		if path, unix := strings.CutPrefix(client.address, "unix/"); unix {
			s.Private = append(s.Private, path)
		}
	}
	report, err := installation.Examine(c.Context(), s)
	for i := range report.Findings { // addresses and labels are others' words
		f := &report.Findings[i]
		f.Says, f.Do = label(f.Says), label(f.Do)
	}
	return &report, err
}
