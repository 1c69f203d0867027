package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

const statusHelp = `
Shows the version of a running purser, its database, and whether it reaches its
facilitator and its chain. The exit status is 0 if it can take payments, else 1.

As a health check of a container or a service, --quiet prints nothing when all is well, and
--alive asks only whether purser runs: it succeeds too while payments are refused, because
the disk is full, say, or a restored backup is not reconciled. Restarting helps with
neither.

    $ purser status
    $ purser status --quiet --alive`

func statusCommand(c *cobra.Command) {
	adminFlag(c)
	c.Args = cobra.NoArgs
	quiet := c.Flags().BoolP("quiet", "q", false, "print nothing but what is wrong")
	alive := c.Flags().Bool("alive", false, "succeed if purser runs, whether or not it can take payments")
	run(c, func(c *cobra.Command, _ []string) error {
		client, err := adminOf(c)
		if err != nil {
			return err
		}
		var s status
		if err := client.call(c.Context(), http.MethodGet, "/purser/status", nil, &s); err != nil {
			return err
		}
		if !*quiet {
			if err := s.print(c.OutOrStdout()); err != nil {
				return err
			}
		}
		if !s.OK && !*alive {
			if s.Reconcile != nil {
				return errors.New(s.Reconcile.waiting(time.Now()))
			}
			return errors.New("not all is well")
		}
		return nil
	})
}

// adminOf is the client of the endpoint that a command's flag names.
func adminOf(c *cobra.Command) (*adminClient, error) {
	address, err := c.Flags().GetString("admin")
	if err != nil {
		return nil, err
	}
	return newAdminClient(address)
}

func (s status) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(t, "%s\t%s\n", name, value) }
	line("version", s.Version)
	if s.Store != nil {
		line("database", s.Store.Kind+" "+s.Store.Path)
		world := s.Store.World
		if world == "" {
			world = "not known yet"
		}
		line("chain", world)
	}
	if h := s.Health; h != nil {
		line("store", h.Store)
		line("facilitator", h.Facilitator)
		line("RPC", h.RPC)
		line("network", h.Network)
		line("wallets", h.Wallets)
	}
	if s.Reconcile != nil {
		s.Reconcile.lines(func(name, value string) { line(name, label(value)) })
	}
	return t.Flush()
}
