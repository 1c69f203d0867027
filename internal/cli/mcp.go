package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/agent"
	"github.com/purserpay/purser/internal/mcp"
)

// mcpTask labels what agents pay for through `purser mcp`, unless the caller names a task.
const mcpTask = "mcp"

// mcpTime bounds one call: sellers may take their time, and so may the chain.
const mcpTime = 5 * time.Minute

const mcpHelp = `
Serves a running purser to agents that speak the Model Context Protocol, as Claude
Code, Codex and Cursor do. It has the tools

    fetch_paid    makes an HTTP request, and pays if it costs something
    quote         says what a request would cost, and pays nothing
    limits        says what may be spent, and what is left
    spend         lists what was spent
    payments      lists payments with their states

It talks on its standard input and output, and ends when the input does: agents
start it themselves. With --listen it serves streamable HTTP at /mcp.

    $ claude mcp add purser -- purser mcp --key-file /path/to/agent.key
    $ purser mcp --listen 127.0.0.1:8410

Without --key or --key-file purser's exec key pays, as with 'purser exec'. What
agents may spend are the limits of the key; see 'purser limits'. purser need not run
yet: until it does, the tools say that it does not answer.

With --listen all who reach the address spend with this one key; there is no other
password. So it listens on loopback only, unless --allow-remote is given. Web pages
are refused by their Origin and Host.`

func (env *Env) mcpCommand(c *cobra.Command) {
	flags := newAccessFlags(c, mcpTask)
	listen := c.Flags().String("listen", "", "address to serve streamable HTTP at, such as 127.0.0.1:8410 (default: standard input and output)")
	env.mcpRunCommand(c)
	remote := c.Flags().Bool("allow-remote", false, "let --listen be an address that other machines reach: they spend with the key")
	most := c.Flags().Int("max-body", mcp.DefaultMaxBody, "bytes of an answer's body that an agent gets; longer ones are cut")
	Run(c, func(c *cobra.Command, _ []string) error {
		switch {
		case *most <= 0:
			return fmt.Errorf("mcp: --max-body %d is not a number of bytes", *most)
		case *remote && *listen == "":
			return errors.New("mcp: --allow-remote is for --listen")
		case *listen != "" && !*remote && !mcp.IsLoopback(*listen):
			return fmt.Errorf("mcp: --listen %q is not an address of loopback such as 127.0.0.1:8410: "+
				"all who reach it spend with the key, so other addresses need --allow-remote", *listen)
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		connect := func(ctx context.Context) (*agent.Client, error) {
			a, err := env.findAccess(ctx, c, flags)
			if err != nil {
				return nil, err
			}
			return a.client(mcpTime), nil
		}
		if err := env.checkAccess(ctx, c, flags); err != nil {
			return err
		}
		options := mcp.Options{Connect: connect, MaxBody: *most, Version: env.Version}
		if *listen == "" {
			return mcp.ServeStdio(ctx, options, c.InOrStdin(), c.OutOrStdout())
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
		if err != nil {
			return fmt.Errorf("mcp: %w", err)
		}
		fmt.Fprintf(c.OutOrStdout(), "MCP at http://%s%s\n", l.Addr(), mcp.Path)
		return mcp.ServeHTTP(ctx, options, l, !mcp.IsLoopback(l.Addr().String()))
	})
}

// checkAccess looks for purser, and tells people of what they should know. That purser does not answer
// yet is no error.
func (env *Env) checkAccess(ctx context.Context, c *cobra.Command, flags *accessFlags) error {
	a, err := env.findAccess(ctx, c, flags)
	if errors.Is(err, errNoAnswer) {
		say(c, "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	if a.notice != "" {
		say(c, "%s", a.notice)
	}
	var limits struct{}
	if err := a.client(env.askTime()).Read(ctx, "/v1/limits", nil, &limits); errors.Is(err, agent.ErrUnknownKey) {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil // a proxy of one's own may be without the REST API
}
