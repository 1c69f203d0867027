package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	yes := d.Flags().BoolP("yes", "y", false, "do not ask")
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
			if err := confirmDelete(d.Command, w); err != nil {
				return err
			}
		}
		return tell(d, http.MethodDelete, walletPath(w.ID), nil, writeWallet) // the one that was confirmed
	})
}

func confirmDelete(c *cobra.Command, w adminapi.Wallet) error {
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "Delete the wallet %s (%s)? %s Type yes: ", label(w.ID), label(walletCells(w)[3]), label(use(w)))
	answer, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was deleted; --yes answers the question")
	}
	return nil
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
