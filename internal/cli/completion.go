package cli

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/operatorkeys"
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

// keyFlag completes --key with the ids of keys.
func (env *Env) keyFlag(c *cobra.Command) {
	complete := oneID(env.keyIDs)
	_ = c.RegisterFlagCompletionFunc("key", func(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return complete(c, nil, typed)
	})
}

// askShortly asks a running purser for a page of completions.
func (env *Env) askShortly(c *cobra.Command, path string, ask url.Values, page any) error {
	client, err := env.adminOf(c)
	if err != nil {
		return err
	}
	parent := c.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTime)
	defer cancel()
	ask.Set("limit", strconv.Itoa(completionPage))
	return client.call(ctx, http.MethodGet, path+"?"+ask.Encode(), nil, page)
}

// keyIDs are the ids of keys with their labels.
func (env *Env) keyIDs(c *cobra.Command) (list []cobra.Completion, err error) {
	var page adminapi.Keys
	if err := env.askShortly(c, "/purser/keys", url.Values{}, &page); err != nil {
		return nil, err
	}
	list = append(list, operatorkeys.ExecLabel)
	for _, k := range page.Keys {
		list = append(list, cobra.CompletionWithDesc(label(k.ID), label(k.Label)))
	}
	return list, nil
}

// organizationIDs are the ids of organizations with their plans.
func (env *Env) organizationIDs(c *cobra.Command) (list []cobra.Completion, err error) {
	var page adminapi.Organizations
	if err := env.askShortly(c, "/purser/organizations", url.Values{}, &page); err != nil {
		return nil, err
	}
	for _, o := range page.Organizations {
		list = append(list, cobra.CompletionWithDesc(label(o.ID), label(string(o.Plan))))
	}
	return list, nil
}

// paymentIDs are the ids of the newest payments in a state, or in any, with what they were for.
func (env *Env) paymentIDs(c *cobra.Command, state string) (list []cobra.Completion, err error) {
	ask := url.Values{}
	if state != "" {
		ask.Set("state", state)
	}
	var page adminapi.Payments
	if err := env.askShortly(c, "/purser/payments", ask, &page); err != nil {
		return nil, err
	}
	for _, p := range page.Payments {
		list = append(list, cobra.CompletionWithDesc(label(p.ID), label(paymentLabels(p)+", "+paymentMoney(p)+", "+p.Host)))
	}
	return list, nil
}
