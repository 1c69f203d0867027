package cli

import (
	"fmt"
	"net/http"

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
	a := env.asks(c)
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error { return tell(a, http.MethodGet, "/purser/rpc", nil, writeRPC) })

	trust := a.sub("trust NETWORK", "Forgets a network's block and trusts the RPC anew", rpcTrustHelp, cobra.ExactArgs(1))
	trust.changes("forget the block of a network, and take the next one on trust")
	trust.jsonFlag(printsJSON)
	trust.runs(func(args []string) error {
		trust.dry.would = "forget the block of " + args[0] + ", and take the next one on trust"
		return tell(trust, http.MethodPost, "/purser/rpc/trust", adminapi.TrustRPC{Network: args[0]}, writeRPC)
	})
}

func writeRPC(t *table, s adminapi.RPCStatus) {
	t.row("RPC", s.RPC)
	if s.SecondRPC != "none" {
		t.row("second RPC", s.SecondRPC)
	}
	for _, b := range s.Blocks {
		t.row(b.Network, fmt.Sprintf("block %d of %s, %s", b.Number, when(b.Time), b.Hash))
	}
	if len(s.Blocks) == 0 {
		t.row("blocks", "none seen yet: the first one is taken on trust")
	}
}
