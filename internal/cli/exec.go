package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/agentenv"
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
as another user. Purser's own variables are not passed on: PURSER_…, CDP_…, and
with PURSER_STORE=postgres DATABASE_URL.

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
	c.Flags().SetInterspersed(false) // flags behind the program are the program's
	c.Args = cobra.ArbitraryArgs
	run(c, execFailed, func(c *cobra.Command, args []string) error { return env.becomes(c, flags, args) })
}

// becomes turns this process into a program. It returns if it cannot.
func (env *Env) becomes(c *cobra.Command, flags *accessFlags, args []string) error {
	if len(args) == 0 {
		return errors.New("exec: which program? (purser exec --help)")
	}
	// Looked for first: what is misspelt need not wait for anything.
	path, err := env.lookPath(args[0])
	if err != nil {
		return cannotRun(args[0], err)
	}
	e, err := env.environment(c, flags)
	if err != nil {
		return err
	}
	environ := e.Apply(withoutOwn(env.inherited(), runtime.GOOS == "windows"))
	if warning := env.oldNode(c.Context(), path, args[0], environ); warning != "" {
		say(c, "%s", warning)
	}
	status, err := env.Become(path, args, environ)
	switch {
	case err != nil:
		return cannotRun(args[0], err)
	case status != 0:
		return &Exit{Status: status}
	}
	return nil
}

// withoutOwn removes purser's own variables from an environment: an agent must not have the master
// key, the deployment's keys, or the credentials of wallets and database. DATABASE_URL is the
// program's own unless purser's store uses it. anyCase: the system does not tell capitals in names.
func withoutOwn(environ []string, anyCase bool) []string {
	split := func(entry string) (name, value string) {
		name, value, _ = strings.Cut(entry, "=")
		if anyCase {
			name = strings.ToUpper(name)
		}
		return name, value
	}
	database := slices.ContainsFunc(environ, func(entry string) bool {
		name, value := split(entry)
		return name == "PURSER_STORE" && strings.TrimSpace(value) == "postgres"
	})
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _ := split(entry)
		return strings.HasPrefix(name, "PURSER_") || strings.HasPrefix(name, "CDP_") ||
			database && (name == "DATABASE_URL" || name == "DATABASE_URL_FILE")
	})
}

func cannotRun(name string, err error) *Exit {
	if of, is := errors.AsType[*exec.Error](err); is {
		err = of.Err
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &Exit{execNotFound, fmt.Errorf("exec: %s: not found", name)}
	}
	return &Exit{execNotRunable, fmt.Errorf("exec: %s: %w", name, err)}
}

// environment makes the environment of a program, and tells people its warnings.
func (env *Env) environment(c *cobra.Command, flags *accessFlags) (agentenv.Environment, error) {
	a, err := env.findAccess(c.Context(), c, flags)
	if err != nil {
		return agentenv.Environment{}, err
	}
	e, err := agentenv.New(agentenv.Options{
		Proxy: a.proxy, Key: a.key, Task: a.task, Root: a.root, Environ: env.inherited(),
	})
	if err != nil {
		return agentenv.Environment{}, err
	}
	for _, w := range e.Warnings {
		say(c, "%s", w)
	}
	if a.notice != "" {
		say(c, "%s", a.notice)
	}
	return e, nil
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

See 'purser exec --help' for the flags, and for what heeds these variables.`
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
		e, err := env.environment(c, flags)
		if err != nil {
			return err
		}
		text, err := e.Format(*shell)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(c.OutOrStdout(), text)
		return err
	})
}
