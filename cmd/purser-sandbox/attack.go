package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/caddymodule"
	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/sandbox/attacks"
)

const attackHelp = `Plays the hostile seller, the shaky facilitator and the lying RPC against a scratch copy of your
purser. 'purser doctor' examines your installation itself.

CADDYFILE is the configuration that 'purser run' would use; without it, it is the Caddyfile in this
folder. The variables are those of purser.env beside it, or of --envfile.

Your purser is not touched. The program purser is started once more with a copy of the
configuration, in a temporary folder, on 127.0.0.1, and in a world without money: a ledger in
place of the chain, and sellers, facilitators and RPCs that lose answers, claim transfers that
never were, and ask for too much. Your database, keys, wallets, signer, facilitator and RPC are
not used, and no address but 127.0.0.1 is dialled. Limits, policy, hosts, guarded addresses,
timeouts and everything else are as you configured them; what is otherwise is said first.

--purser names the program. Without it, the program is the purser beside purser-sandbox, else the
one of your PATH.

    $ purser-sandbox attack
    $ purser-sandbox attack /etc/purser/Caddyfile
    $ purser-sandbox attack --only killed --only "within limits"
    $ purser-sandbox attack --json > attacks.json
    $ purser-sandbox attack --list

A line begins with

    ok     what was tried did not work: the protection held
    FAIL   it did; what customers saw, and what books and ledger say, follows
    off    your own configuration has no protection here, or nothing to attack
    error  the attack could not be made, and nothing is known

It takes about a minute, most of which purser waits until payments have expired. --all
adds every scenario there is, and takes a few minutes with a --timeout to fit.

The exit status is 0 if everything held or is off. It is 1 if a line says FAIL, and 2 if the
attacks could not be made or not be finished: a configuration that does not work, a purser that
does not start, the time limit. The names of attacks and of the fields of the JSON stay the same
over versions.`

// Exit statuses of the command attack.
const (
	attackFailed = 1
	attackUnmade = 2
)

// attackFlags holds the options of the command attack.
type attackFlags struct {
	purser, adapter string
	envFiles, only  []string
	json, all, list bool
	timeout         time.Duration
}

// attack runs the command attack. It returns the exit status.
func attack(args []string, stdout, stderr io.Writer) (status int) {
	var f attackFlags
	c := &cobra.Command{
		Use: "attack [CADDYFILE]", Short: "Attacks a scratch copy of your purser, and says what held", Long: attackHelp,
		Args: cobra.MaximumNArgs(1), SilenceErrors: true, SilenceUsage: true,
		RunE: func(c *cobra.Command, args []string) (err error) {
			status, err = f.run(c, append(args, "")[0])
			return err
		},
	}
	c.Flags().StringVarP(&f.adapter, "adapter", "a", "", "name of the config adapter to apply")
	c.Flags().StringSliceVar(&f.envFiles, "envfile", nil,
		"file of variables, may be given several times (default: "+environment.FileName+" beside the configuration)")
	c.Flags().StringVar(&f.purser, "purser", "", "program to attack (default: purser beside purser-sandbox, else of the PATH)")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object instead of lines")
	c.Flags().StringArrayVar(&f.only, "only", nil, "name of an attack, or of a group of them; may be given several times")
	c.Flags().BoolVar(&f.all, "all", false, "play every scenario there is")
	c.Flags().BoolVar(&f.list, "list", false, "list the attacks, and make none")
	c.Flags().DurationVar(&f.timeout, "timeout", 3*time.Minute, "give up after this time")
	root := &cobra.Command{Use: "purser-sandbox"}
	root.AddCommand(c)
	root.SetArgs(append([]string{c.Name()}, args...))
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		fmt.Fprintf(stderr, "purser-sandbox: attack: %v\n", err)
		if status == 0 { // the command line is wrong
			_, _ = fmt.Fprint(stderr, "Try purser-sandbox attack --help.\n")
			status = attackUnmade
		}
	}
	return status
}

