package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const organizationsHelp = `
Lists organizations with their plans and what they use of them: API keys, wallets,
and payments of this month. Somebody who signs in to the dashboard for the first time
gets one of their own, on the free plan.

    $ purser organizations
    $ purser organizations plan org_0199… developer`

const planHelp = `
Moves an organization to another plan: free, developer or agency. The dashboard's
settings show what a plan allows, and 'plan' in the configuration changes it. What
an organization has beyond a smaller plan stays; it cannot add to it.`

func (env *Env) organizationsCommand(c *cobra.Command) {
	adminFlag(c)
	limitFlag(c, adminapi.DefaultOrganizationPage)
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	Run(c, env.runOrganizations)

	plan := &cobra.Command{Use: "plan ORG PLAN", Short: "Moves an organization to another plan", Long: planHelp, Args: cobra.ExactArgs(2)}
	adminFlag(plan)
	plan.Flags().Bool("json", false, "print JSON")
	Run(plan, env.runPlan)
	plan.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []cobra.Completion{"free", "developer", "agency"}, cobra.ShellCompDirectiveNoFileComp
		}
		return oneID(env.organizationIDs)(c, args, typed)
	}
	c.AddCommand(plan)
}

func (env *Env) runOrganizations(c *cobra.Command, _ []string) error {
	most, err1 := limitOf(c)
	as, err2 := form(c)
	client, err3 := env.adminOf(c)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	return listing[adminapi.Organization]{
		path: "/purser/organizations", ask: url.Values{}, name: "organizations", cursor: "after", page: adminapi.MaxOrganizationPage, most: most,
		heads: organizationHeads, cells: organizationCells,
	}.print(c, client, as, nil)
}

func (env *Env) runPlan(c *cobra.Command, args []string) error {
	asJSON, err1 := c.Flags().GetBool("json")
	client, err2 := env.adminOf(c)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	plan, err := pay.ParsePlan(args[1])
	if err != nil {
		return err
	}
	if err := checkID("ORG", args[0]); err != nil {
		return err
	}
	var o adminapi.Organization
	path := "/purser/organizations/" + url.PathEscape(args[0]) + "/plan"
	if err := client.call(c.Context(), http.MethodPut, path, map[string]string{"plan": string(plan)}, &o); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), o)
	}
	t := newTable(c.OutOrStdout())
	t.row(organizationHeads...)
	t.row(organizationCells(o)...)
	return t.flush()
}

var organizationHeads = []string{"ORGANIZATION", "PLAN", "KEYS", "WALLETS", "PAYMENTS", "MADE"}

func organizationCells(o adminapi.Organization) []string {
	return []string{
		o.ID, strings.ToLower(string(o.Plan)), usageText(o.Keys), usageText(o.Wallets), usageText(o.Payments), o.Created.UTC().Format(time.RFC3339),
	}
}

func usageText(u adminapi.Usage) string {
	if u.Most == 0 {
		return strconv.Itoa(u.Used)
	}
	return fmt.Sprintf("%d of %d", u.Used, u.Most)
}
