package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/stdio"
)

// lastWords bounds how long a server's descendants are heard after its end.
const lastWords = time.Second

const mcpRunHelp = `
Runs a local MCP server that sells tools over its standard input and output, and pays
for its client. The client's configuration names this command in the place of the
server's. Messages pass as they are. Where the server asks for money for a call, the
running purser pays within the limits of the key, and the client gets the answer. A
call that is not paid gets an error with the reason.

    $ purser mcp run --key-file agent.key -- weather-server --units metric
    $ claude mcp add weather -- purser mcp run --key-file /path/to/agent.key -- weather-server
    $ purser mcp run --name weather -- npx -y weather-server

Payments are asked for at purser's REST API, so the key must pay there (--door api);
a key with rules for hosts must also have payees. They are booked as
mcp://NAME.stdio/tool/TOOL, and NAME is that of the program unless --name says otherwise.

The server does not get purser's variables, as with 'purser exec': --keep-env passes one
on. It ends with the input, gets the signals, and its exit status is passed on.`

func (env *Env) mcpRunCommand(of *cobra.Command) {
	c := &cobra.Command{
		Use: "run [flags] [--] COMMAND [ARGUMENTS…]", Short: "Runs a local MCP server, and pays for calls of its tools",
		Long: mcpRunHelp, Args: cobra.ArbitraryArgs,
	}
	of.AddCommand(c)
	flags := newAccessFlags(c, mcpTask)
	keep := c.Flags().StringArray("keep-env", nil, "a variable that the server gets although purser uses it, may be given several times")
	name := c.Flags().String("name", "", "name of the server in the books, of a-z 0-9 - (default: that of the program)")
	state := c.Flags().String("state", "", "folder for purchases whose answers have not come (default: purser/mcp in $XDG_STATE_HOME, ~/.local/state or %LOCALAPPDATA%)")
	c.Flags().SetInterspersed(false) // flags behind the program are the program's
	run(c, execFailed, func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("mcp run: which server? (purser mcp run --help)")
		}
		if err := checkKept(*keep); err != nil {
			return fmt.Errorf("mcp run: %w", err)
		}
		host := serverName(cmp.Or(*name, filepath.Base(args[0])))
		if host == "" || *name != "" && host != *name {
			return fmt.Errorf("mcp run: --name %q is not 1 to 63 characters of a-z 0-9 -", *name)
		}
		dir, err := env.stateDir(*state)
		if err != nil {
			return err
		}
		path, err := env.lookPath(args[0])
		if err != nil {
			return cannotRun("mcp run", args[0], err)
		}
		if err := env.checkAccess(c.Context(), c, flags); err != nil {
			return err
		}
		a, err := env.findAccess(c.Context(), c, flags)
		if err != nil && !errors.Is(err, errNoAnswer) {
			return err
		}
		return env.serve(c, flags, stdio.Options{Version: env.Version, Host: host + ".stdio", Command: args, Dir: dir}, path, env.passedOn(c, a, *keep))
	})
}

// serverName makes a label of a host of a program's name.
func serverName(program string) string {
	program = strings.ToLower(program)
	program = strings.TrimSuffix(program, filepath.Ext(program))
	label := strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' {
			return c
		}
		return '-'
	}, program)
	return strings.Trim(label[:min(len(label), 63)], "-")
}

// stateDir returns the folder for what must outlive the process.
func (env *Env) stateDir(given string) (string, error) {
	if given != "" {
		return env.path(given), nil
	}
	base := cmp.Or(env.Getenv("XDG_STATE_HOME"), env.Getenv("LOCALAPPDATA"))
	if home := env.Getenv("HOME"); base == "" && home != "" {
		base = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(base) {
		return "", errors.New("mcp run: no folder is known for purchases whose answers have not come: name one with --state")
	}
	return filepath.Join(base, "purser", "mcp"), nil
}

// serve runs a server between this process's streams.
func (env *Env) serve(c *cobra.Command, flags *accessFlags, o stdio.Options, path string, environ []string) error {
	said := c.ErrOrStderr()
	if _, file := said.(*os.File); !file { // else the server writes to it by itself
		said = &oneByOne{to: said}
		c.SetErr(said)
	}
	answers, written, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("mcp run: %w", err)
	}
	defer func() { _ = answers.Close() }()
	server := exec.Command(path, o.Command[1:]...) //nolint:gosec,noctx // running what the user asks for is the purpose; its input ends it
	server.Args[0], server.Dir, server.Env = o.Command[0], env.Dir, environ
	server.Stdout, server.Stderr, server.WaitDelay = written, said, lastWords
	input, err := server.StdinPipe()
	if err != nil {
		return errors.Join(fmt.Errorf("mcp run: %w", err), written.Close())
	}
	o.Connect = func(ctx context.Context) (*agent.Client, error) {
		a, err := env.findAccess(ctx, c, flags)
		if err != nil {
			return nil, err
		}
		return a.client(mcpTime), nil
	}
	o.Now, o.Tell = env.Now, func(format string, args ...any) { say(c, format, args...) }
	o.FromClient, o.ToClient, o.FromServer, o.ToServer = c.InOrStdin(), c.OutOrStdout(), answers, input
	relay, err := stdio.New(o)
	if err != nil {
		return errors.Join(fmt.Errorf("mcp run: %w", err), written.Close())
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	err = server.Start()
	_ = written.Close()
	if err != nil {
		return cannotRun("mcp run", o.Command[0], err)
	}
	ended := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_ = server.Wait()                                              // its state says more
		if answers.SetReadDeadline(time.Now().Add(lastWords)) != nil { // where pipes have none
			_ = answers.Close()
		}
		close(ended)
	})
	waiting.Go(func() {
		for {
			select {
			case s := <-signals:
				if server.Process.Signal(s) != nil { // where processes get no signals
					_ = server.Process.Kill()
				}
			case <-ended:
				return
			}
		}
	})
	err = relay.Run(c.Context())
	_ = input.Close()
	waiting.Wait()
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("mcp run: reading the server's messages: %w", err)
	}
	if status := exitStatus(server.ProcessState); status != 0 {
		return &Exit{Status: status}
	}
	return nil
}

// exitStatus returns the exit status of a process as shells have it.
func exitStatus(p *os.ProcessState) int {
	if s, is := p.Sys().(syscall.WaitStatus); is && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return p.ExitCode()
}

// oneByOne lets several writers write.
type oneByOne struct {
	mu sync.Mutex
	to io.Writer
}

func (w *oneByOne) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
