package cli

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

const walletsHelp = `
Lists the wallets of all keys, or of one, with what they hold, as the chain tells now.
Without an RPC (PURSER_RPC_URL), or while it does not answer, balances are not known.

    $ purser wallets
    $ purser wallets --key exec
    $ purser wallets --key 0199… --json
    $ purser wallets create --key 0199… --network base`

const walletsCreateHelp = `
Makes a wallet for a key, and prints the address to fund. Of several wallets on a network
the oldest pays.

    $ purser wallets create --key 0199… --network base
    $ purser wallets create --key exec --network base-sepolia`

func (env *Env) walletsCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().String("key", "", "only those of this key: its id, its label or exec")
	limitFlag(c, 0)
	c.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	c.Args = cobra.NoArgs
	Run(c, env.runWallets)

	create := &cobra.Command{Use: "create --key ID", Short: "Makes a wallet for a key", Long: walletsCreateHelp, Args: cobra.NoArgs}
	adminFlag(create)
	create.Flags().String("key", "", "whose wallet: id or label of the key, or exec")
	create.Flags().String("network", "", "network of the wallet (default: the first one that is configured)")
	create.Flags().Bool("json", false, "print JSON")
	Run(create, env.runCreateWallet)
	env.keyFlag(c)
	env.keyFlag(create)
	oneOf(create, "network", networkNames()...)
	c.AddCommand(create)
}

func (env *Env) runWallets(c *cobra.Command, _ []string) error {
	key, err1 := c.Flags().GetString("key")
	client, err2 := env.adminOf(c)
	as, err3 := form(c)
	most, err4 := limitOf(c)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	ask := url.Values{}
	if key != "" {
		if err := checkID("--key", key); err != nil {
			return err
		}
		ask.Set("key", key)
	}
	return listing[adminapi.Wallet]{
		path: "/purser/wallets", ask: ask, name: "wallets", cursor: "after", page: adminapi.DefaultWalletPage, most: most,
		heads: []string{"WALLET", "KEY", "NETWORK", "ADDRESS", "USDC"}, cells: walletCells,
	}.print(c, client, as, nil)
}

func walletCells(w adminapi.Wallet) []string {
	address, balance := unlimited, "unknown: "+w.Unknown
	if w.Address != nil {
		address = *w.Address
	}
	if w.Balance != nil {
		balance = units(*w.Balance)
	}
	return []string{w.ID, w.KeyID, w.Network, address, balance}
}

// units is an amount in the smallest unit for people.
func units(text string) string {
	amount, err := x402.ParseAmount(text)
	if err != nil {
		return text + " (smallest unit)"
	}
	return amount.Format(usdcDecimals)
}

func (env *Env) runCreateWallet(c *cobra.Command, _ []string) error {
	key, err1 := c.Flags().GetString("key")
	network, err2 := c.Flags().GetString("network")
	as, err3 := form(c)
	client, err4 := env.adminOf(c)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	if key == "" {
		return errors.New("whose wallet? --key takes the id or label of a key, or exec ('purser keys' lists them)")
	}
	if err := checkID("--key", key); err != nil {
		return err
	}
	var made adminapi.Wallet
	path := "/purser/keys/" + url.PathEscape(key) + "/wallets"
	if err := client.call(c.Context(), http.MethodPost, path, adminapi.NewWallet{Network: network}, &made); err != nil {
		return err
	}
	if as == asJSON {
		return printJSON(c.OutOrStdout(), made)
	}
	address := "none, because no wallet provider is configured (PURSER_WALLETS)"
	if made.Address != nil {
		address = *made.Address
	}
	t := newTable(c.OutOrStdout())
	t.row("wallet", made.ID)
	t.row("network", made.Network)
	t.row("address", address)
	t.row("made", made.Created.UTC().Format(time.RFC3339))
	return t.flush()
}
