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

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

// FirstKey is the key that init made, or found.
type FirstKey struct {
	ID      string
	Address string // empty without a wallet provider
	Network string
	Secret  string // path of the file with the secret; empty when a running purser keeps it
	Dir     string // data directory; empty when a running purser has it
	Master  string // path of the generated master key; empty when it comes from elsewhere
	Old     bool   // it was there before
	running string // address of the admin endpoint of the purser that was asked; empty: none runs
}

// firstKey makes the key of `purser exec` with its wallet: through the admin endpoint of a
// purser that runs, else in the database itself. What is there already stays.
func (env *Env) firstKey(ctx context.Context, admin string) (FirstKey, error) {
	if admin == "" && env.Getenv(adminapi.AddressVariable) == off {
		return env.MakeKey(ctx)
	}
	client, err := env.newAdminClient(admin)
	if err != nil {
		return FirstKey{}, err
	}
	var made adminapi.Exec
	err = client.call(ctx, http.MethodPost, "/purser/exec", struct{}{}, &made)
	// One that was named on the command line is meant to run.
	if admin == "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
		return env.MakeKey(ctx)
	}
	if err != nil {
		return FirstKey{}, err
	}
	k := FirstKey{ID: made.KeyID, Network: made.Network, running: client.address}
	if made.Address != nil {
		k.Address = *made.Address
	}
	return k, nil
}

// othersCan reports whether other users can enter a directory.
func othersCan(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0
}

// next says what there is now, and what to do with it.
func (k FirstKey) next(ctx context.Context, env *Env, told initAnswers) string {
	var b strings.Builder
	if k.Old {
		fmt.Fprintf(&b, "\nWrote %s and %s. The key that was here stays, with its wallet and the books:\n\n    %s\n", initCaddyfile, initEnvFile, label(k.ID))
	} else {
		fmt.Fprintf(&b, "\nMade %s and %s, and a key that pays through the proxy only:\n\n    %s\n", initCaddyfile, initEnvFile, label(k.ID))
	}
	if k.Secret != "" {
		fmt.Fprintf(&b, "    kept in %s, beside the database and its master key\n", env.shortPath(k.Secret))
	}
	k.writeKeep(&b, env)
	paid := "https://api.example.com/paid"
	faucet, sandbox := sandboxFaucet(ctx, cmp.Or(told["rpc"], env.Getenv(rpcURLVariable)))
	if faucet != "" {
		paid = strings.TrimSuffix(faucet, "/faucet") + "/weather"
	}
	k.writeFund(&b, faucet, sandbox)
	if k.running == "" {
		fmt.Fprintf(&b, "\nStart purser in this folder:\n\n    purser run --envfile %s\n", initEnvFile)
	} else {
		fmt.Fprintf(&b, "\nThe purser that runs (%s) has the key. If it is this folder's, restart it to use the files;\n"+
			"`purser reload` takes the %s, without %s.\n", k.running, initCaddyfile, initEnvFile)
	}
	b.WriteString("\nThen, in another terminal, in this folder:\n\n" +
		"    purser status\n" +
		"    purser exec -- curl -i " + paid + "\n" +
		"    purser wallets\n" +
		"    purser spend\n\n" +
		"The dashboard shows the same to people who sign in; /dashboard says what it needs for that.\n")
	if k.running == "" {
		for _, warning := range env.portsInUse(ctx, told["listen"]) {
			fmt.Fprintf(&b, "\n%s\n", warning)
		}
	}
	if k.Dir != "" && othersCan(k.Dir) {
		fmt.Fprintf(&b, "\nOther users can get into %[1]s, where the master key is: chmod 700 %[1]s\n", env.shortPath(k.Dir))
	}
	for _, name := range []string{dataDirVariable, masterKeyVariable, masterKeyFileVariable} {
		if env.Getenv(name) != "" && k.running == "" {
			fmt.Fprintf(&b, "\n%s is set here: 'purser run' needs it too.\n", name)
		}
	}
	return b.String()
}

// writeKeep says what must not get lost, nor about.
func (k FirstKey) writeKeep(b *strings.Builder, env *Env) {
	if k.Master != "" {
		fmt.Fprintf(b, "\nBack up %s now, somewhere else: without it the wallet is lost.\n", env.shortPath(k.Master))
	}
	if k.Dir != "" {
		fmt.Fprintf(b, "Keep this folder out of version control.\n")
	}
}

// writeFund says where money is to be sent.
func (k FirstKey) writeFund(b *strings.Builder, faucet string, sandbox bool) {
	if k.Address == "" {
		b.WriteString("\nIts wallet has no address, so it cannot pay: set PURSER_WALLETS to something else than none.\n")
		return
	}
	switch network := k.Network; {
	case faucet != "":
		fmt.Fprintf(b, "\nThe RPC is the sandbox's. Play money for the wallet (never send real money there):\n\n    curl -X POST %s -d address=%s\n", faucet, label(k.Address))
	case sandbox:
		fmt.Fprintf(b, "\nThe RPC is the sandbox's: the wallet is for play money only (POST /faucet of its paid API). Never send real money there:\n\n    %s\n", label(k.Address))
	default:
		if n, known := x402.NetworkByWire(network); known {
			network = networkTitle(n)
		}
		fmt.Fprintf(b, "\nSend USDC on %s to its wallet. Nothing else is needed there, no ETH:\n\n    %s\n", label(network), label(k.Address))
	}
}

// shortPath is a path seen from this folder, if it is below it.
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
