package cli

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/bookkeeping"
)

const statementHelp = `
Sums up a month of UTC, last month unless MONTH says another one such as 2026-10: for each wallet
its opening balance, deposits, payments, corrections, withdrawals and closing balance, and what
each key spent.

With an RPC the balances and deposits are those of the chain at the last blocks before the month
and in it, as far as they are safe. Each transfer is compared with the books. "equals the chain"
says that they agree to the last unit. Else each difference is listed. A month may take some
minutes, because hundreds of thousands of blocks are read.

The status is 0 if the books equal the chain, or if payments of the books explain each difference:
booked in another month, open, or disputed. It is 2 if the books and the chain contradict each
other, 3 if a wallet was not compared, and 1 if the command failed.

    $ purser statement
    $ purser statement 2026-10
    $ purser statement 2026-10 --format csv > october.csv
    $ purser statement 2026-10 --json --no-chain`

// Statuses of purser statement.
const (
	statementDiffers     = 2
	statementNotCompared = 3
)

func (env *Env) statementCommand(c *cobra.Command) {
	a := env.asks(c)
	c.Args = cobra.MaximumNArgs(1)
	a.keyFlag("only what this key spent: its id, its label or exec; nothing is compared")
	wallet := c.Flags().String("wallet", "", "only this wallet: its id, the beginning of that, or its address")
	without := c.Flags().Bool("no-chain", false, "do not ask the RPC")
	format := c.Flags().String("format", "text", "text, json or csv")
	oneOf(c, "format", "text", "json", formatCSV)
	a.jsonFlag(printsAmounts)
	a.runs(func(args []string) error {
		if a.json.on && c.Flags().Changed("format") && *format != "json" {
			return errors.New("--json or --format, not both")
		}
		month := env.Now().UTC().AddDate(0, 0, 1-env.Now().UTC().Day()).AddDate(0, -1, 0).Format("2006-01")
		if len(args) > 0 {
			month = args[0]
		}
		over, err := bookkeeping.Month(month)
		if err != nil {
			return err
		}
		a.askOver(over)
		for name, value := range map[string]string{"wallet": *wallet, "chain": map[bool]string{true: "false"}[*without]} {
			if value != "" {
				a.ask.Set(name, value)
			}
		}
		a.client.client.Timeout = 0
		s, err := a.statement(a.ask)
		if err != nil {
			return err
		}
		switch {
		case a.json.on || *format == "json":
			err = show(c.OutOrStdout(), jsonForm{true, a.json.fields}, s, nil)
		case *format == formatCSV:
			err = statementCSV(c.OutOrStdout(), s)
		default:
			err = printStatement(c.OutOrStdout(), s)
		}
		if err != nil {
			return err
		}
		switch s.Verdict {
		case bookkeeping.Differs:
			return &Exit{Status: statementDiffers}
		case bookkeeping.NotCompared:
			return &Exit{Status: statementNotCompared}
		case bookkeeping.Equal, bookkeeping.Explained:
		}
		return nil
	})
}

func (a *asking) statement(ask url.Values) (s bookkeeping.Statement, err error) {
	err = a.client.call(a.Context(), http.MethodGet, "/purser/statement?"+ask.Encode(), nil, &s)
	return s, err
}

// minus is a sum that went out.
func minus(s bookkeeping.Sum) string {
	return signedUnits(new(big.Int).Neg(&s.Amount.Int).String())
}

// known is a balance, or a dash.
func known(s *bookkeeping.Signed) string {
	if s == nil {
		return "-"
	}
	return signedUnits(s.String())
}

func printStatement(to io.Writer, s bookkeeping.Statement) error {
	if _, err := fmt.Fprintf(to, "%s (UTC)\n", bookkeeping.Range{From: s.From, To: s.To}); err != nil {
		return err
	}
	for _, w := range s.Wallets {
		if err := printWalletStatement(to, w); err != nil {
			return err
		}
	}
	if len(s.Wallets) == 0 {
		_, err := fmt.Fprintln(to, "no wallet has money or bookings")
		return err
	}
	return nil
}

