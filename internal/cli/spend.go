package cli

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/bookkeeping"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

const spendHelp = `
Lists what keys spent, newest first, with the sum. Days are those of UTC, and --since 7d
begins with the day a week ago. A settlement that the chain disproved is taken back by an
event with a negative amount. Withdrawals are listed, and are in no sum but their own.
With more than a thousand keys, what the first thousand spent comes first. --by host, tool,
task, key or day sums it up, with the count of payments and the share of the total. A tool is
what a server of MCP sells, and has a name such as mcp://api.example.com/tool/get_weather.

    $ purser spend
    $ purser spend --since 2026-11-01 --until 2026-11-30 --csv > november.csv
    $ purser spend --since all --key 0199… --json
    $ purser spend --task nightly --host api.example.com
    $ purser spend --by tool
    $ purser spend --by day --since 7d --key research`

const firstPayment = "To pay for a request: fund a wallet ('purser wallets' has the address), then purser exec -- curl -i URL"

func (env *Env) spendCommand(c *cobra.Command) {
	a := env.asks(c)
	a.dayFlags("30d")
	a.keyFlag("only what this key spent: its id, its label or exec")
	task := c.Flags().String("task", "", "only what has this task label")
	host := c.Flags().String("host", "", "only what was paid for this host, or for one tool, mcp://HOST/tool/NAME")
	by := c.Flags().String("by", "", "sum up by host, tool, task, key or day instead of listing every event")
	oneOf(c, "by", groupings...)
	a.limitFlag(0)
	a.jsonFlag(printsAmounts)
	a.csvFlag()
	a.runs(func([]string) error {
		asked := map[string]string{"task": *task, "host": *host, "since": a.days.since, "until": a.days.until}
		for name, value := range asked {
			if value != "" {
				a.ask.Set(name, value)
			}
		}
		if c.Flags().Changed("by") {
			return spendBy(a, *by)
		}
		filtered := *task != "" || *host != "" || a.key != "" || a.days.until != ""
		var sum, nothing, moved big.Int
		count, undelivered, withdrawals := 0, 0, 0
		err := listing[adminapi.SpendEvent]{
			name: "spend", cursor: "before",
			columns: []column{
				{head: "TIME (UTC)", holds: timeCell},
				{head: "USDC"},
				{head: "HOST", holds: textCell},
				{head: "TASK", holds: textCell},
				{head: "KEY", holds: textCell},
				{head: "PAYMENT", holds: idCell, spare: 1},
				{head: "NOTES", holds: textCell},
			}, cells: spendCells,
			fields: spendFields, values: spendValues,
			each: func(e adminapi.SpendEvent) {
				n, ok := new(big.Int).SetString(e.Amount, 10)
				if e.Kind == bookkeeping.Withdrawal {
					withdrawals += bookedOnce(e)
					if ok {
						moved.Add(&moved, n)
					}
					return
				}
				count++
				if ok {
					sum.Add(&sum, n)
					if broughtNothing(e) {
						undelivered++
						nothing.Add(&nothing, n)
					}
				}
			},
			members: func() map[string]any {
				return map[string]any{"count": count, "total": sum.String(), "undelivered": nothings{undelivered, nothing.String()}, "withdrawn": withdrawn{withdrawals, moved.String()}}
			},
		}.print(a)
		if err != nil || a.json.on || a.csv {
			return err
		}
		events := "1 event"
		if count != 1 {
			events = strconv.Itoa(count) + " events"
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s, %s USDC%s\n%s%s", events, signedUnits(sum.String()), period(a.days),
			nothings{undelivered, nothing.String()}, withdrawn{withdrawals, moved.String()})
		if count+withdrawals == 0 && !filtered && err == nil {
			err = speak(c, "%s\n", firstPayment)
		}
		return err
	})
}

// nothings sums up the payments that brought nothing.
type nothings struct {
	Count  int    `json:"count"`
	Amount string `json:"amount"` // in the smallest unit
}

// String is the line behind a sum; "" without such a payment.
func (n nothings) String() string {
	if n.Count == 0 {
		return ""
	}
	return fmt.Sprintf("of this, paid and not delivered: %s USDC in %s (purser payments --undelivered)\n", signedUnits(n.Amount), paymentsOf(n.Count))
}

// withdrawn sums up withdrawals.
type withdrawn nothings

// String is the line behind a sum; "" without a withdrawal.
func (w withdrawn) String() string {
	switch {
	case w.Count == 0 && w.Amount == "0":
		return ""
	case w.Count == 1:
		return fmt.Sprintf("not in this sum: 1 withdrawal, %s USDC\n", signedUnits(w.Amount))
	}
	return fmt.Sprintf("not in this sum: %d withdrawals, %s USDC\n", w.Count, signedUnits(w.Amount))
}

// bookedOnce is 1 for an event that takes none back.
func bookedOnce(e adminapi.SpendEvent) int {
	if e.Corrects != "" {
		return 0
	}
	return 1
}

func paymentsOf(n int) string {
	if n == 1 {
		return "1 payment"
	}
	return strconv.Itoa(n) + " payments"
}

// broughtNothing reports whether an event is the spend of a payment that was not delivered.
func broughtNothing(e adminapi.SpendEvent) bool {
	return e.Corrects == "" && slices.Contains(e.Flags, "undelivered")
}

func spendCells(e adminapi.SpendEvent) []string {
	notes := e.Flags
	if to, withdrawn := strings.CutPrefix(e.RequestURL, pay.WithdrawalURL); withdrawn {
		notes = append([]string{"to " + to}, notes...)
	}
	if e.Corrects != "" {
		notes = append([]string{"correction"}, notes...)
	}
	return []string{
		when(e.Created), signedUnits(e.Amount), orDash(cmp.Or(policy.ToolOf(e.RequestURL), e.Host)), orDash(e.Task), cmp.Or(e.KeyLabel, e.KeyID), e.PaymentID,
		orDash(strings.Join(notes, " ")),
	}
}

// spendFields are the columns of CSV. Their order stays; new ones come behind.
var spendFields = []string{
	"created_at", "amount", "currency", "network", "key_id", "task", "host", "request_url", "payment_id", "settlement",
	"transaction", "flags", "corrects", "id", "kind", "protocol", "rail",
}

func spendValues(e adminapi.SpendEvent) []string {
	return []string{
		when(e.Created), signedUnits(e.Amount), e.Currency, e.Network, e.KeyID, e.Task, e.Host, e.RequestURL, e.PaymentID,
		e.Settlement, e.Transaction, strings.Join(e.Flags, " "), e.Corrects, e.ID, string(e.Kind), e.Protocol, e.Rail,
	}
}

func signedUnits(text string) string {
	if positive, negative := strings.CutPrefix(text, "-"); negative {
		return "-" + units(positive)
	}
	return units(text)
}
