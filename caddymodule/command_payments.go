package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const paymentsHelp = `
Lists the payments of all keys, newest first. A state is open, settled or void;
the flags refused, unresolved, confirmed and disputed are taken as well.

    $ purser payments --state unresolved
    $ purser payments show 0199…
    $ purser payments resolve 0199… --as void --reason 'the seller says that nothing came in'

An unresolved payment has expired, and there is no evidence of what became of it:
look for its transfer in a block explorer, or ask the seller, and say what you
found with 'resolve'. Your reason stays in the record. Evidence that the chain
gives later still wins.`

const resolveHelp = `
Closes a payment that the evidence has left open: as settled, with a spend event,
or as void, with its budgets given back. It is refused while the payment may still
settle by itself, and for what the chain has decided.`

func paymentsCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().String("state", "", "only payments with this state or flag")
	c.Flags().Int("limit", defaultPaymentPage, "how many at most")
	c.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	c.Args = cobra.NoArgs
	run(c, runPayments)

	show := &cobra.Command{Use: "show ID", Short: "Shows all that is known of a payment", Args: cobra.ExactArgs(1)}
	adminFlag(show)
	show.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	run(show, func(c *cobra.Command, args []string) error {
		return tell(c, http.MethodGet, paymentPath(args[0]), nil)
	})

	resolve := &cobra.Command{Use: "resolve ID", Short: "Closes a payment that the evidence has left open", Long: resolveHelp, Args: cobra.ExactArgs(1)}
	adminFlag(resolve)
	resolve.Flags().String("as", "", "what it is: settled or void")
	resolve.Flags().String("reason", "", "how you know; it stays in the record")
	resolve.Flags().String("transaction", "", "the transaction that moved the money, if it is known")
	resolve.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	run(resolve, runResolve)
	c.AddCommand(show, resolve)
}

func paymentPath(id string) string { return "/purser/payments/" + url.PathEscape(id) }

func runPayments(c *cobra.Command, _ []string) error {
	state, err1 := c.Flags().GetString("state")
	limit, err2 := c.Flags().GetInt("limit")
	asJSON, err3 := c.Flags().GetBool("json")
	client, err4 := adminOf(c)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if limit < 1 {
		return errors.New("--limit: a number above 0")
	}
	all := adminPayments{Payments: []adminPayment{}}
	for len(all.Payments) < limit {
		ask := url.Values{"limit": {strconv.Itoa(min(limit-len(all.Payments), maxPaymentPage))}}
		if state != "" {
			ask.Set("state", state)
		}
		if all.Next != "" {
			ask.Set("before", all.Next)
		}
		var page adminPayments
		if err := client.call(c.Context(), http.MethodGet, "/purser/payments?"+ask.Encode(), nil, &page); err != nil {
			return err
		}
		all.Payments, all.Next = append(all.Payments, page.Payments...), page.Next
		if page.Next == "" {
			break
		}
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), all)
	}
	if err := all.print(c.OutOrStdout()); err != nil {
		return err
	}
	if all.Next != "" {
		say(c, "there are more; --limit shows them")
	}
	return nil
}

func runResolve(c *cobra.Command, args []string) error {
	var want ruling
	as, err1 := c.Flags().GetString("as")
	reason, err2 := c.Flags().GetString("reason")
	transaction, err3 := c.Flags().GetString("transaction")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	want = ruling{As: pay.State(as), Reason: reason, Transaction: transaction}
	if u, err := user.Current(); err == nil {
		want.By = u.Username
	}
	check := pay.Ruling{As: want.As, Reason: want.Reason, By: want.By, Transaction: want.Transaction}
	var input *pay.InputError
	if err := check.Validate(); errors.As(err, &input) {
		return fmt.Errorf("--%s: %s", input.Field, input.Reason)
	}
	return tell(c, http.MethodPost, paymentPath(args[0])+"/resolve", want)
}

// tell makes a request whose answer is a payment's story, and prints that.
func tell(c *cobra.Command, method, path string, body any) error {
	client, err := adminOf(c)
	if err != nil {
		return err
	}
	asJSON, err := c.Flags().GetBool("json")
	if err != nil {
		return err
	}
	var story adminStory
	if err := client.call(c.Context(), method, path, body, &story); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), story)
	}
	return story.print(c.OutOrStdout())
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// labels are a payment's state and flags on one line.
func (p adminPayment) labels() string {
	return strings.Join(append([]string{string(p.State)}, p.Flags...), " ")
}

// money is a payment's amount for people.
func (p adminPayment) money() string {
	amount, err := x402.ParseAmount(p.Amount)
	if err != nil {
		return p.Amount + " (smallest unit)"
	}
	return amount.Format(usdcDecimals) + " " + p.Currency // all pinned assets are USDC
}

func (all adminPayments) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells(t, "PAYMENT", "MADE", "STATE", "AMOUNT", "HOST", "KEY", "REASON")
	for _, p := range all.Payments {
		cells(t, p.ID, p.Created.UTC().Format(time.RFC3339), p.labels(), p.money(), label(p.Host), p.KeyID, label(p.Reason))
	}
	return t.Flush()
}

func (s adminStory) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, label(value))
		}
	}
	when := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format(time.RFC3339)
	}
	line("payment", s.ID)
	line("state", s.labels())
	line("amount", s.money())
	line("pays", s.PayTo)
	line("from", s.From)
	line("network", s.Network)
	line("settled by", string(s.Settlement))
	line("transaction", s.Transaction)
	line("nonce", s.Nonce)
	line("for", s.RequestURL)
	line("key", s.KeyID)
	line("organization", s.Organization)
	line("task", s.Task)
	line("door", string(s.Door))
	line("valid until", when(s.ValidBefore))
	for _, step := range s.Steps {
		line(when(step.At), step.What)
	}
	for _, known := range s.Evidence {
		line("known", known)
	}
	line("spend event", s.EventID)
	line("reason", s.Reason)
	line("facilitator", string(s.Detail))
	if s.Lease != nil {
		line("held", fmt.Sprintf("by %s until %s", s.Lease.Owner, when(s.Lease.Until)))
	}
	line("looked at", fmt.Sprintf("%d times", s.Checked))
	line("next look", when(s.NextCheck))
	for _, r := range s.Reservations {
		held := "held"
		if r.Released {
			held = "given back"
		}
		line("reserved", fmt.Sprintf("%s of %s, %s", r.Amount, r.Counter, held))
	}
	return t.Flush()
}

func orUnknown(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}
