package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const paymentsHelp = `
Lists the payments of all keys, newest first. A state is open, settled or void;
the flags refused, unresolved, confirmed, disputed and reconciled are taken as well. Days are
those of UTC, and --since 7d begins with the day a week ago.

    $ purser payments --state unresolved
    $ purser payments --since 7d --json
    $ purser payments --key research --state open
    $ purser payments --task nightly --host api.example.com
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

func (env *Env) paymentsCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().String("state", "", "only payments with this state or flag")
	c.Flags().String("key", "", "only payments of this key: its id, its label or exec")
	c.Flags().String("task", "", "only payments with this task label")
	c.Flags().String("host", "", "only payments to this host")
	dayFlags(c, "all")
	limitFlag(c, adminapi.DefaultPaymentPage)
	c.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	c.Args = cobra.NoArgs
	Run(c, env.runPayments)

	show := &cobra.Command{Use: "show ID", Short: "Shows all that is known of a payment", Args: cobra.ExactArgs(1)}
	adminFlag(show)
	show.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	Run(show, func(c *cobra.Command, args []string) error {
		return env.tell(c, http.MethodGet, args[0], "", nil)
	})

	resolve := &cobra.Command{Use: "resolve ID", Short: "Closes a payment that the evidence has left open", Long: resolveHelp, Args: cobra.ExactArgs(1)}
	adminFlag(resolve)
	resolve.Flags().String("as", "", "what it is: settled or void")
	resolve.Flags().String("reason", "", "how you know; it stays in the record")
	resolve.Flags().String("transaction", "", "the transaction that moved the money, if it is known")
	resolve.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	Run(resolve, env.runResolve)
	env.keyFlag(c)
	oneOf(c, "state", adminapi.PaymentLabels...)
	oneOf(resolve, "as", string(pay.Settled), string(pay.Void))
	show.ValidArgsFunction = oneID(func(c *cobra.Command) ([]cobra.Completion, error) { return env.paymentIDs(c, "") })
	resolve.ValidArgsFunction = oneID(func(c *cobra.Command) ([]cobra.Completion, error) { return env.paymentIDs(c, string(pay.Open)) })
	c.AddCommand(show, resolve)
}

func (env *Env) runPayments(c *cobra.Command, _ []string) error {
	state, err1 := c.Flags().GetString("state")
	most, err2 := limitOf(c)
	as, err3 := form(c)
	days, err4 := daysOf(c, env.Now())
	client, err5 := env.adminOf(c)
	key, err6 := c.Flags().GetString("key")
	task, err7 := c.Flags().GetString("task")
	host, err8 := c.Flags().GetString("host")
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8); err != nil {
		return err
	}
	ask := url.Values{}
	if key != "" {
		if err := checkID("--key", key); err != nil {
			return err
		}
		ask.Set("key", key)
	}
	if state != "" {
		if !pay.ValidLabel(state) {
			return fmt.Errorf("--state %q is none of %s", state, strings.Join(adminapi.PaymentLabels, ", "))
		}
		ask.Set("state", state)
	}
	l := listing[adminapi.Payment]{
		path: "/purser/payments", ask: ask, name: "payments", cursor: "before", page: adminapi.MaxPaymentPage, most: most,
		heads: []string{"PAYMENT", "MADE", "STATE", "AMOUNT", "HOST", "KEY", "REASON"}, cells: paymentCells,
	}
	if host != "" {
		host = pay.RecordedHost(host)
	}
	if days != (daySpan{}) || task != "" || host != "" {
		l.keep = func(p adminapi.Payment) (kept, goOn bool) {
			kept = days.has(p.Created) && (task == "" || p.Task == task) && (host == "" || p.Host == host)
			return kept, !days.before(listedAt(p).Add(time.Hour))
		}
		l.position = func(p adminapi.Payment) string { return p.ID }
	}
	return l.print(c, client, as, nil)
}

// listedAt returns the time that orders the list: when the payment's id was made. A payment that was
// booked from the chain was made earlier.
func listedAt(p adminapi.Payment) time.Time {
	id, err := uuid.Parse(p.ID)
	if err != nil || id.Version() != 7 {
		return time.Now()
	}
	return time.Unix(id.Time().UnixTime())
}

func (env *Env) runResolve(c *cobra.Command, args []string) error {
	var want adminapi.Ruling
	as, err1 := c.Flags().GetString("as")
	reason, err2 := c.Flags().GetString("reason")
	transaction, err3 := c.Flags().GetString("transaction")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	want = adminapi.Ruling{As: pay.State(as), Reason: reason, Transaction: transaction}
	want.By = env.operatorName()
	check := pay.Ruling{As: want.As, Reason: want.Reason, By: want.By, Transaction: want.Transaction}
	var input *pay.InputError
	if err := check.Validate(); errors.As(err, &input) {
		return fmt.Errorf("--%s: %s", input.Field, input.Reason)
	}
	return env.tell(c, http.MethodPost, args[0], "/resolve", want)
}

// tell makes a request about a payment whose answer is its story, and prints that.
func (env *Env) tell(c *cobra.Command, method, id, action string, body any) error {
	if err := checkID("ID", id); err != nil {
		return err
	}
	client, err := env.adminOf(c)
	if err != nil {
		return err
	}
	asJSON, err := c.Flags().GetBool("json")
	if err != nil {
		return err
	}
	var story adminapi.Story
	if err := client.call(c.Context(), method, "/purser/payments/"+url.PathEscape(id)+action, body, &story); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), story)
	}
	return printStory(c.OutOrStdout(), story)
}

func printJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(plainJSON(text), '\n'))
	return err
}

// labels are a payment's state and flags on one line.
func paymentLabels(p adminapi.Payment) string {
	return strings.Join(append([]string{string(p.State)}, p.Flags...), " ")
}

// money is a payment's amount for people.
func paymentMoney(p adminapi.Payment) string {
	amount, err := x402.ParseAmount(p.Amount)
	if err != nil {
		return p.Amount + " (smallest unit)"
	}
	return amount.Format(usdcDecimals) + " " + p.Currency // all pinned assets are USDC
}

func paymentCells(p adminapi.Payment) []string {
	return []string{p.ID, p.Created.UTC().Format(time.RFC3339), paymentLabels(p), paymentMoney(p), orDash(p.Host), p.KeyID, orDash(p.Reason)}
}

func printStory(w io.Writer, s adminapi.Story) error {
	t := newTable(w)
	line := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	when := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format(time.RFC3339)
	}
	line("payment", s.ID)
	line("state", paymentLabels(s.Payment))
	line("amount", paymentMoney(s.Payment))
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
	looks := "times"
	if s.Checked == 1 {
		looks = "time"
	}
	line("looked at", fmt.Sprintf("%d %s", s.Checked, looks))
	line("next look", when(s.NextCheck))
	for _, r := range s.Reservations {
		line("reserved", reservationText(s, r))
	}
	switch {
	case s.State != pay.Open:
	case s.Resolvable:
		line("operator", "purser payments resolve "+s.ID+" --as settled|void --reason …")
	default:
		line("operator", s.Unresolvable)
	}
	return t.flush()
}

// reserved is a reservation for people. What a counter counts is in its name.
func reservationText(s adminapi.Story, r adminapi.Reservation) string {
	amount, state := r.Amount, "held"
	if kind, _, _ := strings.Cut(r.Counter, "/"); kind != "place" && kind != "minute" && !strings.HasPrefix(r.Counter, "pending/n/") {
		amount = units(r.Amount) + " " + s.Currency
	}
	switch {
	case r.Released:
		state = "given back"
	case s.State == pay.Settled:
		state = "used"
	}
	return fmt.Sprintf("%s of %s, %s", amount, r.Counter, state)
}