func printWalletStatement(to io.Writer, w bookkeeping.WalletStatement) error {
	_, _ = fmt.Fprintf(to, "\nwallet %s on %s\n", label(w.Address), label(w.Network)) // Flush returns the error
	t := newTable(to)
	count := strconv.Itoa
	opened, closed, deposits := "", "", []string{"-", ""}
	if c := w.Chain; c != nil {
		opened = fmt.Sprintf("block %d of %s", c.Opening.Number, when(c.Opening.Time))
		closed = fmt.Sprintf("block %d of %s", c.Closing.Number, when(c.Closing.Time))
		deposits = []string{signedUnits(w.Deposits.Amount.String()), count(w.Deposits.Count)}
	}
	t.row("", "USDC", "COUNT")
	t.row("opening balance", known(w.Opening), opened)
	t.row("deposits", deposits[0], deposits[1])
	t.row("payments", minus(w.Payments), count(w.Payments.Count))
	t.row("corrections", signedUnits(w.Corrections.Amount.String()), count(w.Corrections.Count))
	t.row("withdrawals", minus(w.Withdrawals), count(w.Withdrawals.Count))
	t.row("closing balance", known(w.Closing))
	if w.Chain != nil {
		t.row("on the chain", signedUnits(w.Chain.Balance.String()), closed)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(to, label(w.Text())); err != nil {
		return err
	}
	t = newTable(to)
	for _, d := range w.Differences {
		t.row("", signedUnits(d.Amount.String()), d.Text())
	}
	if w.More > 0 {
		t.row("", "", fmt.Sprintf("and %d more", w.More))
	}
	if len(w.Keys) > 0 {
		t.row("KEY", "PAYMENTS", "USDC", "CORRECTIONS", "WITHDRAWALS")
	}
	for _, k := range w.Keys {
		t.row(cmp.Or(k.Label, k.KeyID), count(k.Payments.Count), signedUnits(k.Payments.Amount.String()),
			signedUnits(k.Corrections.Amount.String()), signedUnits(k.Withdrawals.Amount.String()))
	}
	return t.Flush()
}

// Columns of a statement as CSV. Their order stays; new ones come behind.
var statementFields = []string{
	"from", "to", "network", "wallet", "wallet_id", "key_id", "key_label", "opening", "deposits", "deposit_count", "payments", "payment_count",
	"corrections", "correction_count", "withdrawals", "withdrawal_count", "closing", "chain", "verdict",
}

// statementCSV writes a row for each wallet, and one for each of its keys. Rows of keys have no balances.
func statementCSV(to io.Writer, s bookkeeping.Statement) error {
	out := csv.NewWriter(to)
	_ = out.Write(statementFields) // Error returns it
	balance := func(v *bookkeeping.Signed) string {
		if v == nil {
			return ""
		}
		return signedUnits(v.String())
	}
	sums := func(all ...bookkeeping.Sum) (list []string) {
		for _, one := range all {
			list = append(list, signedUnits(one.Amount.String()), strconv.Itoa(one.Count))
		}
		return list
	}
	for _, w := range s.Wallets {
		row := []string{s.From.Format(time.DateOnly), s.To.Format(time.DateOnly), w.Network, w.Address, w.WalletID}
		deposits, chain := []string{"", ""}, ""
		if w.Deposits != nil {
			deposits = sums(*w.Deposits)
		}
		if w.Chain != nil {
			chain = signedUnits(w.Chain.Balance.String())
		}
		whole := append(append([]string{}, row...), "", "", balance(w.Opening), deposits[0], deposits[1])
		whole = append(append(whole, sums(w.Payments, w.Corrections, w.Withdrawals)...), balance(w.Closing), chain, string(w.Verdict))
		_ = out.Write(whole)
		for _, k := range w.Keys {
			part := append(append([]string{}, row...), k.KeyID, bookkeeping.Inert(k.Label), "", "", "")
			_ = out.Write(append(append(part, sums(k.Payments, k.Corrections, k.Withdrawals)...), "", "", ""))
		}
	}
	out.Flush()
	return out.Error()
}
