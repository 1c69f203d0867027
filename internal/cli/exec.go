package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/agentenv"
	"github.com/purserpay/purser/internal/environment"
)

const execHelp = `
Runs a program whose HTTP and HTTPS requests go through purser, which pays for
those that cost something. The program is told by the usual variables of its
environment where the proxy is, with the API key in its URL, and which root
certificate to trust; it need not know purser.

Without --key, purser's exec key pays: purser makes it when it is first used,
with a wallet whose address is printed while there is no money in it. That needs
purser's admin endpoint. With --key or --key-file the proxy is enough.

What the program may spend are the limits of the key; see 'purser limits'. The
task label divides them further, and is in the list of what was spent.

    $ purser exec -- curl -i https://api.example.com/paid
    $ purser exec --task nightly python3 agent.py
    $ purser exec --key-file agent.key --proxy http://10.0.0.5:8402 -- node agent.mjs

curl, wget, git, Python, Node (22.21, or 24 and newer, and for node:http 24.5), npm, Go,
Ruby, PHP's curl, Deno, cargo and whatever else heeds HTTPS_PROXY and SSL_CERT_FILE work as
they are. An older Node goes past the proxy, so nothing is paid, and purser says so. Java is told the proxy
and a trust store, but has no option for the proxy's credentials: give it an
Authenticator, or let purser serve local programs without a key
(PURSER_STANDIN=loopback). A program that runs as the user who runs purser can
reach the admin endpoint as well, and with it change its limits: let agents run
as another user.

What purser and its configuration use is not passed on: PURSER_…, CDP_…, DATABASE_URL,
PG…, OTEL_EXPORTER_…, what comes from purser.env, and what the configuration
refers to as {env.NAME} or {$NAME}. --keep-env passes one on all the same:

    $ purser exec --keep-env DATABASE_URL -- python3 agent.py

purser gives way to the program, so that signals and the exit status are the
program's. It exits with 125 when it fails itself, with 126 when the program
cannot be run, and with 127 when it is not found.`

// Exit statuses of `purser exec`, as those of env and of container tools.
const (
	execFailed     = 125
	execNotRunable = 126
	execNotFound   = 127
)

func (env *Env) execCommand(c *cobra.Command) {
	flags := newAccessFlags(c, execTask)
	keep := c.Flags().StringArray("keep-env", nil, "a variable that the program gets although purser uses it, may be given several times")
	c.Flags().SetInterspersed(false) // flags behind the program are the program's
	c.Args = cobra.ArbitraryArgs
	run(c, execFailed, func(c *cobra.Command, args []string) error { return env.becomes(c, flags, *keep, args) })
}

// becomes turns this process into a program. It returns if it cannot.
func (env *Env) becomes(c *cobra.Command, flags *accessFlags, keep, args []string) error {
	if len(args) == 0 {
		return errors.New("exec: which program? (purser exec --help)")
	}
	if err := checkKept(keep); err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	// Looked for first: what is misspelt need not wait for anything.
	path, err := env.lookPath(args[0])
	if err != nil {
		return cannotRun("exec", args[0], err)
	}
	e, a, err := env.environment(c, flags)
	if err != nil {
		return err
	}
	environ := e.Apply(env.passedOn(c, a, keep))
	if warning := env.oldNode(c.Context(), path, args[0], environ); warning != "" {
		say(c, "%s", warning)
	}
	status, err := env.Become(path, args, environ)
	switch {
	case err != nil:
		return cannotRun("exec", args[0], err)
	case status != 0:
		return &Exit{Status: status}
	}
	return nil
}

// checkKept checks the names of variables that a program gets although purser uses them.
func checkKept(names []string) error {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "= ") {
			return fmt.Errorf("--keep-env takes the name of a variable, and was given %q", name)
		}
	}
	return nil
}

// passedOn returns this process's environment without what purser uses, and with the variables to keep.
func (env *Env) passedOn(c *cobra.Command, a access, keep []string) []string {
	environ := withoutOwn(env.inherited(), windows, env.used(c, a)...)
	for _, entry := range env.Environ() {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(keep, name) && !slices.Contains(environ, entry) {
			environ = append(environ, entry)
		}
	}
	return environ
}

const windows = runtime.GOOS == "windows"

