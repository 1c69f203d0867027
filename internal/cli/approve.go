package cli

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

const approveHelp = `
Lets Permit2 move USDC of a wallet, up to an amount in all. Sellers that are paid through Permit2
need that; others do not. Permit2 moves only what a payment signs, and purser signs only what is
within the limits of a key. So the amount bounds what a fault of Permit2, or a leaked key, can cost
by that way.

The amount replaces what Permit2 may move by now, and each payment takes its part of it: approve
again when it is used up. --amount 0 takes it away. It is never unlimited.

It takes a transaction of the wallet, and gas: the wallet needs some ETH, or the coin of its
network. The question says how much. With --yes a transaction is refused if the RPC says that it costs
more than some ten times what a busy day costs; --max-fee sets another bound. cdp signs no transactions, and external does if the signer
knows eth_signTransaction.

    $ purser wallets approve 0199… --amount 25
    $ purser wallets approve 0199… --amount 25 --yes --json
    $ purser wallets approve 0199… --amount 0`

func approveCommand(wallets *asking) {
	a := wallets.sub("approve WALLET --amount USDC", "Lets Permit2 move a bounded amount of a wallet", approveHelp, cobra.ExactArgs(1))
	amount := a.Flags().String("amount", "", "how much Permit2 may move in all, in USDC; 0 is nothing")
	network := a.Flags().String("network", "", "refuse a wallet of another network (default: do not compare)")
	var names []string
	for _, n := range x402.Networks() {
		names = append(names, n.Name)
	}
	oneOf(a.Command, "network", names...)
	yes := a.yesFlag()
	a.changes("let Permit2 move a bounded amount of the wallet {}")
	var most string
	a.maxFeeFlag(&most)
	a.jsonFlag("print JSON, with amounts in the smallest unit and costs in wei")
	a.ValidArgsFunction = a.env.walletIDs("")
	a.runs(func(args []string) error {
		if err := checkID("WALLET", args[0]); err != nil {
			return err
		}
		want := adminapi.NewApproval{Network: *network, MaxCost: most}
		var err error
		if want.Amount, err = bounded(*amount); err != nil {
			return err
		}
		path := walletPath(args[0]) + "/approve"
		a.client.client.Timeout = max(a.client.client.Timeout, sendTime)
		if !*yes {
			var plan adminapi.ApprovalPlan
			if err := a.client.call(a.Context(), http.MethodPost, path+"/plan", want, &plan); err != nil {
				return err
			}
			if plan.Cost != nil {
				if err := a.confirm(approvalQuestion(plan), "nothing was approved"); err != nil {
					return err
				}
				want.MaxFee = plan.Cost.MaxFee
			} else {
				a.dry.would = "do nothing: Permit2 may move that amount of the wallet {} already"
			}
			path = walletPath(plan.WalletID) + "/approve" // the one that was confirmed
		}
		return tell(a, http.MethodPost, path, want, writeApproved)
	})
}

// bounded reads an amount of USDC, and refuses the words for all of it.
func bounded(amount string) (string, error) {
	switch strings.ToLower(amount) {
	case "":
		return "", errors.New("how much? --amount takes USDC, and 0 takes the approval away")
	case "max", "all", "unlimited", "infinite":
		return "", errors.New("--amount: purser approves no unlimited amount")
	}
	units, err := money.ParseUnits(amount, usdcDecimals)
	if err != nil {
		return "", fmt.Errorf("--amount: %w", err)
	}
	return units.String(), nil
}

func approvalQuestion(p adminapi.ApprovalPlan) string {
	return fmt.Sprintf("Let Permit2 (%s) move up to %s %s from %s on %s. Now it may move %s. That takes a transaction of the wallet, and up to %s %s for gas (%s now). The wallet has %s %s.",
		p.Spender, units(p.Amount), p.Currency, p.From, p.Network, units(p.Allowance),
		coins(p.Cost.Most), p.Cost.Coin, coins(p.Cost.Now), coins(p.Cost.Have), p.Cost.Coin)
}

func writeApproved(t *table, d adminapi.Approved) {
	t.row("wallet", d.WalletID)
	t.row("address", d.From)
	t.row("network", d.Network)
	t.row("Permit2", d.Spender)
	t.row("may move", units(d.Allowance)+" "+d.Currency)
	t.row("before", units(d.Was)+" "+d.Currency)
	switch {
	case d.Transaction == "":
		t.row("transaction", "none, because it may move that amount already")
	case !d.Mined:
		t.row("transaction", d.Transaction+", in no block yet: run it again")
	default:
		t.row("transaction", d.Transaction)
		t.row("cost", coins(d.Cost)+" "+d.Coin)
	}
}
