package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/bookkeeping"
)

const exportHelp = `
Writes what was spent, oldest first, for accounting programs: beancount, hledger, ledger, OFX,
Xero, CSV or JSON. Each payment and withdrawal is a booking, and so is a correction, which takes a
booking back exactly. Ids stay the same in each export, so that a program which knows them
imports nothing twice.

Days are those of UTC. --from is included, --to is not. --chain asks the RPC for deposits, and for
transfers that the books do not know: then the accounts of the wallets add up to their balances.

FILE is readable for you only, and gets its name when it is whole.

    $ purser export --month 2026-10 --format beancount --output october.beancount
    $ purser export --month 2026-10 --format ofx --chain --output october.ofx
    $ purser export --from 2026-10-01 --to 2026-10-08 --key research --format hledger | hledger -f - balance
    $ purser export --format json > everything.json`

func (env *Env) exportCommand(c *cobra.Command) {
	a := env.asks(c)
	format := c.Flags().String("format", string(bookkeeping.CSV), strings.Join(bookkeeping.FormatNames(), ", "))
	oneOf(c, "format", bookkeeping.FormatNames()...)
	over := a.rangeFlags()
	a.keyFlag("only what this key spent: its id, its label or exec")
	wallet := c.Flags().String("wallet", "", "only this wallet: its id, the beginning of that, or its address")
	task := c.Flags().String("task", "", "only what has this task label")
	host := c.Flags().String("host", "", "only what was paid for this host")
	chain := c.Flags().Bool("chain", false, "with deposits and unknown transfers, which the RPC is asked for")
	output := c.Flags().String("output", "", "FILE to write (default: standard output)")
	force := c.Flags().Bool("force", false, "replace FILE if it is there")
	a.runs(func([]string) error {
		for name, value := range map[string]string{"wallet": *wallet, "task": *task, "host": *host} {
			if value != "" {
				a.ask.Set(name, value)
			}
		}
		if *chain {
			a.ask.Set("chain", "true")
		}
		a.client.client.Timeout = 0 // it takes as long as it takes
		if *output == "" {
			_, err := a.writeBookings(c.Context(), bookkeeping.Format(*format), *over, c.OutOrStdout())
			return err
		}
		path, err := filepath.Abs(env.path(*output))
		if err == nil {
			err = mayWrite(path, *force)
		}
		if err != nil {
			return err
		}
		var done exportSum
		err = writeWhole(c.Context(), path, *force, func(ctx context.Context, _ string, to io.Writer) (err error) {
			done, err = a.writeBookings(ctx, bookkeeping.Format(*format), *over, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("nothing was exported: %w", err)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %d bookings, %s USDC less in the wallets\n", path, done.count, signedUnits(done.spent.String()))
		return err
	})
}

// rangeFlags adds the flags for a month, or for days.
func (a *asking) rangeFlags() *bookkeeping.Range {
	over := new(bookkeeping.Range)
	month := a.Flags().String("month", "", "a month of UTC, as 2026-10")
	from := a.Flags().String("from", "", "first day, as 2026-10-01 (default: from the beginning)")
	to := a.Flags().String("to", "", "the day behind the last one, as 2026-11-01 (default: up to now)")
	a.checks = append(a.checks, func() (err error) {
		switch {
		case *month != "" && *from+*to != "":
			return errors.New("--month, or --from and --to, not both")
		case *month != "":
			if *over, err = bookkeeping.Month(*month); err != nil {
				return fmt.Errorf("--month: %w", err)
			}
		}
		for name, day := range map[string]struct {
			text string
			at   *time.Time
		}{"from": {*from, &over.From}, "to": {*to, &over.To}} {
			if day.text != "" {
				if *day.at, err = time.Parse(time.DateOnly, day.text); err != nil {
					return fmt.Errorf("--%s: %q is not a day such as 2026-11-01", name, day.text)
				}
			}
		}
		if !over.From.IsZero() && !over.To.IsZero() && !over.From.Before(over.To) {
			return errors.New("--to is the day behind the last one: it must be later than --from")
		}
		a.askOver(*over)
		return nil
	})
	return over
}

func (a *asking) askOver(over bookkeeping.Range) {
	for name, at := range map[string]time.Time{"from": over.From, "to": over.To} {
		if !at.IsZero() {
			a.ask.Set(name, at.Format(time.DateOnly))
		}
	}
}

// exportSum sums an export up.
type exportSum struct {
	count int
	spent big.Int // in the smallest unit, less what came in
}

// writeBookings asks for bookings and writes them in a format.
func (a *asking) writeBookings(ctx context.Context, format bookkeeping.Format, over bookkeeping.Range, to io.Writer) (done exportSum, err error) {
	resp, err := a.client.send(ctx, http.MethodGet, "/purser/bookings?"+a.ask.Encode(), nil)
	if err != nil {
		return done, err
	}
	defer func() { _ = resp.Body.Close() }()
	out, err := bookkeeping.NewWriter(format, to, over)
	if err != nil {
		return done, err
	}
	for d := json.NewDecoder(resp.Body); ; {
		var b bookkeeping.Booking
		err := d.Decode(&b)
		if errors.Is(err, io.EOF) {
			return done, out.Close()
		}
		if _, is := errors.AsType[*json.SyntaxError](err); is {
			return done, a.client.misunderstood(err)
		}
		if err != nil {
			return done, fmt.Errorf("cut off after %d bookings: %w", done.count, err)
		}
		if err := out.Write(b); err != nil {
			return done, err
		}
		done.count++
		if b.Enters() {
			done.spent.Sub(&done.spent, b.Amount.Big())
		} else {
			done.spent.Add(&done.spent, b.Amount.Big())
		}
	}
}
