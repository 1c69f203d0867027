package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const organizationsHelp = `
Lists organizations with their plans and what they use of them: API keys, wallets,
and payments of this month. Somebody who signs in to the dashboard for the first time
gets one of their own, on the free plan.

    $ purser organizations list
    $ purser organizations plan org_0199… developer`

const planHelp = `
Moves an organization to another plan: free, developer or agency. The dashboard's
settings show what a plan allows, and 'plan' in the configuration changes it. What
an organization has beyond a smaller plan stays; it cannot add to it.`

func (env *Env) organizationsCommand(c *cobra.Command) {
	a := env.asks(c)
	listOrganizations(a)
	listOrganizations(a.list("Lists organizations, as 'purser organizations' does"))
	planCommand(a)
}

func listOrganizations(a *asking) {
	a.limitFlag(adminapi.DefaultPage)
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		return listing[adminapi.Organization]{
			name: "organizations", cursor: "after", columns: organizationColumns, cells: organizationCells,
		}.print(a)
	})
}

func planCommand(organizations *asking) {
	a := organizations.sub("plan ORG PLAN", "Moves an organization to another plan", planHelp, cobra.ExactArgs(2))
	a.changes("move the organization {} to another plan")
	a.jsonFlag(printsJSON)
	a.runs(func(args []string) error {
		plan, err := pay.ParsePlan(args[1])
		if err != nil {
			return err
		}
		if err := checkID("ORG", args[0]); err != nil {
			return err
		}
		a.dry.would = "move the organization {} to the plan " + args[1]
		path := "/purser/organizations/" + url.PathEscape(args[0]) + "/plan"
		body := adminapi.PlanChange{Plan: string(plan)}
		return tell(a, http.MethodPut, path, body, func(t *table, o adminapi.Organization) {
			for i, cell := range organizationCells(o) {
				t.row(strings.ToLower(organizationColumns[i].head), cell)
			}
		})
	})
	organization := ids(a.env, "organizations", url.Values{}, func(o adminapi.Organization) (id, what string) {
		return o.ID, string(o.Plan)
	})
	a.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []cobra.Completion{"free", "developer", "agency"}, cobra.ShellCompDirectiveNoFileComp
		}
		return organization(c, args, typed)
	}
}

var organizationColumns = []column{
	{head: "ORGANIZATION", holds: idCell}, {head: "PLAN"}, {head: "KEYS"}, {head: "WALLETS"}, {head: "PAYMENTS"}, {head: "MADE (UTC)", holds: timeCell},
}

func organizationCells(o adminapi.Organization) []string {
	return []string{
		o.ID, strings.ToLower(string(o.Plan)), usageText(o.Keys), usageText(o.Wallets), usageText(o.Payments),
		when(o.Created),
	}
}

func usageText(u adminapi.Usage) string {
	if u.Most == 0 {
		return strconv.Itoa(u.Used)
	}
	return fmt.Sprintf("%d of %d", u.Used, u.Most)
}
