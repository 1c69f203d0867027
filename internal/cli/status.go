package cli

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const statusHelp = `
Shows the version of a running purser, its database, and whether it reaches its
facilitator and its chain. The exit status is 0 if it can take payments, else 1.

As a health check of a container or a service, --quiet prints nothing when all is well, and
--alive asks only whether purser runs: it succeeds too while payments are refused, because
the disk is full, say, or a restored backup is not reconciled. Restarting helps with
neither. A pause (purser pause) is shown and is no failure.

    $ purser status
    $ purser status --json
    $ purser status --quiet --alive`

func (env *Env) statusCommand(c *cobra.Command) {
	adminFlag(c)
	c.Args = cobra.NoArgs
	quiet := c.Flags().BoolP("quiet", "q", false, "print nothing but what is wrong")
	c.Flags().Bool("json", false, "print JSON")
	alive := c.Flags().Bool("alive", false, "succeed if purser runs, whether or not it can take payments")
	Run(c, func(c *cobra.Command, _ []string) error {
		client, err := env.adminOf(c)
		if err != nil {
			return err
		}
		as, err := form(c)
		if err != nil {
			return err
		}
		var s adminapi.Status
		ask := "/purser/status"
		if !*quiet { // health checks come often, and quotas are counted one by one
			ask += "?quotas=true"
		}
		if err := client.call(c.Context(), http.MethodGet, ask, nil, &s); err != nil {
			return err
		}
		switch {
		case *quiet:
		case as == asJSON:
			err = printJSON(c.OutOrStdout(), s)
		default:
			err = printStatus(c.OutOrStdout(), s)
		}
		if err != nil {
			return err
		}
		if !s.OK && !*alive {
			if s.Reconcile != nil {
				return errors.New(waitingText(*s.Reconcile, env.Now()))
			}
			return errors.New(unwellText(s))
		}
		return nil
	})
}

// adminOf is the client of the endpoint that a command's flag names.
func (env *Env) adminOf(c *cobra.Command) (*adminClient, error) {
	address, err := c.Flags().GetString("admin")
	if err != nil {
		return nil, err
	}
	return env.newAdminClient(address)
}

// unwell says what keeps purser from taking payments.
func unwellText(s adminapi.Status) string {
	if s.Health == nil {
		return "purser has not started"
	}
	var bad []string
	for _, probe := range [][2]string{{"store", s.Health.Store}, {"facilitator", s.Health.Facilitator}, {"RPC", s.Health.RPC}, {"second RPC", s.Health.SecondRPC}, {"clock", s.Health.Clock}} {
		if probe[1] != "" && probe[1] != "ok" && probe[1] != "none" {
			bad = append(bad, probe[0]+": "+probe[1])
		}
	}
	return strings.Join(append([]string{"not all is well"}, bad...), "; ")
}

func printStatus(w io.Writer, s adminapi.Status) error {
	t := newTable(w)
	line := func(name, value string) { t.row(name, value) }
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
		if h.SecondRPC != "none" {
			line("second RPC", h.SecondRPC)
		}
		line("clock", h.Clock)
		line("network", h.Network)
		line("wallets", h.Wallets)
	}
	if s.Quotas != nil {
		line("quotas", quotasText(s.Quotas))
	}
	if s.Registration != nil {
		line("registration", registrationText(s.Registration))
	}
	if s.Paused != nil {
		line("payments", stateText(s.Paused, time.Time{}))
	}
	for _, k := range s.Replaced {
		line("earlier key", k.ID+" was PURSER_KEY and still pays: "+k.Command)
	}
	if s.Reconcile != nil {
		reconcileLines(*s.Reconcile, line)
	}
	return t.flush()
}

func registrationText(s *adminapi.RegistrationStatus) string {
	switch {
	case !s.Open:
		return off
	case s.Exposed == nil:
		return "open"
	}
	return "open to everybody who reaches " + strings.Join(s.Exposed, ", ") + "; PURSER_REGISTRATION=off closes it"
}
