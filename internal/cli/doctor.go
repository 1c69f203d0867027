package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/doctor"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/installation"
)

const doctorHelp = `
Examines this installation, and then plays the hostile seller, the shaky facilitator and the
lying RPC against a scratch copy of it. --installation does the first part only, --attacks the
second only, as --only does.

The first part changes nothing. It looks at the purser that runs, if one does, and asks the
configured RPCs: their chain, our clock, wallets that are empty, room on the disk, variables,
who may read which file, what keys may spend at each door, and the root that opens HTTPS. It
takes 15 seconds at most. A line begins with ok, warn (it works, and should be better) or FAIL
(payments fail, or others can get at secrets), and says behind → what to do.

The second part does not touch your purser itself. The same program is started a second time with a copy
of the configuration that 'purser run' would use, in a temporary folder, on 127.0.0.1, and
in a world without money: a ledger in place of the chain, and sellers, facilitators and
RPCs that lose answers, claim transfers that never were, and ask for too much. Your
database, keys, wallets, signer, facilitator and RPC are not used, and no address but
127.0.0.1 is dialled. Limits, policy, hosts, guarded addresses, timeouts and everything
else are as you configured them; what is otherwise is said first.

    $ purser doctor
    $ purser doctor --installation
    $ purser doctor --attacks --config xcaddy.Caddyfile
    $ purser doctor --config xcaddy.Caddyfile --only killed --only "within limits"
    $ purser doctor --config xcaddy.Caddyfile --json > doctor.json
    $ purser doctor --list

A line of an attack begins with

    ok     what was tried did not work: the protection held
    FAIL   it did; what customers saw, and what books and ledger say, follows
    off    your own configuration has no protection here, or nothing to attack
    error  the attack could not be made, and nothing is known

It takes about a minute, most of which purser waits until payments have expired. --all
adds every scenario there is, and takes a few minutes with a --timeout to fit.

The exit status is 0 if everything is well, held or is off, also where a line warns. It is 1 if
a line says FAIL, of the installation or of an attack, and 2 if the examination could not be
made or not be finished: a configuration that does not work, a
purser that does not start, the time limit. The names of checks, of attacks and of the fields of the
JSON stay the same over versions.`

const (
	doctorFailed = 1
	doctorUnmade = 2
)

func (env *Env) doctorCommand(c *cobra.Command) {
	var f doctorFlags
	c.Flags().StringVarP(&f.config, "config", "c", "", "configuration file (default: Caddyfile in this folder, as for 'purser run')")
	c.Flags().StringVarP(&f.adapter, "adapter", "a", "", "name of the config adapter to apply")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of lines")
	c.Flags().StringArrayVar(&f.only, "only", nil, "name of an attack, or of a group of them; may be given several times")
	c.Flags().BoolVar(&f.all, "all", false, "play every scenario there is")
	c.Flags().BoolVar(&f.installation, "installation", false, "examine this installation, and make no attacks")
	c.Flags().BoolVar(&f.attacks, "attacks", false, "make the attacks, and do not examine this installation")
	adminFlag(c)
	c.Flags().BoolVar(&f.list, "list", false, "list the attacks, and make none")
	c.Flags().DurationVar(&f.timeout, "timeout", 3*time.Minute, "give up after this time")
	run(c, doctorUnmade, func(c *cobra.Command, _ []string) error {
		status, err := env.examine(c, f)
		if err != nil {
			err = fmt.Errorf("doctor: %w", err)
		}
		if status != 0 {
			return &Exit{status, err}
		}
		return err
	})
}

type doctorFlags struct {
	config, adapter string
	json, all, list bool
	// installation and attacks leave the other part out.
	installation, attacks bool
	only                  []string
	timeout               time.Duration
}

