package cli

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const spendHelp = `
Lists what keys spent, newest first, with the sum. Days are those of UTC, and --since 7d
begins with the day a week ago. A settlement that the chain disproved is taken back by an
event with a negative amount. With more than a thousand keys, what the first thousand spent
comes first.

    $ purser spend
    $ purser spend --since 2026-11-01 --until 2026-11-30 --csv > november.csv
    $ purser spend --since all --key 0199… --json
    $ purser spend --task nightly --host api.example.com`

const defaultSince = "30d"

// firstPayment is for those who have nothing to list yet.
const firstPayment = "To pay for a request: fund a wallet ('purser wallets' has the address), then purser exec -- curl -i URL"

func eventCount(n int) string {
	if n == 1 {
		return "1 event"
	}
	return strconv.Itoa(n) + " events"
}

func (env *Env) spendCommand(c *cobra.Command) {
	adminFlag(c)
	dayFlags(c, defaultSince)
	c.Flags().String("key", "", "only what this key spent: its id, its label or exec")
	c.Flags().String("task", "", "only what has this task label")
	c.Flags().String("host", "", "only what was paid for this host")
	limitFlag(c, 0)
	c.Flags().Bool("csv", false, "print CSV, with amounts in USDC")
	c.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	c.Args = cobra.NoArgs
	Run(c, env.runSpend)
	env.keyFlag(c)
}

func (env *Env) runSpend(c *cobra.Command, _ []string) error {
	client, err1 := env.adminOf(c)
	as, err2 := form(c)
	most, err3 := limitOf(c)
	days, err4 := daysOf(c, env.Now())
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	ask, filtered := days.values(), days.until != ""
	for _, name := range []string{"key", "task", "host"} {
		v, err := c.Flags().GetString(name)
		if err != nil {
			return err
		}
		if v == "" {
			continue
		}
		if name == "key" {
			if err := checkID("--key", v); err != nil {
				return err
			}
		}
		ask.Set(name, v)
		filtered = true
	}
	var sum big.Int
	count := 0
	l := listing[adminapi.SpendEvent]{
		path: "/purser/spend", ask: ask, name: "spend", cursor: "before", page: adminapi.MaxSpendPage, most: most,
		heads: []string{"TIME", "USDC", "HOST", "TASK", "KEY", "PAYMENT", "NOTES"}, cells: spendCells,
		fields: spendFields, values: spendValues,
		each: func(e adminapi.SpendEvent) {
			count++
			if n, ok := new(big.Int).SetString(e.Amount, 10); ok {
				sum.Add(&sum, n)
			}
		},
	}
	err := l.print(c, client, as, func() map[string]any {
		return map[string]any{"count": count, "total": sum.String()}
	})
	if err == nil && as == asTable {
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s, %s USDC%s\n", eventCount(count), signedUnits(sum.String()), period(days))
		if count == 0 && !filtered && err == nil {
			_, err = fmt.Fprintln(c.OutOrStdout(), firstPayment)
		}
	}
	return err
}

func spendCells(e adminapi.SpendEvent) []string {
	notes := e.Flags
	if e.Corrects != "" {
		notes = append([]string{"correction"}, notes...)
	}
	return []string{
		e.Created.UTC().Format(time.RFC3339), signedUnits(e.Amount), orDash(e.Host), orDash(e.Task), e.KeyID,
		e.PaymentID, orDash(strings.Join(notes, " ")),
	}
}

// spendFields are the columns of CSV. Their order stays; new ones come behind.
var spendFields = []string{
	"created_at", "amount", "currency", "network", "key_id", "task", "host", "request_url", "payment_id", "settlement",
	"transaction", "flags", "corrects", "id",
}

func spendValues(e adminapi.SpendEvent) []string {
	return []string{
		e.Created.UTC().Format(time.RFC3339), signedUnits(e.Amount), e.Currency, e.Network, e.KeyID, e.Task, e.Host,
		e.RequestURL, e.PaymentID, e.Settlement, e.Transaction, strings.Join(e.Flags, " "), e.Corrects, e.ID,
	}
}

// signedUnits is units for an amount that may be negative.
func signedUnits(text string) string {
	if positive, negative := strings.CutPrefix(text, "-"); negative {
		return "-" + units(positive)
	}
	return units(text)
}
