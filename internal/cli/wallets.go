package cli

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
)

const walletsHelp = `
Lists the wallets of all keys, or of one, with what they hold, as the chain tells now.
Without an RPC (PURSER_RPC_URL), or while it does not answer, balances are not known. Those of a
key are in the order in which they pay; some may be another key's, and shared with it.

The deployment's wallet is the first one that a key of yours got on a network: of PURSER_KEY, of
'purser exec' or 'purser init', or of 'purser keys create'. Later ones draw from it as well unless
you say otherwise. So there is one address to fund.

    $ purser wallets list
    $ purser wallets list --key exec
    $ purser wallets list --key 0199… --json
    $ purser wallets list --deleted
    $ purser wallets create --key 0199… --network base
    $ purser wallets withdraw 0199… --to 0x5aAe… --all
    $ purser wallets authorizations 0199…
    $ purser wallets cancel 0199…
    $ purser wallets approve 0199… --amount 25`

const walletsCreateHelp = `
Makes a wallet for a key, and prints the address to fund. Of several wallets that a key owns on a
network the oldest pays, and one that is shared with it comes before all of them.

    $ purser wallets create --key 0199… --network base
    $ purser wallets create --key exec --network base-sepolia`

func (env *Env) walletsCommand(c *cobra.Command) {
	a := env.asks(c)
	listWallets(a)
	listWallets(a.list("Lists wallets, as 'purser wallets' does"))
	createWalletCommand(a)
	withdrawCommand(a)
	authorizationsCommand(a)
	cancelCommand(a)
	approveCommand(a)
	exportWalletCommand(a)
	importWalletCommand(a)
	restoreWalletCommands(a)
	shareWalletCommands(a)
}

func listWallets(a *asking) {
	a.keyFlag("only those of this key: its id, its label or exec")
	a.limitFlag(0)
	a.jsonFlag(printsAmounts)
	deleted := a.Flags().Bool("deleted", false, "those that were deleted, with what is still in them")
	a.runs(func([]string) error {
		if *deleted {
			a.ask.Set("deleted", "true")
		}
		return listing[adminapi.Wallet]{
			name: "wallets", cursor: "after", page: adminapi.DefaultWalletPage,
			columns: walletColumns, cells: walletCells,
		}.print(a)
	})
}

func walletCells(w adminapi.Wallet) []string {
	address, balance := unlimited, "unknown: "+w.Unknown
	if w.Address != nil {
		address = *w.Address
	}
	if w.Balance != nil {
		balance = units(*w.Balance)
	}
	if w.Code != "" && !w.CodeAccepts {
		balance += "; it cannot pay: it has " + w.Code
	}
	return []string{w.ID, cmp.Or(w.KeyLabel, w.KeyID), w.Network, address, balance, sharedWith(w)}
}

var walletColumns = []column{
	{head: "WALLET", holds: idCell, spare: 2},
	{head: "KEY", holds: textCell},
	{head: "NETWORK"},
	{head: "ADDRESS"},
	{head: "USDC", holds: textCell},
	{head: "SHARED", holds: textCell, spare: 1},
}

func sharedWith(w adminapi.Wallet) string {
	text := unlimited
	switch {
	case w.Shared == 1:
		text = "1 key"
	case w.Shared > 1:
		text = strconv.Itoa(w.Shared) + " keys"
	}
	if w.Deployment {
		text += ", deployment's"
	}
	return strings.TrimPrefix(text, unlimited+", ")
}

func units(text string) string {
	amount, err := money.Parse(text)
	if err != nil {
		return text + " (smallest unit)"
	}
	return amount.Format(usdcDecimals)
}

func createWalletCommand(wallets *asking) {
	a := wallets.sub("create --key ID", "Makes a wallet for a key", walletsCreateHelp, cobra.NoArgs)
	a.keyFlag("whose wallet: id or label of the key, or exec")
	network := a.networkFlag("network of the wallet")
	a.changes("make a wallet for the key {}")
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		if a.key == "" {
			return errors.New("whose wallet? --key takes the id or label of a key, or exec ('purser keys' lists them)")
		}
		body := adminapi.NewWallet{Network: *network}
		return tell(a, http.MethodPost, keyPath(a.key)+"/wallets", body, func(t *table, made adminapi.Wallet) {
			address := "none, because no wallet provider is configured (PURSER_WALLETS)"
			if made.Address != nil {
				address = *made.Address
			}
			t.row("wallet", made.ID)
			t.row("network", made.Network)
			t.row("address", address)
			t.row("made", when(made.Created))
		})
	})
}
