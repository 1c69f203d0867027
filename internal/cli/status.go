package cli

import (
	"cmp"
	"errors"
	"fmt"
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
	a := env.asks(c)
	quiet := c.Flags().BoolP("quiet", "q", false, "print nothing but what is wrong")
	a.jsonFlag(printsJSON)
	alive := c.Flags().Bool("alive", false, "succeed if purser runs, whether or not it can take payments")
	a.runs(func([]string) error {
		path := "/purser/status"
		if !*quiet { // health checks come often, and quotas are counted one by one
			path += "?quotas=true"
		}
		var s adminapi.Status
		if err := a.client.call(a.Context(), http.MethodGet, path, nil, &s); err != nil {
			return err
		}
		if !*quiet {
			if err := show(a.OutOrStdout(), a.json, s, writeStatus); err != nil {
				return err
			}
		}
		switch {
		case s.OK || *alive:
			return nil
		case s.Reconcile != nil:
			return errors.New(waitingText(*s.Reconcile, env.Now()))
		}
		return errors.New(unwellText(s))
	})
}

// unwellText says what keeps purser from taking payments.
func unwellText(s adminapi.Status) string {
	if s.Health == nil {
		return "purser has not started"
	}
	bad := []string{"not all is well"}
	for _, probe := range [][2]string{
		{"store", s.Health.Store},
		{"facilitator", s.Health.Facilitator},
		{"RPC", s.Health.RPC},
		{"second RPC", s.Health.SecondRPC},
		{"signer", s.Health.Signer},
		{"clock", s.Health.Clock},
	} {
		if probe[1] != "" && probe[1] != "ok" && probe[1] != "none" {
			bad = append(bad, probe[0]+": "+probe[1])
		}
	}
	return strings.Join(bad, "; ")
}

func writeStatus(t *table, s adminapi.Status) {
	t.row("version", s.Version)
	if s.Store != nil {
		t.row("database", s.Store.Kind+" "+s.Store.Path)
		t.row("chain", cmp.Or(s.Store.World, "not known yet"))
	}
	if h := s.Health; h != nil {
		t.row("store", h.Store)
		t.row("facilitator", h.Facilitator)
		t.row("RPC", h.RPC)
		if h.SecondRPC != "none" {
			t.row("second RPC", h.SecondRPC)
		}
		t.row("clock", h.Clock)
		t.row("network", h.Network)
		t.row("wallets", h.Wallets)
		if h.Signer != "none" {
			t.row("signer", h.Signer)
		}
	}
	if q := s.Quotas; q != nil {
		t.row("quotas", fmt.Sprintf("%d of %d used up; fullest: %s, %s of %s payments this month",
			q.Exhausted, q.Counted, q.Fullest, q.Used, q.Most))
	}
	if s.Registration != nil {
		t.row("registration", registrationText(s.Registration))
	}
	if s.Paused != nil {
		t.row("payments", stateText(s.Paused, time.Time{}))
	}
	for _, k := range s.Replaced {
		t.row("earlier key", k.ID+" was PURSER_KEY and still pays: "+k.Command)
	}
	if s.Reconcile != nil {
		writePending(t, *s.Reconcile)
	}
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
