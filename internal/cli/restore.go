package cli

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const walletsRestoreHelp = `
Undoes the deletion of a wallet: its key, and the keys that it was shared with, can pay with it
again. A client deletes one with DELETE /wallets/{id}, people do on the dashboard, and you with
'purser wallets delete'. Limits of plans do not stand in the way.

    $ purser wallets --deleted
    $ purser wallets restore 0199…`

const walletsDeleteHelp = `
Hides a wallet and ends its use by all keys. What it holds stays where it is, and so does its
key: 'purser wallets restore' undoes this, and 'purser wallets export' works as before. Payments
that are open stay bound to it and are closed and booked. There is one question, which --yes
answers.

    $ purser wallets delete 0199…`

func restoreWalletCommands(wallets *asking) {
	a := wallets.sub("restore WALLET", "Undoes the deletion of a wallet", walletsRestoreHelp, cobra.ExactArgs(1))
	a.changes("undo the deletion of the wallet {}")
	a.jsonFlag(printsAmounts)
	a.ValidArgsFunction = a.env.walletIDs("true")
	a.runs(func(args []string) error {
		if err := checkID("WALLET", args[0]); err != nil {
			return err
		}
		return tell(a, http.MethodPost, walletPath(args[0])+"/restore", nil, writeWallet)
	})

	d := wallets.sub("delete WALLET", "Hides a wallet and ends its use", walletsDeleteHelp, cobra.ExactArgs(1))
	d.jsonFlag(printsAmounts)
	yes := d.yesFlag()
	d.changes("hide the wallet {} and end its use")
	d.ValidArgsFunction = d.env.walletIDs("")
	d.runs(func(args []string) error {
		if err := checkID("WALLET", args[0]); err != nil {
			return err
		}
		var w adminapi.Wallet
		if err := d.client.call(d.Context(), http.MethodGet, walletPath(args[0]), nil, &w); err != nil {
			return err
		}
		if !*yes && w.Deleted.IsZero() {
			question := fmt.Sprintf("Delete the wallet %s (%s)? %s", w.ID, walletCells(w)[3], use(w))
			if err := d.confirm(question, "nothing was deleted"); err != nil {
				return err
			}
		}
		return tell(d, http.MethodDelete, walletPath(w.ID), nil, writeWallet) // the one that was confirmed
	})
}

// use says what is in a wallet, and who draws from it.
func use(w adminapi.Wallet) string {
	text := "Its balance is not known."
	if w.Balance != nil {
		text = "It holds " + units(*w.Balance) + " USDC."
	}
	if w.Open != "0" {
		text += " " + units(w.Open) + " USDC are in open payments."
	}
	if w.Shared > 0 {
		text += fmt.Sprintf(" %d more keys draw from it.", w.Shared)
	}
	if w.Deployment {
		text += " It is the deployment's wallet."
	}
	return text
}

func writeWallet(t *table, w adminapi.Wallet) {
	cells := walletCells(w)
	t.row("wallet", w.ID)
	t.row("key", w.KeyID)
	t.row("network", w.Network)
	t.row("address", cells[3])
	t.row("USDC", cells[4])
	t.row("open", units(w.Open))
	t.row("shared with", cells[5])
	t.row("made", when(w.Created))
	if !w.Deleted.Equal(time.Time{}) {
		t.row("deleted", when(w.Deleted))
	}
}
