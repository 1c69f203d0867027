package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
)

const cancelHelp = `
Cancels what may still take money out of a wallet: its open authorizations, or the one of a
payment. Each takes a transaction of the wallet on the chain (cancelAuthorization of the token, or
invalidateUnorderedNonces of Permit2), and gas: the wallet needs some ETH, or the coin of its network. The question says how much. It works while
payments are paused, and for deleted wallets and revoked keys.

A transfer that reaches the chain first wins: then the payment is settled, and booked. purser does
not send the payload of a canceled payment again. The amount stays reserved until the chain shows
the cancellation in a safe block. Cancelling ends what is out and stops nothing new: 'purser pause'
does.

The price is the RPC's word. With --yes a transaction that costs more than some ten times what a busy
day costs is refused; --max-fee sets another bound.

If the command ends without an answer, run it again. It looks at the chain first, and sends the
same transaction.

With --sign-only it prints the signed cancellations. Any account can send them, and pays the gas.
That works without an RPC, and with every wallet provider. cdp signs no transactions, and external
does if the signer knows eth_signTransaction. Payments through Permit2 have no such cancellation.

    $ purser wallets authorizations 0199…
    $ purser wallets cancel 0199…
    $ purser wallets cancel 0199… 019a… --yes --max-fee 0.002 --json
    $ purser wallets cancel 0199… --sign-only`

// maxFeeFlag adds the flag that bounds the cost of a transaction, which is read into wei.
func (a *asking) maxFeeFlag(into *string) {
	most := a.Flags().String("max-fee", "", "the most that each transaction may cost, in ETH or the network's coin "+
		"(default: what the question names, and with --yes some ten times what a busy day costs)")
	a.checks = append(a.checks, func() error {
		if *most == "" && !a.Flags().Changed("max-fee") {
			return nil
		}
		wei, err := money.ParseUnits(*most, coinDecimals)
		if err != nil {
			return fmt.Errorf("--max-fee: %w", err)
		}
		*into = wei.String()
		return nil
	})
}

// coinDecimals is the number of decimals of ether and of its like on other networks.
const coinDecimals = 18

func cancelCommand(wallets *asking) {
	a := wallets.sub("cancel WALLET [PAYMENT]", "Cancels what may still take money out of a wallet", cancelHelp, cobra.RangeArgs(1, 2))
	var want adminapi.NewCancellation
	a.Flags().BoolVar(&want.SignOnly, "sign-only", false, "print the signed cancellations and do not send them")
	yes := a.yesFlag()
	a.changes("cancel what may still take money out of the wallet {}")
	a.maxFeeFlag(&want.MaxCost)
	a.jsonFlag("print JSON, with amounts in the smallest unit and costs in wei")
	a.ValidArgsFunction = a.env.walletIDs("")
	a.runs(func(args []string) error {
		if err := checkID("WALLET", args[0]); err != nil {
			return err
		}
		if len(args) > 1 {
			if err := checkID("PAYMENT", args[1]); err != nil {
				return err
			}
			want.Payment = args[1]
		}
		path := walletPath(args[0]) + "/cancel"
		a.client.client.Timeout = max(a.client.client.Timeout, sendTime)
		if !*yes {
			var plan adminapi.CancelPlan
			if err := a.client.call(a.Context(), http.MethodPost, path+"/plan", want, &plan); err != nil {
				return err
			}
			if len(plan.Payments) > 0 {
				if err := a.confirm(cancelQuestion(plan), "nothing was canceled"); err != nil {
					return err
				}
			} else {
				a.dry.would = "cancel nothing: no payment may take money out of the wallet {}"
			}
			path = walletPath(plan.WalletID) + "/cancel" // the one that was confirmed
			if plan.Cost != nil {
				want.MaxFee = plan.Cost.MaxFee
			}
		}
		var done adminapi.Cancellations
		if err := a.client.call(a.Context(), http.MethodPost, path, want, &done); err != nil {
			return err
		}
		if err := show(a.OutOrStdout(), a.json, done, writeCancellations); err != nil {
			return err
		}
		for _, c := range done.Cancellations {
			if c.Error != "" {
				return fmt.Errorf("not all are canceled: %s (the same command goes on)", c.Error)
			}
		}
		return nil
	})
}

