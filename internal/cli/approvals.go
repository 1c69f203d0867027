package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const approvalsHelp = `
Lists the payments that wait for a person, and answers one. A key asks for an approval if a price is
above its --require-approval-above, or with --require-approval-new-hosts for hosts that it has never
paid: see 'purser limits'. Without a word about new hosts it asks for suspicious ones, such as look-alikes
of those that it pays. An answer is about exactly these terms, and allows one payment.

A state is pending, approved, denied, expired or used; --state all lists every one of them. The
beginning of an id is enough.

    $ purser approvals
    $ purser approvals list --state all --key research
    $ purser approvals show 0199a1b2
    $ purser approvals approve 0199a1b2
    $ purser approvals deny 0199a1b2 --reason 'ask the free one'`

const approvalsShowHelp = `
Shows an approval with its exact terms, the rule that holds the payment, and the answer.

    $ purser approvals show 0199a1b2
    $ purser approvals show 0199a1b2 --json`

const approvalsApproveHelp = `
Approves a payment of exactly these terms, once. A request that waits is paid at once; one that has
gone is paid when the agent repeats it before the approval expires. All other limits of the key hold
as ever.

--raise-limit also lets the key pay this price without an approval from now on. It raises
--require-approval-above of the key to this price, and no other limit.

    $ purser approvals approve 0199a1b2
    $ purser approvals approve 0199a1b2 --raise-limit`

const approvalsDenyHelp = `
Denies a payment. The agent reads the reason. The same request is declined until the approval
expires.

    $ purser approvals deny 0199a1b2 --reason 'ask the free one'`

// allStates asks for approvals in every state.
const allStates = "all"

func (env *Env) approvalsCommand(c *cobra.Command) {
	a := env.asks(c)
	listApprovals(a)
	listApprovals(a.list("Lists approvals, as 'purser approvals' does"))

	show := a.sub("show ID", "Shows an approval with its exact terms", approvalsShowHelp, cobra.ExactArgs(1))
	show.jsonFlag(printsAmounts)
	show.ValidArgsFunction = env.approvalIDs("")
	show.runs(func(args []string) error {
		path, err := approvalPath(args[0])
		if err != nil {
			return err
		}
		return tell(show, http.MethodGet, path, nil, writeApproval)
	})

	approve := a.sub("approve ID", "Approves a payment of exactly these terms", approvalsApproveHelp, cobra.ExactArgs(1))
	raise := approve.Flags().Bool("raise-limit", false, "also let the key pay this price without an approval from now on")
	approve.changes("approve {}")
	approve.answers(func() (adminapi.NewAnswer, error) {
		return adminapi.NewAnswer{Answer: pay.Approved, RaiseLimit: *raise}, nil
	})

	deny := a.sub("deny ID --reason TEXT", "Denies a payment", approvalsDenyHelp, cobra.ExactArgs(1))
	reason := deny.Flags().String("reason", "", "why; the agent reads it")
	deny.changes("deny {}")
	deny.answers(func() (adminapi.NewAnswer, error) {
		if strings.TrimSpace(*reason) == "" {
			return adminapi.NewAnswer{}, errors.New("--reason: say why, in one line; the agent reads it")
		}
		return adminapi.NewAnswer{Answer: pay.Denied, Reason: *reason}, nil
	})
}

// answers makes the command send an answer to the approval that its argument names.
func (a *asking) answers(want func() (adminapi.NewAnswer, error)) {
	a.jsonFlag(printsAmounts)
	a.ValidArgsFunction = a.env.approvalIDs(string(pay.ApprovalPending))
	a.runs(func(args []string) error {
		path, err := approvalPath(args[0])
		if err != nil {
			return err
		}
		body, err := want()
		if err != nil {
			return err
		}
		return tell(a, http.MethodPost, path, body, func(t *table, done adminapi.AnsweredApproval) {
			writeApproval(t, done.Approval)
			if done.Raised != "" {
				t.row("limit", "raised: this key needs an approval above "+units(done.Raised)+" "+done.Currency)
			}
			if done.NotRaised != "" {
				t.row("limit", "not raised: "+done.NotRaised)
			}
		})
	})
}

func approvalPath(id string) (string, error) {
	return "/purser/approvals/" + url.PathEscape(id), checkID("ID", id)
}

func (env *Env) approvalIDs(state string) cobra.CompletionFunc {
	return ids(env, "approvals", url.Values{"state": {state}}, func(a adminapi.Approval) (id, what string) {
		return a.ID, string(a.State) + ", " + units(a.Amount) + " " + a.Currency + ", " + cmp.Or(a.Host, "an unnamed host")
	})
}

func listApprovals(a *asking) {
	states := append([]string{allStates}, adminapi.ApprovalStates...)
	state := a.Flags().String("state", string(pay.ApprovalPending), "only approvals in this state, or "+allStates)
	oneOf(a.Command, "state", states...)
	a.keyFlag("only approvals of this key: its id, its label or exec")
	a.limitFlag(adminapi.DefaultPage)
	a.jsonFlag(printsAmounts)
	a.runs(func([]string) error {
		if *state != allStates {
			a.ask.Set("state", *state)
		}
		return listing[adminapi.Approval]{name: "approvals", cursor: "before", columns: approvalColumns, cells: approvalCells}.print(a)
	})
}

var approvalColumns = []column{
	{head: "APPROVAL", holds: idCell},
	{head: "ASKED (UTC)", holds: timeCell, spare: 2},
	{head: "STATE"},
	{head: "USDC"},
	{head: "HOST", holds: textCell},
	{head: "KEY", holds: textCell, spare: 3},
	{head: "TASK", holds: textCell, spare: 4},
	{head: "EXPIRES (UTC)", holds: timeCell, spare: 1},
}

func approvalCells(a adminapi.Approval) []string {
	return []string{
		a.ID, when(a.Created), string(a.State), units(a.Amount), orDash(a.Host), cmp.Or(a.KeyLabel, a.KeyID), orDash(a.Task), when(a.Expires),
	}
}

func writeApproval(t *table, a adminapi.Approval) {
	t.row("approval", a.ID)
	t.row("state", approvalState(a))
	t.row("amount", units(a.Amount)+" "+a.Currency+" on "+a.Network+", asked for by "+pay.Means{Protocol: a.Protocol}.Spoken())
	t.row("to", a.PayTo)
	t.row("for", strings.TrimSpace(a.Method+" "+cmp.Or(a.URL, a.Host, "a URL that was not given")))
	t.row("asset", a.Asset)
	t.row("settled by", settledBy(a.Settlement))
	t.row("key", a.KeyID+" ("+orDash(a.KeyLabel)+")")
	t.some("task", a.Task)
	t.row("held by", a.Rule+": "+a.Detail)
	t.row("asked", when(a.Created))
	t.row("expires", when(a.Expires))
	t.some("reason", a.Reason)
	t.some("payment", a.PaymentID)
	if a.State == pay.ApprovalPending {
		t.row("to do", fmt.Sprintf("purser approvals approve %s, or purser approvals deny %s --reason …", a.ID, a.ID))
	}
}

func settledBy(s pay.Settlement) string {
	if s == pay.SettlePayer {
		return "purser's facilitator"
	}
	return "the seller"
}

// approvalState says the state in words, with the name of the person who answered.
func approvalState(a adminapi.Approval) string {
	text := string(a.State)
	if a.Answer == "" {
		return text
	}
	if text != string(a.Answer) {
		text += ", " + string(a.Answer)
	}
	return text + " by the " + cmp.Or(a.By, "operator") + " at " + when(a.Answered)
}
