package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/pay"
)

const organizationsHelp = `
Lists organizations with their plans and what they use of them: API keys, wallets,
and payments of this month. Somebody who signs in to the dashboard for the first time
gets one of their own, on the free plan.

    $ purser organizations
    $ purser organizations plan org_0199… developer`

const planHelp = `
Moves an organization to another plan: free, developer or agency. What the plans
allow is in SPEC.md, and can be changed with 'plan' in the configuration. What an
organization has beyond a smaller plan stays; it cannot add to it.`

func registerOrganizationsCommand() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name: "organizations", Usage: "[flags]",
		Short: "Lists organizations, or moves one to another plan", Long: organizationsHelp, CobraFunc: organizationsCommand,
	})
}

func organizationsCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().Int("limit", defaultOrganizationPage, "how many at most")
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	run(c, runOrganizations)

	plan := &cobra.Command{Use: "plan ORG PLAN", Short: "Moves an organization to another plan", Long: planHelp, Args: cobra.ExactArgs(2)}
	adminFlag(plan)
	plan.Flags().Bool("json", false, "print JSON")
	run(plan, runPlan)
	c.AddCommand(plan)
}

func runOrganizations(c *cobra.Command, _ []string) error {
	limit, err1 := c.Flags().GetInt("limit")
	asJSON, err2 := c.Flags().GetBool("json")
	client, err3 := adminOf(c)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	if limit < 1 {
		return errors.New("--limit: a number above 0")
	}
	all := adminOrganizations{Organizations: []adminOrganization{}}
	for len(all.Organizations) < limit {
		ask := url.Values{"limit": {strconv.Itoa(min(limit-len(all.Organizations), maxOrganizationPage))}}
		if all.Next != "" {
			ask.Set("after", all.Next)
		}
		var page adminOrganizations
		if err := client.call(c.Context(), http.MethodGet, "/purser/organizations?"+ask.Encode(), nil, &page); err != nil {
			return err
		}
		all.Organizations, all.Next = append(all.Organizations, page.Organizations...), page.Next
		if page.Next == "" {
			break
		}
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	if err := printOrganizations(c.OutOrStdout(), all.Organizations); err != nil {
		return err
	}
	if all.Next != "" {
		say(c, "there are more; --limit shows them")
	}
	return nil
}

func runPlan(c *cobra.Command, args []string) error {
	asJSON, err1 := c.Flags().GetBool("json")
	client, err2 := adminOf(c)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	plan, err := pay.ParsePlan(args[1])
	if err != nil {
		return err
	}
	var o adminOrganization
	path := "/purser/organizations/" + url.PathEscape(args[0]) + "/plan"
	if err := client.call(c.Context(), http.MethodPut, path, map[string]string{"plan": string(plan)}, &o); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), o)
	}
	return printOrganizations(c.OutOrStdout(), []adminOrganization{o})
}

func printOrganizations(w io.Writer, all []adminOrganization) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells(t, "ORGANIZATION", "PLAN", "KEYS", "WALLETS", "PAYMENTS", "MADE")
	for _, o := range all {
		cells(t, label(o.ID), strings.ToLower(string(o.Plan)), o.Keys.text(), o.Wallets.text(), o.Payments.text(),
			o.Created.UTC().Format(time.RFC3339))
	}
	return t.Flush()
}

func (u adminUse) text() string { return fmt.Sprintf("%d of %d", u.Used, u.Most) }
