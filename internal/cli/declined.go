package cli

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/pay"
)

const declinedHelp = `
Lists requests that purser did not pay, by reason, host or tool, and key, the latest first, as the
dashboard's page Declined does. Detail, task and price are those of the last one. purser keeps
the counts for 62 days, over restarts too. Days are those of UTC, and --since 7d begins with the
day a week ago. Quotes and dry runs are no declines.

    $ purser declined
    $ purser declined --since all --reason daily-budget
    $ purser declined --limit 5
    $ purser declined --key research --host api.example.com --json`

func (env *Env) declinedCommand(c *cobra.Command) {
	a := env.asks(c)
	a.keyFlag("only those of this key: its id, its label or exec")
	host := a.Flags().String("host", "", "only those for this host, or for one tool, mcp://HOST/tool/NAME")
	reason := a.Flags().String("reason", "", "only those for this reason, a word of Purser-Declined")
	var reasons []string
	for _, r := range declines.All() {
		reasons = append(reasons, r.Word)
	}
	slices.Sort(reasons)
	oneOf(c, "reason", slices.Compact(reasons)...) // a word may stand in two groups
	a.dayFlags("7d")
	a.limitFlag(0)
	a.jsonFlag(printsAmounts)
	a.runs(func([]string) error {
		for name, value := range map[string]string{"host": *host, "reason": *reason, "since": a.days.since, "until": a.days.until} {
			if value != "" {
				a.ask.Set(name, value)
			}
		}
		return listing[adminapi.Declined]{name: "declined", cursor: "before", columns: declinedColumns, cells: declinedCells}.print(a)
	})
}

var declinedColumns = []column{
	{head: "REASON"},
	{head: "HOST", holds: textCell},
	{head: "KEY", holds: textCell, spare: 3},
	{head: "TASK", holds: textCell, spare: 4},
	{head: "LAST (UTC)", holds: timeCell, spare: 2},
	{head: "USDC"},
	{head: "REQUESTS"},
	{head: "DETAIL", holds: textCell},
	{head: "YOU CAN", holds: textCell, spare: 1},
}

func declinedCells(d adminapi.Declined) []string {
	price, do := "-", "-"
	if d.Price != "" {
		price = units(d.Price)
	}
	if d.Do != nil {
		do = d.Do.Operator
	}
	host, reason := cmp.Or(d.Tool, d.Host), d.Reason
	if host == pay.RestName {
		host = "other hosts"
	}
	if reason == pay.RestName {
		reason = "other reasons"
	}
	return []string{
		reason, orDash(host), orDash(cmp.Or(d.KeyLabel, d.KeyID)), orDash(d.Task), when(d.Last), price, strconv.Itoa(d.Count),
		orDash(cmp.Or(d.Detail, declines.Why(d.Reason))), do,
	}
}
