package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

const paymentsHelp = `
Lists the payments of all keys, newest first. A state is open, settled or void;
the flags refused, unresolved, confirmed, disputed, reconciled and undelivered are taken
as well. Days are those of UTC, and --since 7d begins with the day a week ago.

    $ purser payments list --state unresolved
    $ purser payments --undelivered
    $ purser payments --since 7d --json
    $ purser payments --key research --state open
    $ purser payments --task nightly --host api.example.com
    $ purser payments show 0199…
    $ purser payments resolve 0199… --as void --reason 'the seller says that nothing came in'

An unresolved payment has expired, and there is no evidence of what became of it:
look for its transfer in a block explorer, or ask the seller, and say what you
found with 'resolve'. Your reason stays in the record. Evidence that the chain
gives later still wins.

An undelivered payment has moved its money, or may have, and its request got an error,
an empty or broken answer, or none. 'show' says which.`

const resolveHelp = `
Closes a payment that the evidence has left open: as settled, with a spend event,
or as void, with its budgets given back. It is refused while the payment may still
settle by itself, and for what the chain has decided.`

func (env *Env) paymentsCommand(c *cobra.Command) {
	a := env.asks(c)
	listPayments(a)
	listPayments(a.list("Lists payments, as 'purser payments' does"))
	showCommand(a)
	disputeCommand(a)
	resolveCommand(a)
}

func listPayments(a *asking) {
	state := a.Flags().String("state", "", "only payments with this state or flag")
	oneOf(a.Command, "state", adminapi.PaymentLabels...)
	undelivered := a.Flags().Bool("undelivered", false, "only payments whose requests brought nothing: --state undelivered")
	a.keyFlag("only payments of this key: its id, its label or exec")
	task := a.Flags().String("task", "", "only payments with this task label")
	host := a.Flags().String("host", "", "only payments to this host, or for one tool, mcp://HOST/tool/NAME")
	a.dayFlags("all")
	a.limitFlag(adminapi.DefaultPage)
	a.jsonFlag(printsAmounts)
	a.runs(func([]string) error {
		if *undelivered {
			if *state != "" {
				return errors.New("--undelivered is --state undelivered: give one of them")
			}
			*state = "undelivered"
		}
		if *state != "" {
			if !pay.ValidLabel(*state) {
				return fmt.Errorf("--state %q is none of %s", *state, strings.Join(adminapi.PaymentLabels, ", "))
			}
			a.ask.Set("state", *state)
		}
		l := listing[adminapi.Payment]{
			name: "payments", cursor: "before",
			columns: paymentColumns, cells: paymentCells,
		}
		site, tool := pay.RecordedPlace(*host)
		if a.days != (daySpan{}) || *task != "" || site != "" {
			l.keep = func(p adminapi.Payment) (kept, goOn bool) {
				kept = a.days.has(p.Created) && (*task == "" || p.Task == *task) && (site == "" || p.Host == site) && (tool == "" || p.Tool == tool)
				return kept, !a.days.before(listedAt(p).Add(time.Hour))
			}
			l.position = func(p adminapi.Payment) string { return p.ID }
		}
		return l.print(a)
	})
}

func showCommand(payments *asking) {
	show := payments.sub("show ID", "Shows all that is known of a payment", "", cobra.ExactArgs(1))
	show.jsonFlag(printsAmounts)
	show.ValidArgsFunction = payments.env.paymentIDs(url.Values{})
	show.runs(func(args []string) error { return show.tellStory(http.MethodGet, args[0], "", nil) })
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

func resolveCommand(payments *asking) {
	a := payments.sub("resolve ID", "Closes a payment that the evidence has left open", resolveHelp, cobra.ExactArgs(1))
	as := a.Flags().String("as", "", "what it is: settled or void")
	oneOf(a.Command, "as", string(pay.Settled), string(pay.Void))
	reason := a.Flags().String("reason", "", "how you know; it stays in the record")
	transaction := a.Flags().String("transaction", "", "the transaction that moved the money, if it is known")
	a.changes("close the payment {}")
	a.jsonFlag(printsAmounts)
	a.ValidArgsFunction = a.env.paymentIDs(url.Values{"state": {string(pay.Open)}})
	a.runs(func(args []string) error {
		want := adminapi.Ruling{As: pay.State(*as), Reason: *reason, Transaction: *transaction, By: a.env.operatorName()}
		if input, is := errors.AsType[*pay.InputError](pay.Ruling(want).Validate()); is {
			return fmt.Errorf("--%s: %s", input.Field, input.Reason)
		}
		return a.tellStory(http.MethodPost, args[0], "/resolve", want)
	})
}

func (a *asking) tellStory(method, id, action string, body any) error {
	if err := checkID("ID", id); err != nil {
		return err
	}
	return tell(a, method, "/purser/payments/"+url.PathEscape(id)+action, body, writeStory)
}

func paymentLabels(p adminapi.Payment) string {
	return strings.Join(append([]string{string(p.State)}, p.Flags...), " ")
}

func paymentMoney(p adminapi.Payment) string {
	text := cmp.Or(p.Charged, p.Amount) // what has moved, or can
	amount, err := money.Parse(text)
	if err != nil {
		return text + " (smallest unit)"
	}
	return amount.Format(usdcDecimals) + " " + p.Currency // all pinned assets are USDC
}

func paymentCells(p adminapi.Payment) []string {
	host := cmp.Or(p.Tool, p.Host)
	if p.Door == policy.DoorOperator {
		host = "withdrawal"
	}
	return []string{
		p.ID, when(p.Created), paymentState(p), units(cmp.Or(p.Charged, p.Amount)), orDash(host), cmp.Or(p.KeyLabel, p.KeyID),
		orDash(p.Task), p.Rail, orDash(cmp.Or(p.Advice, p.Reason)),
	}
}

var paymentColumns = []column{
	{head: "PAYMENT", holds: idCell},
	{head: "MADE (UTC)", holds: timeCell, spare: 1},
	{head: "STATE"},
	{head: "USDC"},
	{head: "HOST", holds: textCell},
	{head: "KEY", holds: textCell, spare: 3},
	{head: "TASK", holds: textCell, spare: 2},
	{head: "RAIL", spare: 4},
	{head: "REASON", holds: textCell},
}

// paymentState is the state in a table. A flag that says the state as well stands alone.
func paymentState(p adminapi.Payment) string {
	implied := map[string]pay.State{"confirmed": pay.Settled, "disputed": pay.Settled, "unresolved": pay.Open, "refused": pay.Void}
	if p.State == pay.Settled && slices.Contains(p.Flags, "undelivered") {
		return "undelivered"
	}
	if len(p.Flags) == 1 && implied[p.Flags[0]] == p.State {
		return p.Flags[0]
	}
	return paymentLabels(p)
}
