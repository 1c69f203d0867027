package cli

import (
	"errors"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const statusHelp = `
Shows a running purser on one screen: where it listens, how it is, wallets with what they
hold, what keys spent today and may still spend, open payments, what was declined in the last
hour, and what to do. The exit status is 0 if it can take payments, else 1.

Amounts are in USDC, days those of UTC. Keys are listed by what they spent today, and wallets
by how little they hold, with the first of each; 'purser keys' and 'purser wallets' have all.

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
		var s Overview
		if err := a.client.call(a.Context(), http.MethodGet, path, nil, &s.Status); err != nil {
			return err
		}
		if !*quiet {
			s.now = env.Now()
			env.look(a, &s)
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
		return errors.New(unwellText(s.Status))
	})
}

// unwellText says what keeps purser from taking payments.
func unwellText(s adminapi.Status) string {
	if s.Outage != nil {
		return s.Outage.String()
	}
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
		{"nodes", s.Health.Nodes},
	} {
		if probe[1] != "" && probe[1] != "ok" && probe[1] != "none" {
			bad = append(bad, probe[0]+": "+probe[1])
		}
	}
	return strings.Join(bad, "; ")
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