func (env *Env) examine(c *cobra.Command, f doctorFlags) (status int, err error) {
	if f.list {
		return 0, show(c.OutOrStdout(), false, doctor.Attacks(f.all), writeAttacks)
	}
	file := env.configFile(c)
	if file == "" {
		return doctorUnmade, env.errNothing()
	}
	if f.installation && (f.attacks || f.all || len(f.only) > 0) {
		return doctorUnmade, errors.New("--installation makes no attacks: it goes without --attacks, --all and --only")
	}
	env.Caddy.Hush()
	config, _, _, err := env.Caddy.LoadConfig(file, f.adapter)
	if err != nil {
		return doctorUnmade, mistake(err, file, env.Layer)
	}
	var here *installation.Report
	if f.attacks || len(f.only) > 0 {
		warn(c, append(env.change.Warnings(), env.unknown(file)...))
	} else if here, err = env.examineInstallation(c, config, file); err != nil {
		return doctorUnmade, err
	}
	if here != nil && !f.json {
		if err := here.Write(c.OutOrStdout()); err != nil {
			return doctorUnmade, err
		}
		if !f.installation {
			_, _ = fmt.Fprintln(c.OutOrStdout())
		}
	}
	if f.installation {
		if f.json {
			err = writeJSON(c.OutOrStdout(), map[string]any{"installation": here})
		}
		if here.Failed > 0 {
			status = doctorFailed
		}
		return status, err
	}
	program, err := os.Executable()
	if err != nil {
		return doctorUnmade, err
	}
	// A terminal that is closed, or a pipe whose reader has seen enough, would end this process at once, and leave the
	// scratch purser and its folder.
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE)
	ctx, unheard := context.WithCancelCause(ctx)
	defer unheard(nil)
	c.SetOut(readers{c.OutOrStdout(), unheard})
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("over the time limit of %s", f.timeout))
	defer cancel()
	o := doctor.Options{Program: program, Config: config, Environ: env.Environ(), Only: f.only, More: f.all}
	finish := func() {}
	if !f.json {
		finish = tellOf(c, &o)
	}
	report, err := doctor.Run(ctx, o)
	finish()
	if f.json && (err == nil || len(report.Findings) > 0) {
		err = errors.Join(err, writeJSON(c.OutOrStdout(), struct {
			Installation *installation.Report `json:"installation,omitempty"`
			doctor.Report
		}{here, report}))
	} else if len(report.Findings) > 0 {
		_, werr := fmt.Fprintln(c.OutOrStdout(), "\n"+report.Summary())
		err = errors.Join(err, werr)
	}
	switch {
	case report.Failed > 0, err == nil && report.Unmade == 0 && here != nil && here.Failed > 0:
		return doctorFailed, err
	case err != nil || report.Unmade > 0:
		return doctorUnmade, err
	}
	return 0, nil
}

// writeJSON prints one JSON object.
func writeJSON(w io.Writer, v any) error { return show(w, true, v, nil) }

// examineInstallation looks at the installation that a configuration is for, and at the purser that runs.
func (env *Env) examineInstallation(c *cobra.Command, config []byte, file string) (*installation.Report, error) {
	s := installation.Subject{
		Config: config, Getenv: env.Getenv, Path: env.path, Now: env.Now,
		Warnings: append(env.change.Warnings(), env.unknown(file)...), Private: env.named,
	}
	if len(s.Private) == 0 {
		if beside, err := environment.Beside(env.path(file)); err == nil {
			s.Private = beside
		}
	}
	client, err := env.newAdminClient(cmp.Or(flag(c, "admin"), env.Getenv(adminapi.AddressVariable), adminIn(config)))
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

// readers is a writer that tells when its output is not read any more.
type readers struct {
	io.Writer
	not context.CancelCauseFunc
}

func (r readers) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if err != nil {
		r.not(err)
	}
	return n, err
}

// tellOf prints what happens as it does; on a terminal also how far it is. finish takes that away.
func tellOf(c *cobra.Command, o *doctor.Options) (finish func()) {
	out := c.OutOrStdout()
	bar := newProgress(c.ErrOrStderr())
	group := ""
	o.Begin = func(testBuild bool, changes []doctor.Change) {
		doctor.WriteHead(out, testBuild, changes)
		bar.show(0, 0)
	}
	o.Progress = bar.show
	o.Tell = func(f doctor.Finding) {
		bar.aside(func() {
			if f.Group != group {
				group = f.Group
				fmt.Fprintf(out, "\n%s\n", group)
			}
			doctor.WriteFinding(out, f)
		})
	}
	return bar.hide
}

func writeAttacks(t *table, attacks []doctor.Attack) {
	t.row("GROUP", "ATTACK", "WHAT IS TRIED")
	for _, a := range attacks {
		t.row(a.Group, a.Name, a.Tries)
	}
}
