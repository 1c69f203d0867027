package cli

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/trouble"
)

const statusHelp = `
Shows a running purser on one screen: where it listens, how it is, wallets with what they
hold, what keys spent today and may still spend, open payments, what was declined in the last
hour, what is wrong, and what to do. The exit status is 1 if something stops payments, or a
kind of them, 2 if something will, such as an RPC that is down or an empty wallet, else 0.

Amounts are in USDC, days those of UTC. Keys are listed by what they spent today, and wallets
by how little they hold, with the first of each; 'purser keys' and 'purser wallets' have all.

As a health check of a container or a service, --quiet prints nothing when all is well. With
--ready it succeeds when /health does: the database works, and is reconciled; services that
are down, empty wallets and a pause do not count. --alive asks only whether purser runs:
restarting helps with nothing else.

    $ purser status
    $ purser status --json
    $ purser status --quiet --alive`

func (env *Env) statusCommand(c *cobra.Command) {
	a := env.asks(c)
	quiet := c.Flags().BoolP("quiet", "q", false, "print nothing but what is wrong")
	a.jsonFlag(printsJSON)
	alive := c.Flags().Bool("alive", false, "succeed if purser runs, whether or not it can take payments")
	ready := c.Flags().Bool("ready", false, "succeed if the database works and is reconciled, whatever else is wrong")
	c.MarkFlagsMutuallyExclusive("alive", "ready")
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
		return unwell(s.Status, *alive || *ready && s.OK, env.Now())
	})
}

// unwell is nil unless something stops payments, or will: then it names that, and has the exit status. enough: what
// was asked for is the case.
func unwell(s adminapi.Status, enough bool, now time.Time) error {
	switch {
	case enough:
		return nil
	case s.Outage != nil:
		return errors.New(s.Outage.String())
	case s.Health == nil:
		return errors.New("purser has not started")
	}
	var bad []string
	for _, t := range s.Troubles {
		if t.Effect != trouble.Look {
			bad = append(bad, t.Says)
		}
	}
	if s.Reconcile != nil {
		bad = append(bad, waitingText(*s.Reconcile, now))
	}
	if status := trouble.Exit(s.Troubles); status != 0 {
		return &Exit{status, errors.New(strings.Join(bad, "; "))}
	}
	if !s.OK {
		return errors.New("not all is well")
	}
	return nil
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
