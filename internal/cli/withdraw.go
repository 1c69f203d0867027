package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const withdrawHelp = `
Moves USDC out of a wallet, which is named by its id or address. It is a payment like any
other: journaled first, and made once however often you repeat the command. The facilitator
sends it, so the wallet needs no ETH. It keeps no limits of the key, and works while payments
are paused, and for deleted wallets.

What open payments may still take stays: --all is the balance less that. 'purser wallets
authorizations' lists them.

If the command ends without an answer, run it again. For an hour an equal command gets the
same withdrawal, and says so; --again makes another one once the first has settled. --all
makes another one if there is money again.

Without a facilitator, or with --sign-only, it prints the signed transfer. It is valid for five
minutes. Any account can send it, and pays the gas. purser books it when the chain has it.

    $ purser wallets withdraw 0199… --to 0x5aAe… --all
    $ purser wallets withdraw 0199… --to 0x5aAe… --amount 12.50 --yes --json
    $ purser wallets withdraw 0199… --to 0x5aAe… --all --sign-only`

const authorizationsHelp = `
Lists the payments of a wallet that may still move money, or of which it is not known yet that
they have not. Their amounts are reserved: neither payments nor withdrawals can use them.
'purser wallets cancel' ends them earlier.

    $ purser wallets authorizations 0199…`

// sendTime bounds a command that waits for a transfer: as long as purser tries to send one.
const sendTime = 6 * time.Minute

func walletPath(name string) string { return "/purser/wallets/" + url.PathEscape(name) }

func withdrawCommand(wallets *asking) {
	a := wallets.sub("withdraw WALLET --to ADDRESS (--amount USDC | --all)", "Moves money out of a wallet", withdrawHelp, cobra.ExactArgs(1))
	var want adminapi.NewWithdrawal
	amount := a.Flags().String("amount", "", "how much, in USDC")
	a.Flags().StringVar(&want.To, "to", "", "address that gets it")
	a.Flags().BoolVar(&want.All, "all", false, "all that is not reserved for open payments")
	a.Flags().BoolVar(&want.ToOwn, "to-own", false, "the address may be that of another wallet of this purser")
	a.Flags().BoolVar(&want.Again, "again", false, "make another one although an equal one has settled")
	a.Flags().BoolVar(&want.SignOnly, "sign-only", false, "print the signed transfer and do not send it")
	yes := a.yesFlag()
	a.changes("move money out of the wallet {}")
	a.jsonFlag(printsAmounts)
	a.runs(func(args []string) error {
		if err := checkWithdrawal(args[0], *amount, &want); err != nil {
			return err
		}
		path := walletPath(args[0]) + "/withdraw"
		if !*yes {
			var plan adminapi.WithdrawalPlan
			if err := a.client.call(a.Context(), http.MethodPost, path+"/plan", want, &plan); err != nil {
				return err
			}
			if err := a.confirm(withdrawalQuestion(plan), "nothing was withdrawn"); err != nil {
				return err
			}
			path = walletPath(plan.WalletID) + "/withdraw" // the one that was confirmed
		}
		a.client.client.Timeout = max(a.client.client.Timeout, sendTime)
		return tell(a, http.MethodPost, path, want, writeWithdrawn)
	})
}

// checkWithdrawal finds what is wrong with an order before purser is asked.
func checkWithdrawal(wallet, amount string, want *adminapi.NewWithdrawal) error {
	if err := checkID("WALLET", wallet); err != nil {
		return err
	}
	if want.To == "" {
		return errors.New("where to? --to takes the address that gets the money")
	}
	if _, err := x402.ParseCheckedAddress(want.To); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	if (amount == "") != want.All {
		return errors.New("how much? Either --amount or --all")
	}
	if amount == "" {
		return nil
	}
	units, err := money.ParseUnits(amount, usdcDecimals)
	if err != nil {
		return fmt.Errorf("--amount: %w", err)
	}
	want.Amount = units.String()
	return nil
}

func withdrawalQuestion(p adminapi.WithdrawalPlan) string {
	var b strings.Builder
	money := units(p.Amount) + " " + p.Currency
	switch earlier := p.Repeats; {
	case earlier != nil && earlier.State == pay.Settled:
		fmt.Fprintf(&b, "An equal withdrawal, payment %s of %s, has moved %s to %s already. This command gets its answer and moves nothing (--again makes another one).",
			earlier.ID, when(earlier.Created), money, p.To)
	case earlier != nil:
		fmt.Fprintf(&b, "An equal withdrawal, payment %s of %s, may still move %s to %s. This command goes on with it and makes no second one.",
			earlier.ID, when(earlier.Created), money, p.To)
	case p.Signs:
		fmt.Fprintf(&b, "Sign a transfer of %s from %s to %s on %s, which any account can send for %s.", money, p.From, p.To, p.Network, time.Duration(p.Seconds)*time.Second)
	default:
		fmt.Fprintf(&b, "Move %s from %s to %s on %s.", money, p.From, p.To, p.Network)
	}
	if p.Balance != nil {
		fmt.Fprintf(&b, " The wallet holds %s %s", units(*p.Balance), p.Currency)
	} else {
		fmt.Fprintf(&b, " What the wallet holds is not known: %s", p.Unknown)
	}
	if p.Reserved != "0" {
		fmt.Fprintf(&b, ", of which %s stays for open payments, the last one valid until %s", units(p.Reserved), when(p.ReservedUntil))
	}
	return b.String() + "."
}