// run makes the attacks and returns the exit status.
func (f *attackFlags) run(c *cobra.Command, file string) (status int, err error) {
	if f.list {
		t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(t, "GROUP\tATTACK\tWHAT IS TRIED")
		for _, a := range attacks.List(f.all) {
			fmt.Fprintf(t, "%s\t%s\t%s\n", a.Group, a.Name, a.Tries)
		}
		return 0, t.Flush()
	}
	// A closed terminal, or a pipe whose reader has left, would end this process at once. The scratch
	// purser and its folder would stay.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE)
	ctx, unheard := context.WithCancelCause(ctx)
	defer unheard(nil)
	c.SetOut(readers{c.OutOrStdout(), unheard})
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("over the time limit of %s", f.timeout))
	defer cancel()

	o := attacks.Options{Only: f.only, More: f.all}
	if o.Program, err = f.program(); err == nil {
		o.Config, err = f.configuration(ctx, c.ErrOrStderr(), o.Program, file)
	}
	if err != nil {
		return attackUnmade, err
	}
	o.Environ = os.Environ()
	finish := func() {}
	if !f.json {
		finish = tell(c, &o)
	}
	report, err := attacks.Run(ctx, o)
	finish()
	switch {
	case f.json && (err == nil || len(report.Findings) > 0):
		e := json.NewEncoder(c.OutOrStdout())
		e.SetIndent("", "  ")
		err = errors.Join(err, e.Encode(report))
	case len(report.Findings) > 0:
		_, werr := fmt.Fprintln(c.OutOrStdout(), "\n"+report.Summary())
		err = errors.Join(err, werr)
	}
	switch {
	case report.Failed > 0:
		return attackFailed, err
	case err != nil || report.Unmade > 0:
		return attackUnmade, err
	}
	return 0, nil
}

// program returns the absolute path of the purser to attack.
func (f *attackFlags) program() (string, error) {
	path, err := exec.LookPath(cmp.Or(f.purser, purserProgram()))
	if err != nil {
		return "", fmt.Errorf("no purser to attack: %w: --purser names one", err)
	}
	return filepath.Abs(path)
}

// configuration puts the variables of files into force and returns the configuration as JSON. The
// program adapts it, because the program may have modules that this one lacks.
func (f *attackFlags) configuration(ctx context.Context, log io.Writer, program, file string) ([]byte, error) {
	const usual = "Caddyfile"
	if _, err := os.Stat(usual); file == "" && err != nil {
		return nil, errors.New("there is no Caddyfile in this folder: name the configuration of your purser, such as /etc/purser/Caddyfile")
	}
	file = cmp.Or(file, usual)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	caddymodule.AsPurser()
	environment.UnsetEmpty()
	files := f.envFiles
	if len(files) == 0 {
		if files, err = environment.Beside(file); err != nil {
			return nil, err
		}
	}
	layer := environment.OfProcess()
	change, _, err := layer.Apply(files)
	if errors.Is(err, fs.ErrPermission) && len(f.envFiles) == 0 {
		change.Unread, err = err, nil
	}
	if err != nil {
		return nil, err
	}
	for _, w := range append(change.Warnings(), layer.Unknown(os.Environ(), string(text))...) {
		fmt.Fprintf(log, "purser-sandbox: warning: %s\n", w)
	}
	if f.adapter == "" && json.Valid(text) {
		return text, nil
	}
	args := []string{"adapt", "--config", file, "--adapter", cmp.Or(f.adapter, "caddyfile")}
	for _, path := range f.envFiles {
		args = append(args, "--envfile", path)
	}
	adapt := exec.CommandContext(ctx, program, args...) //nolint:gosec // the user's own program
	config, err := adapt.Output()
	exit, is := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("not finished: %w", context.Cause(ctx))
	case is:
		return nil, fmt.Errorf("%s: %s", file, lastWords(exit.Stderr))
	}
	return config, err
}

// lastWords returns the message of the last line that Caddy has logged, or the line if it is no JSON.
func lastWords(log []byte) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	last := lines[len(lines)-1]
	var entry struct{ Msg string }
	if json.Unmarshal(last, &entry) != nil {
		return string(last)
	}
	return entry.Msg
}

// readers is a writer that reports when its reader has left.
type readers struct {
	io.Writer
	left context.CancelCauseFunc
}

func (r readers) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if err != nil {
		r.left(err)
	}
	return n, err
}

// tell prints findings as they come. A terminal also shows the progress, which finish takes away.
func tell(c *cobra.Command, o *attacks.Options) (finish func()) {
	out := c.OutOrStdout()
	bar, began, group := cli.NewProgress(c.ErrOrStderr()), time.Now(), ""
	o.Begin = func(r attacks.Report) {
		r.WriteHead(out, o.Program)
		bar.Tell("attacking …")
	}
	o.Progress = func(over, of int) {
		bar.Tell(fmt.Sprintf("%d of %d attacks are over, %s", over, of, time.Since(began).Round(time.Second)))
	}
	o.Tell = func(f attacks.Finding) {
		bar.Aside(func() {
			if f.Group != group {
				group = f.Group
				fmt.Fprintf(out, "\n%s\n", group)
			}
			attacks.WriteFinding(out, f)
		})
	}
	return bar.Hide
}
