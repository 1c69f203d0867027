package cli

import (
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const walletsShareHelp = `
Lets keys draw from a wallet beside its owner: one address to fund for many agents, each with
limits of its own. What is in open payments of one key is not spent by another one. A shared
wallet comes before the wallets that the key has; of several, the one that was shared last pays.

Only the owner deletes the wallet; that ends its use by all. Without --with the keys are listed.

    $ purser wallets share 0199… --with research,ci
    $ purser wallets share 0199…
    $ purser wallets unshare 0199… --with ci`

const walletsUnshareHelp = `
Takes a shared wallet back from keys, at once. Their payments that are open stay bound to it, and
repeats of these are served.

    $ purser wallets unshare 0199… --with research`

func shareWalletCommands(wallets *asking) {
	for _, c := range []struct{ name, short, long, would string }{
		{"share", "Lets keys draw from a wallet, or lists those that do", walletsShareHelp, "let keys draw from the wallet {}"},
		{"unshare", "Takes a shared wallet back from keys", walletsUnshareHelp, "take the wallet {} back from keys"},
	} {
		a := wallets.sub(c.name+" WALLET --with KEY", c.short, c.long, cobra.ExactArgs(1))
		with := a.Flags().StringSlice("with", nil, "keys, by id or label, or exec; several with commas, or with the flag again")
		a.changes(c.would)
		a.jsonFlag(printsAmounts)
		a.ValidArgsFunction = a.env.walletIDs("")
		a.runs(func(args []string) error {
			if err := checkID("WALLET", args[0]); err != nil {
				return err
			}
			for _, key := range *with {
				if err := checkID("--with", key); err != nil {
					return err
				}
			}
			switch {
			case len(*with) > 0:
				return tell(a, http.MethodPost, walletPath(args[0])+"/"+c.name, adminapi.SharedKeys{Keys: *with}, writeShared)
			case c.name == "unshare":
				return errors.New("from which keys? --with takes ids or labels of keys, or exec")
			}
			return tell(a, http.MethodGet, walletPath(args[0])+"/keys?limit=500", nil, writeShared)
		})
	}
}

func writeShared(t *table, s adminapi.SharedWallet) {
	writeWallet(t, s.Wallet)
	for _, k := range s.Keys {
		t.row("key", k.ID, orDash(k.Label))
	}
	if s.Next != "" {
		t.row("key", "and others")
	}
}