func cancelQuestion(p adminapi.CancelPlan) string {
	var b strings.Builder
	if n := len(p.Payments); n == 1 {
		fmt.Fprintf(&b, "Cancel the authorization of %s %s", units(p.Amount), p.Currency)
	} else {
		fmt.Fprintf(&b, "Cancel %d authorizations, of %s %s together,", n, units(p.Amount), p.Currency)
	}
	fmt.Fprintf(&b, " from %s on %s", p.From, p.Network)
	switch c := p.Cost; {
	case c == nil:
		b.WriteString(": sign that, for any account to send")
	case len(p.Payments) == 1:
		fmt.Fprintf(&b, ". That takes a transaction of the wallet, and up to %s %s for gas (%s now)", coins(c.Most), c.Coin, coins(c.Now))
	default:
		fmt.Fprintf(&b, ". Each takes a transaction of the wallet, and up to %s %s for gas. In sum that is up to %s %s (%s now)",
			coins(c.Each), c.Coin, coins(c.Most), c.Coin, coins(c.Now))
	}
	if p.Cost != nil {
		fmt.Fprintf(&b, ". The wallet has %s %s", coins(p.Cost.Have), p.Cost.Coin)
	}
	return b.String() + ". A transfer that comes first wins."
}

// coins writes wei as coins, with seven digits that count at most.
func coins(wei string) string {
	amount, err := money.Parse(wei)
	if err != nil {
		return wei + " wei of"
	}
	text := amount.Format(coinDecimals)
	whole, rest, _ := strings.Cut(text, ".")
	const shown = 7
	zeros := len(rest) - len(strings.TrimLeft(rest, "0"))
	if whole != "0" {
		zeros = 0
	}
	rest = strings.TrimRight(rest[:min(len(rest), zeros+shown)], "0")
	if rest == "" {
		return whole
	}
	return whole + "." + rest
}

func writeCancellations(t *table, l adminapi.Cancellations) {
	t.row("wallet", l.WalletID)
	t.row("address", l.From)
	_ = t.Flush() // what follows has columns of its own; the last Flush returns the error
	if len(l.Cancellations) == 0 {
		t.row("nothing can take money out of it")
		return
	}
	t.row("PAYMENT", "AMOUNT", "RESULT", "COST", "TRANSACTION")
	for _, c := range l.Cancellations {
		cost := unlimited
		if c.Cost != "" {
			cost = coins(c.Cost) + " " + l.Coin
		}
		t.row(c.ID, paymentMoney(c.Payment), cancelText(c), cost, orDash(cmp.Or(c.CanceledBy, c.Transaction)))
	}
	for _, c := range l.Cancellations {
		if c.Call != nil {
			_ = t.Flush()
			t.row("")
			t.row("payment", c.ID)
			writeCall(t, *c.Call)
		}
	}
}

// cancelText says what became of a cancellation.
func cancelText(c adminapi.Cancellation) string {
	switch c.Result {
	case adminapi.CancelFinal:
		return "canceled"
	case adminapi.CancelIncluded:
		return "canceled, final once the block is safe"
	case adminapi.CancelSent:
		return "sent, in no block yet: run it again"
	case adminapi.CancelSigned:
		return "signed, not sent"
	case adminapi.CancelMoved:
		return "too late: it has settled"
	case adminapi.CancelFailed:
		return "not canceled: " + c.Error
	case adminapi.CancelUndecided:
		return "used or canceled already: purser waits for the chain's word (" + orDash(c.Refused) + ")"
	}
	return c.Result
}
