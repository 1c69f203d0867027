package caddymodule

import (
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
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

func spendCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().String("since", defaultSince, "first day: as 2026-11-01, as 7d for seven days ago, or all")
	c.Flags().String("until", "", "last day, as 2026-11-30 or 1d (default: today)")
	c.Flags().String("key", "", "only what the key with this id spent; exec is the key of 'purser exec'")
	c.Flags().String("task", "", "only what has this task label")
	c.Flags().String("host", "", "only what was paid for this host")
	c.Flags().Bool("csv", false, "print CSV, with amounts in USDC")
	c.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	c.Args = cobra.NoArgs
	run(c, runSpend)
}

func runSpend(c *cobra.Command, _ []string) error {
	since, err1 := c.Flags().GetString("since")
	until, err2 := c.Flags().GetString("until")
	client, err3 := adminOf(c)
	as, err4 := form(c)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	ask := url.Values{"limit": {strconv.Itoa(maxSpendPage)}}
	for _, name := range []string{"key", "task", "host"} {
		v, err := c.Flags().GetString(name)
		if err != nil {
			return err
		}
		if v != "" {
			ask.Set(name, v)
		}
	}
	for name, text := range map[string]string{"since": since, "until": until} {
		day, err := readDay(text, time.Now())
		if err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
		if day != "" {
			ask.Set(name, day)
		}
	}
	var sum big.Int
	count := 0
	l := listing[adminSpent]{
		path: "/purser/spend", ask: ask, name: "spend", cursor: "before",
		heads: []string{"TIME", "USDC", "HOST", "TASK", "KEY", "PAYMENT", "NOTES"}, cells: adminSpent.cells,
		fields: spendFields, values: adminSpent.values,
		each: func(e adminSpent) {
			count++
			if n, ok := new(big.Int).SetString(e.Amount, 10); ok {
				sum.Add(&sum, n)
			}
		},
	}
	err := l.print(c.Context(), client, c.OutOrStdout(), as, func() map[string]any {
		return map[string]any{"count": count, "total": sum.String()}
	})
	if err == nil && as == asTable {
		_, err = fmt.Fprintf(c.OutOrStdout(), "%d events, %s USDC%s\n", count, signedUnits(sum.String()), period(ask))
	}
	return err
}

// readDay reads a day: 2026-11-01, 7d, or, for no bound, all or nothing.
func readDay(text string, now time.Time) (string, error) {
	if text == "" || text == "all" {
		return "", nil
	}
	if days, ago := strings.CutSuffix(text, "d"); ago {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return "", fmt.Errorf("%q is not a number of days such as 7d", text)
		}
		return now.UTC().AddDate(0, 0, -n).Format(time.DateOnly), nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return "", fmt.Errorf("%q is neither a day such as 2026-11-01, nor days ago such as 7d, nor all", text)
	}
	return day.Format(time.DateOnly), nil
}

func period(ask url.Values) string {
	var text string
	for _, name := range []string{"since", "until"} {
		if day := ask.Get(name); day != "" {
			text += " " + name + " " + day
		}
	}
	if text == "" {
		return ""
	}
	return text + " (UTC)"
}

func (e adminSpent) cells() []string {
	notes := e.Flags
	if e.Corrects != "" {
		notes = append([]string{"correction"}, notes...)
	}
	return []string{
		e.Created.UTC().Format(time.RFC3339), signedUnits(e.Amount), orDash(label(e.Host)), orDash(label(e.Task)), e.KeyID,
		e.PaymentID, orDash(strings.Join(notes, " ")),
	}
}

// spendFields are the columns of CSV. Their order stays; new ones come behind.
var spendFields = []string{
	"created_at", "amount", "currency", "network", "key_id", "task", "host", "request_url", "payment_id", "settlement",
	"transaction", "flags", "corrects", "id",
}

func (e adminSpent) values() []string {
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
