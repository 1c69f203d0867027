package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const rpcHelp = `
Shows what the RPC is held against: of each network the last safe block that purser has
seen. Before a payment is void, disputed or confirmed, the RPC must have that block. The
first block is taken on trust.

    $ purser rpc`

const rpcTrustHelp = `
Forgets the safe block that purser has seen last of a network, and takes the next one on
trust. Without it, an RPC that has another block in its place is ignored: it is on a fork.

Do that only if you know that the block is not the network's: because an earlier RPC has
lied, or a reorganization has taken back a safe block. Compare the block of 'purser rpc'
with a block explorer first.

    $ purser rpc trust base`

func (env *Env) rpcCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	Run(c, env.runRPC)

	again := &cobra.Command{Use: "trust NETWORK", Short: "Forgets a network's block and trusts the RPC anew", Long: rpcTrustHelp, Args: cobra.ExactArgs(1)}
	adminFlag(again)
	again.Flags().Bool("json", false, "print JSON")
	Run(again, env.runRPCTrust)
	c.AddCommand(again)
}

func (env *Env) runRPC(c *cobra.Command, _ []string) error {
	return env.askRPC(c, http.MethodGet, "/purser/rpc", nil)
}

func (env *Env) runRPCTrust(c *cobra.Command, args []string) error {
	return env.askRPC(c, http.MethodPost, "/purser/rpc/trust", adminapi.TrustRPC{Network: args[0]})
}

func (env *Env) askRPC(c *cobra.Command, method, path string, body any) error {
	asJSON, err1 := c.Flags().GetBool("json")
	client, err2 := env.adminOf(c)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var s adminapi.RPCStatus
	if err := client.call(c.Context(), method, path, body, &s); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), s)
	}
	return printRPC(c.OutOrStdout(), s)
}

func printRPC(w io.Writer, s adminapi.RPCStatus) error {
	t := newTable(w)
	t.row("RPC", s.RPC)
	if s.SecondRPC != "none" {
		t.row("second RPC", s.SecondRPC)
	}
	for _, b := range s.Blocks {
		t.row(b.Network, fmt.Sprintf("block %d of %s, %s", b.Number, b.Time.UTC().Format(time.RFC3339), b.Hash))
	}
	if len(s.Blocks) == 0 {
		t.row("blocks", "none seen yet: the first one is taken on trust")
	}
	return t.flush()
}