// withoutOwn removes from an environment what purser uses: an agent must not have the master key, the
// deployment's keys, or the credentials of wallets and database. used names further variables.
// anyCase: the system does not tell capitals in names.
func withoutOwn(environ []string, anyCase bool, used ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		same := func(other string) bool {
			return (name == other || anyCase && strings.EqualFold(name, other)) && !environment.Common(name)
		}
		plain := name
		if anyCase {
			plain = strings.ToUpper(name)
		}
		return environment.Withheld(plain) ||
			slices.ContainsFunc(used, func(other string) bool { return same(other) || same(other+"_FILE") })
	})
}

// used returns the names of the variables that files of variables and the configuration have: those
// that the command can read, and those of the purser that answers.
func (env *Env) used(c *cobra.Command, a access) []string {
	names := slices.Concat(env.Layer.Ruled(), a.used, environment.References(env.path(cmp.Or(flag(c, "config"), initCaddyfile))))
	for _, file := range env.named {
		names = append(names, environment.References(filepath.Join(filepath.Dir(file), initCaddyfile))...)
	}
	client, err := env.adminOf(c)
	if err != nil {
		return names
	}
	if a.used == nil { // a key of the caller's own paid, so purser was not asked
		var s adminapi.Status
		if client.call(c.Context(), http.MethodGet, "/purser/status", nil, &s) == nil {
			names = append(names, s.Variables...)
		}
		return names
	}
	// A configuration may have come from no file.
	var config json.RawMessage
	if client.call(c.Context(), http.MethodGet, "/config/", nil, &config) == nil {
		names = append(names, environment.ReferencesIn(string(config))...)
	}
	return names
}

func cannotRun(command, name string, err error) *Exit {
	if of, is := errors.AsType[*exec.Error](err); is {
		err = of.Err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &Exit{execNotFound, fmt.Errorf("%s: %s: not found", command, name)}
	}
	return &Exit{execNotRunable, fmt.Errorf("%s: %s: %w", command, name, err)}
}

// environment makes the environment of a program, and tells people its warnings.
func (env *Env) environment(c *cobra.Command, flags *accessFlags) (e agentenv.Environment, a access, err error) {
	if a, err = env.findAccess(c.Context(), c, flags); err != nil {
		return e, a, err
	}
	e, err = agentenv.New(agentenv.Options{
		Proxy: a.proxy, Key: a.key, Task: a.task, Root: a.root, Environ: env.inherited(),
	})
	if err != nil {
		return e, a, err
	}
	for _, w := range e.Warnings {
		say(c, "%s", w)
	}
	if a.notice != "" {
		say(c, "%s", a.notice)
	}
	return e, a, nil
}

func envHelp() string {
	return `
Prints commands that set the environment which 'purser exec' gives to a program,
for a shell to evaluate. What they name stays as long as the shell does.

    $ eval "$(purser env)"
    $ purser env --shell fish | source
    $ purser env --shell powershell | Out-String | Invoke-Expression

To undo it, leave the shell, or unset what was set. JAVA_TOOL_OPTIONS, NO_PROXY
and variables that name certificates or settings keep what was in them, so set those
again that had a value before:

    $ unset ` + strings.Join(agentenv.Names(), " ") + `

Programs get the other variables of the shell as well, also those that purser uses: they are named.
'purser exec' withholds them.

See 'purser exec --help' for the flags, and for what heeds these variables.`
}

// warnOfShell names the variables of the shell that programs get from it, and would not from exec. It
// leaves out those that hold no secret.
func (env *Env) warnOfShell(c *cobra.Command, a access) {
	inherited := env.inherited()
	kept := withoutOwn(inherited, windows, env.used(c, a)...)
	var names []string
	for _, entry := range inherited {
		if name, value, _ := strings.Cut(entry, "="); value != "" && !slices.Contains(kept, entry) && !environment.Plain(name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		say(c, "programs of this shell get variables that purser uses, which 'purser exec' withholds: %s", strings.Join(slices.Compact(names), ", "))
	}
}

func (env *Env) envCommand(c *cobra.Command) {
	flags := newAccessFlags(c, execTask)
	shell := c.Flags().String("shell", "sh", "what to print: "+strings.Join(agentenv.Shells, ", "))
	oneOf(c, "shell", agentenv.Shells...)
	Run(c, func(c *cobra.Command, _ []string) error {
		// An unknown shell need not wait for anything.
		if _, err := (agentenv.Environment{}).Format(*shell); err != nil {
			return err
		}
		e, a, err := env.environment(c, flags)
		if err != nil {
			return err
		}
		text, err := e.Format(*shell)
		if err != nil {
			return err
		}
		env.warnOfShell(c, a)
		_, err = fmt.Fprint(c.OutOrStdout(), text)
		return err
	})
}
