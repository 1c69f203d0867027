package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const archiveHelp = `
Writes closed payments with what they spent, oldest first, to FILE, or to standard output
without one. FILE is readable for you only, and gets its name when it is whole. Nothing is
removed: PURSER_RETAIN does that, with what was closed longer ago than it says.

Payments count from when they were closed. --before names a day of UTC, and --older the
day that was so long ago; both leave out the day itself. As JSON lines each payment is an
object with its spend events, amounts in the smallest unit. As CSV it is a row, with
amounts in USDC. The format is that of FILE's name, .csv or .jsonl, unless --format says it.

    $ purser archive --older 370d before-retention.jsonl
    $ purser archive --before 2027-01-01 2026.csv
    $ purser archive --format csv | xz > all.csv.xz`

// Formats of an archive.
const (
	formatCSV   = "csv"
	formatLines = "jsonl"
)

func (env *Env) archiveCommand(c *cobra.Command) {
	a := env.asks(c)
	before := c.Flags().String("before", "", "only payments that were closed before this day, such as 2027-01-01")
	older := c.Flags().String("older", "", "only payments that were closed before the day this long ago, such as 370d")
	format := c.Flags().String("format", "", "csv or jsonl (default: that of FILE's name, else jsonl)")
	oneOf(c, "format", formatCSV, formatLines)
	force := c.Flags().Bool("force", false, "replace FILE if it is there")
	c.Args = cobra.MaximumNArgs(1)
	a.checks = append(a.checks, func() error {
		day, err := archiveDay(*before, *older, env)
		if day != "" {
			a.ask.Set("before", day)
		}
		return err
	})
	a.runs(func(args []string) error {
		path := strings.Join(args, "")
		as := cmp.Or(*format, strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), "."))
		switch {
		case *format == "" && as != formatCSV:
			as = formatLines
		case as != formatCSV && as != formatLines:
			return fmt.Errorf("--format %q is neither csv nor jsonl", as)
		}
		a.client.client.Timeout = 0 // it takes as long as it takes
		if path == "" {
			_, err := a.archive(c.Context(), as, c.OutOrStdout())
			return err
		}
		path, err := filepath.Abs(env.path(path))
		if err == nil {
			err = mayWrite(path, *force)
		}
		if err != nil {
			return err
		}
		var done archiveSum
		err = writeWhole(c.Context(), path, *force, func(ctx context.Context, _ string, to io.Writer) (err error) {
			done, err = a.archive(ctx, as, to)
			return err
		})
		if err != nil {
			return fmt.Errorf("no archive was written: %w", err)
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %d payments, %s USDC spent\n", path, done.count, signedUnits(done.spent.String()))
		return err
	})
}

// archiveDay returns the day of --before or --older; empty without them.
func archiveDay(before, older string, env *Env) (day string, err error) {
	switch {
	case before != "" && older != "":
		return "", errors.New("--before or --older, not both")
	case older != "":
		if !strings.HasSuffix(older, "d") {
			return "", fmt.Errorf("--older: %q is not a number of days such as 370d", older)
		}
		if day, err = readDay(older, env.Now()); err != nil {
			err = fmt.Errorf("--older: %w", err)
		}
	case before != "":
		if day, err = readDay(before, env.Now()); err != nil {
			err = fmt.Errorf("--before: %w", err)
		}
	}
	return day, err
}

// archiveSum sums an archive up.
type archiveSum struct {
	count int
	spent big.Int // in the smallest unit, less what was taken back
}

// archive asks for the archive and writes it in a format.
func (a *asking) archive(ctx context.Context, format string, to io.Writer) (done archiveSum, err error) {
	resp, err := a.client.send(ctx, http.MethodGet, "/purser/archive?"+a.ask.Encode(), nil)
	if err != nil {
		return done, err
	}
	defer func() { _ = resp.Body.Close() }()
	var out rowWriter = lines{bufio.NewWriter(to)}
	values := func(text json.RawMessage, _ adminapi.ArchivedPayment) []string { return []string{string(text)} }
	if format == formatCSV {
		out = csvTable{csv.NewWriter(to)}
		values = func(_ json.RawMessage, p adminapi.ArchivedPayment) []string { return archiveValues(p) }
		out.row(archiveFields...)
	}
	for d := json.NewDecoder(resp.Body); ; {
		var text json.RawMessage
		var p adminapi.ArchivedPayment
		err := d.Decode(&text)
		if errors.Is(err, io.EOF) {
			return done, out.Flush()
		}
		if _, is := errors.AsType[*json.SyntaxError](err); err != nil && !is {
			return done, errors.Join(fmt.Errorf("cut off after %d payments: %w", done.count, err), out.Flush())
		}
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			return done, errors.Join(a.client.misunderstood(err), out.Flush())
		}
		done.count++
		for _, e := range p.Spend {
			if n, ok := new(big.Int).SetString(e.Amount, 10); ok {
				done.spent.Add(&done.spent, n)
			}
		}
		out.row(values(text, p)...)
	}
}

// lines writes each value on a line of its own, as JSON.
type lines struct{ *bufio.Writer }

func (l lines) row(values ...string) {
	for _, text := range values {
		_, _ = fmt.Fprintf(l, "%s\n", plainJSON([]byte(text))) // Flush returns the error
	}
}

// archiveFields are the columns of CSV. Their order stays; new ones come behind.
var archiveFields = []string{
	"created_at", "closed_at", "state", "flags", "amount", "currency", "network", "key_id", "organization_id", "task", "host",
	"request_url", "payment_id", "door", "settlement", "pay_to", "from", "nonce", "transaction", "reason",
	"spend_id", "spent_at", "correction_id", "corrected_at", "protocol", "rail",
}

func archiveValues(p adminapi.ArchivedPayment) []string {
	spent := make([]string, 4)
	for _, e := range p.Spend {
		at := 0
		if e.Corrects != "" {
			at = 2
		}
		spent[at], spent[at+1] = e.ID, when(e.Created)
	}
	return append([]string{
		when(p.Created), when(p.Closed), string(p.State), strings.Join(p.Flags, " "), units(p.Amount), p.Currency, p.Network,
		p.KeyID, p.Organization, p.Task, p.Host, p.RequestURL, p.ID, string(p.Door), string(p.Settlement), p.PayTo, p.From,
		p.Nonce, p.Transaction, p.Reason,
	}, append(spent, p.Protocol, p.Rail)...)
}