func writeWithdrawn(t *table, w adminapi.Withdrawn) {
	state := paymentLabels(w.Payment)
	if w.Earlier {
		state += ", by an earlier equal order"
	}
	t.row("payment", w.ID)
	t.row("state", state)
	t.row("amount", paymentMoney(w.Payment))
	t.row("from", w.From)
	t.row("to", w.PayTo)
	t.row("network", w.Network)
	t.some("transaction", w.Transaction)
	writeHoldings(t, w.Holdings)
	if w.Transfer != nil {
		writeCall(t, *w.Transfer)
	}
}

func writeHoldings(t *table, h adminapi.Holdings) {
	balance := "unknown: " + h.Unknown
	if h.Balance != nil {
		balance = units(*h.Balance) + " USDC"
	}
	t.row("balance", balance)
	if h.Reserved != "0" {
		t.row("reserved", fmt.Sprintf("%s USDC for open payments, the last one valid until %s", units(h.Reserved), when(h.ReservedUntil)))
	}
}

func writeCall(t *table, c adminapi.Call) {
	t.row("to send", fmt.Sprintf("a transaction from any account to %s on chain %d, without value", c.Contract, c.ChainID))
	t.row("function", c.Function)
	t.row("data", c.Data)
	if a := c.Authorization; a != nil {
		t.row("nonce", a.Nonce.String())
		t.row("valid after", fmt.Sprint(a.ValidAfter))
		t.row("valid before", fmt.Sprint(a.ValidBefore))
	}
	if c.Cancellation != nil {
		t.row("nonce", c.Cancellation.Nonce.String())
	}
	t.row("signature", c.Signature)
	t.some("expires", when(c.Expires))
}

func authorizationsCommand(wallets *asking) {
	a := wallets.sub("authorizations WALLET", "Lists what may still take money out of a wallet", authorizationsHelp, cobra.ExactArgs(1))
	a.jsonFlag(printsAmounts)
	a.runs(func(args []string) error {
		if err := checkID("WALLET", args[0]); err != nil {
			return err
		}
		var list adminapi.Authorizations
		if err := a.client.call(a.Context(), http.MethodGet, walletPath(args[0])+"/authorizations", nil, &list); err != nil {
			return err
		}
		if err := show(a.OutOrStdout(), a.json, list, writeAuthorizations); err != nil || a.json.on || len(list.Authorizations) == 0 {
			return err
		}
		table := a.newColumns(authorizationColumns)
		for _, one := range list.Authorizations {
			table.row(one.ID, one.PayTo, units(one.Amount), when(one.ValidBefore), paymentState(one.Payment), orDash(one.Host))
		}
		return table.Flush()
	})
}

func writeAuthorizations(t *table, l adminapi.Authorizations) {
	t.row("wallet", l.WalletID)
	t.row("address", l.Address)
	writeHoldings(t, l.Holdings)
	if len(l.Authorizations) == 0 {
		_ = t.Flush() // what follows has no columns; the last Flush returns the error
		t.row("nothing is reserved")
	}
}

var authorizationColumns = []column{
	{head: "PAYMENT", holds: idCell},
	{head: "PAYEE"},
	{head: "USDC"},
	{head: "VALID (UTC)", holds: timeCell},
	{head: "STATE"},
	{head: "HOST", holds: textCell, spare: 1},
}

// yesFlag adds the flag that answers the question before money moves.
func (a *asking) yesFlag() *bool {
	a.yes = a.Flags().BoolP("yes", "y", false, "do not ask")
	return a.yes
}

// confirm asks whether to go on. It fails, and says what was not done, unless the answer is yes. A dry run asks nothing.
func (a *asking) confirm(question, undone string) error {
	if a.dry.on {
		a.dry.question = question
		return nil
	}
	_, _ = fmt.Fprintf(a.ErrOrStderr(), "%s Type yes: ", label(question))
	answer, err := bufio.NewReader(io.LimitReader(a.InOrStdin(), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New(undone + "; --yes answers the question")
	}
	return nil
}
