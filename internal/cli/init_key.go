package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

// FirstKey is the key that init made, or found.
type FirstKey struct {
	ID      string
	Address string // empty without a wallet provider
	Network string
	Dir     string // data directory; empty when a running purser has it
	Master  string // path of the generated master key; empty when it comes from elsewhere
	Old     bool   // it was there before
	running string // address of the admin endpoint of the purser that was asked; empty: none runs
}

// firstKey makes the key of `purser exec` with its wallet: through the admin endpoint of a
// purser that runs, else in the database itself. A key or wallet that is there already stays.
func (env *Env) firstKey(ctx context.Context, c *cobra.Command) (FirstKey, error) {
	named := c.Flags().Lookup("admin").Value.String() != "" // one that is named is meant to run
	if !named && env.Getenv(adminapi.AddressVariable) == off {
		return env.MakeKey(ctx)
	}
	client, err := env.adminOf(c)
	if err != nil {
		return FirstKey{}, err
	}
	var made adminapi.Exec
	err = client.call(ctx, http.MethodPost, "/purser/exec", struct{}{}, &made)
	if !named && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
		return env.MakeKey(ctx)
	}
	k := FirstKey{ID: made.KeyID, Network: made.Network, running: client.address}
	if made.Address != nil {
		k.Address = *made.Address
	}
	return k, err
}

func (k FirstKey) next(ctx context.Context, env *Env, told initAnswers) string {
	var b strings.Builder
	made := "Made %s and %s, and a key that pays through the proxy only"
	if k.Old {
		made = "Wrote %s and %s. The key that was here stays, with its wallet and the books"
	}
	fmt.Fprintf(&b, "\n"+made+":\n\n    %s\n", initCaddyfile, initEnvFile, label(k.ID))
	if k.Master != "" {
		fmt.Fprintf(&b, "\nBack up %s now, somewhere else: without it the wallet is lost.\n", env.shortPath(k.Master))
	}
	if k.Dir != "" {
		fmt.Fprintf(&b, "Keep this folder out of version control.\n")
	}
	paid := "https://api.example.com/paid"
	faucet, sandbox := sandboxFaucet(ctx, cmp.Or(told["rpc"], env.Getenv(rpcURLVariable)))
	if faucet != "" {
		paid = strings.TrimSuffix(faucet, "/faucet") + "/weather"
	}
	k.writeFund(&b, faucet, sandbox)
	if k.running == "" {
		fmt.Fprintf(&b, "\nStart purser in this folder:\n\n    %s\n", env.runCommand())
	} else {
		fmt.Fprintf(&b, "\nThe purser that runs (%s) has the key. If it is this folder's, `purser reload`\n"+
			"makes it read the files.\n", k.running)
	}
	fmt.Fprintf(&b, `
Then, in another terminal, in this folder:

    purser status
    purser exec -- curl -i %s
    purser wallets
    purser spend
    purser dashboard

The last one prints a link that signs you in to the dashboard, which shows the same.
`, paid)
	if lines := env.project(ctx); len(lines) > 0 {
		fmt.Fprintf(&b, "\nYour project:\n\n    %s\n", strings.Join(lines, "\n    "))
	}
	if told[hostsFlag] == hostsAsk {
		b.WriteString("\nThe first payment to each new host waits until you approve it: purser approvals.\n" +
			"That is require_approval_new_hosts in the " + initCaddyfile + "; allow_hosts names hosts instead.\n")
	}
	if k.running == "" {
		for _, warning := range env.portsInUse(ctx, told["listen"]) {
			fmt.Fprintf(&b, "\n%s\n", warning)
		}
	}
	if info, err := os.Stat(k.Dir); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(&b, "\nOther users can get into %[1]s, where the master key is: chmod 700 %[1]s\n", env.shortPath(k.Dir))
	}
	for _, name := range []string{dataDirVariable, masterKeyVariable, masterKeyFileVariable} {
		if env.Getenv(name) != "" && k.running == "" {
			fmt.Fprintf(&b, "\n%s is set here: 'purser run' needs it too.\n", name)
		}
	}
	return b.String()
}

func (k FirstKey) writeFund(b *strings.Builder, faucet string, sandbox bool) {
	network := k.Network
	if n, known := x402.NetworkByWire(network); known {
		network = networkTitle(n)
	}
	switch address := label(k.Address); {
	case k.Address == "":
		b.WriteString("\nIts wallet has no address, so it cannot pay: set PURSER_WALLETS to something else than none.\n")
	case faucet != "":
		fmt.Fprintf(b, "\nThe RPC is the sandbox's. Play money for the wallet (never send real money there):\n\n"+
			"    curl -X POST %s -d address=%s\n", faucet, address)
	case sandbox:
		fmt.Fprintf(b, "\nThe RPC is the sandbox's: the wallet is for play money only (POST /faucet of its paid API). "+
			"Never send real money there:\n\n    %s\n", address)
	default:
		fmt.Fprintf(b, "\nSend %s on %s to its wallet. Nothing else is needed there%s:\n\n    %s\n", tokensOf(k.Network), label(network), noCoin(k.Network), address)
	}
}

// noCoin names the coin that a wallet on a network does not need, where the network has one.
func noCoin(network string) string {
	if n, _ := x402.NetworkByWire(network); n.Rail != 0 {
		return ""
	}
	return ", no ETH"
}

func (env *Env) shortPath(path string) string {
	here, err := filepath.Abs(env.path("."))
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}
