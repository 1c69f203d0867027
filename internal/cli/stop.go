package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

// knock connects to the endpoint, and leaves.
func (c *adminClient) knock(ctx context.Context) error {
	network, target, err := splitAddress(c.address)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, network, target)
	if err != nil {
		return err
	}
	return conn.Close()
}

const stopHelp = `
Ends the running purser that 'purser status' shows, and waits until it has ended: it
finishes the requests in flight first.

    $ purser stop
    $ purser stop --admin unix//run/purser/admin.sock`

func (env *Env) stopServer(c *cobra.Command) error {
	client, err := env.serverOf(c)
	if err != nil {
		return end(c, 1, err)
	}
	var s adminapi.Status
	if err := client.call(c.Context(), http.MethodGet, "/purser/status", nil, &s); err != nil {
		return end(c, 1, fmt.Errorf("stop: %w", err))
	}
	if err := client.stop(c.Context(), s.Process); err != nil {
		return end(c, 1, err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "Stopped purser (pid %d)\n", s.Process)
	return err
}

// stop ends a running purser, and waits until it has ended.
func (c *adminClient) stop(ctx context.Context, pid int) error {
	c.client.Timeout = 0 // the answer comes when what was in flight is finished
	resp, err := c.send(ctx, http.MethodPost, "/stop", nil)
	if err != nil && !errors.Is(err, errNoAnswer) { // the process may end before its answer arrives
		return fmt.Errorf("stop: %w", err)
	}
	if err == nil {
		_ = resp.Body.Close()
	}
	for until := time.Now().Add(stopTime); c.knock(ctx) == nil; {
		if time.Now().After(until) {
			return fmt.Errorf("stop: purser (pid %d) was told to end, and still answers", pid)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(stopPoll):
		}
	}
	return nil
}

// serverOf returns a client of the server that a command is for.
func (env *Env) serverOf(c *cobra.Command) (*adminClient, error) {
	var config []byte
	if file := flag(c, "config"); file != "" && file != "-" && cmp.Or(flag(c, "address"), env.Getenv(adminapi.AddressVariable)) == "" {
		env.Caddy.Hush()
		var err error
		if config, _, _, err = env.Caddy.LoadConfig(file, flag(c, "adapter")); err != nil {
			return nil, mistake(err, file, env.Layer)
		}
	}
	return env.newAdminClient(env.serverAddress(c, config))
}
