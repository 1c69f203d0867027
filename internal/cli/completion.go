package cli

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/operatorkeys"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// A shell that completes a line waits for these.
const (
	completionTime = time.Second
	completionPage = 100
)

// oneOf completes a flag with the values that it can have.
func oneOf(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// networkNames lists the networks of wallets.
func networkNames() (names []string) {
	for _, n := range x402.Networks() {
		names = append(names, n.Name)
	}
	return names
}

// oneID completes the first argument with ids, if a running purser tells them at once.
func oneID(ids func(*cobra.Command) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := ids(c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// askIDs asks a running purser for a page of a list, and returns the ids with what describes them.
func askIDs[T any](
	env *Env, c *cobra.Command, name string, ask url.Values, row func(T) (id, what string),
) ([]cobra.Completion, error) {
	client, err := env.adminOf(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmp.Or(c.Context(), context.Background()), completionTime)
	defer cancel()
	ask.Set("limit", strconv.Itoa(completionPage))
	rows, _, err := fetchPage[T](ctx, client, name, ask)
	var list []cobra.Completion
	for _, v := range rows {
		id, what := row(v)
		list = append(list, cobra.CompletionWithDesc(label(id), label(what)))
	}
	return list, err
}

func (env *Env) keyIDs(c *cobra.Command) ([]cobra.Completion, error) {
	list, err := askIDs(env, c, "keys", url.Values{}, func(k adminapi.Key) (id, what string) { return k.ID, k.Label })
	return append([]cobra.Completion{operatorkeys.ExecLabel}, list...), err
}

func (env *Env) organizationIDs(c *cobra.Command) ([]cobra.Completion, error) {
	return askIDs(env, c, "organizations", url.Values{}, func(o adminapi.Organization) (id, what string) {
		return o.ID, string(o.Plan)
	})
}

func (env *Env) paymentIDs(c *cobra.Command) ([]cobra.Completion, error) {
	return env.paymentIDsIn(c, url.Values{})
}

func (env *Env) openPaymentIDs(c *cobra.Command) ([]cobra.Completion, error) {
	return env.paymentIDsIn(c, url.Values{"state": {string(pay.Open)}})
}

func (env *Env) paymentIDsIn(c *cobra.Command, ask url.Values) ([]cobra.Completion, error) {
	return askIDs(env, c, "payments", ask, func(p adminapi.Payment) (id, what string) {
		return p.ID, paymentLabels(p) + ", " + paymentMoney(p) + ", " + p.Host
	})
}
