package house

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/purserpay/purser/"

// forbidden lists packages that others must not know, themselves or through others. Tests count where they are
// listed: those of pay and x402 must start in seconds.
var forbidden = []struct {
	packages []string
	tests    bool
	imports  []string
}{
	{
		[]string{"x402", "pay", "pay/storekit", "pay/memory", "pay/storetest"},
		true,
		[]string{
			"github.com/caddyserver/", "go.etcd.io/bbolt", "github.com/jackc/pgx/", "github.com/ethereum/go-ethereum/node",
			"github.com/ethereum/go-ethereum/eth", "github.com/ethereum/go-ethereum/p2p", "github.com/ethereum/go-ethereum/ethclient",
		},
	},
	{
		[]string{"x402"},
		true,
		[]string{module + "pay"},
	},
	{
		[]string{"pay", "pay/storekit", "pay/memory"},
		true,
		[]string{
			module + "boltstore", module + "pgstore", module + "signer", module + "facilitator", module + "chain", module + "payapi",
			module + "proxy", module + "dashboard", module + "caddymodule", module + "sandbox", module + "internal/vault",
		},
	},
	{
		[]string{"pay", "pay/memory", "pay/storetest"},
		false,
		[]string{module + "treasury", module + "limits"},
	},
	{
		// The words of sellers and clients, below the doors.
		[]string{"protocol"},
		false,
		[]string{module + "pay", module + "proxy", module + "payapi", module + "caddymodule", "github.com/caddyserver/"},
	},
	{
		[]string{"treasury", "limits"},
		false,
		[]string{
			"github.com/caddyserver/", "go.etcd.io/bbolt", module + "boltstore", module + "pgstore", module + "signer", module + "facilitator",
			module + "chain", module + "payapi", module + "proxy", module + "dashboard", module + "caddymodule", module + "sandbox",
		},
	},
	{
		[]string{"payapi", "proxy", "proxy/forward", "dashboard", "dashboard/session", "internal/books", "internal/bookkeeping"},
		false,
		[]string{
			"github.com/caddyserver/", "go.etcd.io/bbolt", "github.com/jackc/pgx/", module + "boltstore", module + "pgstore",
			module + "signer", module + "facilitator", module + "chain", module + "caddymodule", module + "sandbox",
		},
	},
	{
		[]string{"boltstore", "pgstore", "signer", "facilitator", "chain", "internal/vault", "sandbox"},
		false,
		[]string{"github.com/caddyserver/", module + "payapi", module + "proxy", module + "caddymodule"},
	},
	{
		// Stores know no other store, no chain and no door.
		[]string{"boltstore", "pgstore"},
		false,
		[]string{
			module + "chain", module + "signer", module + "facilitator", module + "treasury", module + "limits", module + "dashboard",
			module + "sandbox", module + "internal/cli", module + "internal/adminapi",
		},
	},
	{
		[]string{"boltstore"},
		false,
		[]string{module + "pgstore", "github.com/jackc/pgx/"},
	},
	{
		[]string{"pgstore"},
		false,
		[]string{module + "boltstore", "go.etcd.io/bbolt"},
	},
	{
		[]string{"internal/adminapi", "internal/logs"},
		false,
		[]string{
			"github.com/caddyserver/", "go.etcd.io/bbolt", "github.com/jackc/pgx/", module + "boltstore", module + "pgstore",
			module + "caddymodule", module + "payapi", module + "proxy", module + "dashboard",
		},
	},
	{
		// The forms of options, below what has options.
		[]string{"internal/setting"},
		false,
		[]string{module + "boltstore", module + "pgstore", module + "caddymodule", module + "payapi", module + "proxy", module + "dashboard"},
	},
	{
		[]string{"internal/cli"},
		false,
		[]string{"github.com/caddyserver/", module + "caddymodule", module + "payapi", module + "proxy", module + "dashboard"},
	},
	{
		// An agent's client has no powers of the operator.
		[]string{"internal/agent", "internal/mcp"},
		false,
		[]string{
			"github.com/caddyserver/", "go.etcd.io/bbolt", module + "boltstore", module + "pgstore", module + "caddymodule",
			module + "payapi", module + "proxy", module + "dashboard", module + "internal/adminapi", module + "internal/cli",
		},
	},
	{
		// The program that holds keys links no world to attack it in, and nothing under the LGPL, which go-ethereum
		// is. xcaddy builds link caddymodule.
		[]string{"cmd/purser", "caddymodule", "internal/cli"},
		false,
		[]string{module + "sandbox", "github.com/ethereum/"},
	},
	{
		// The attacks need no chain.
		[]string{"sandbox/attacks"},
		false,
		[]string{
			module + "sandbox/evm", module + "sandbox/contracts", "github.com/ethereum/go-ethereum/ethclient",
			"github.com/ethereum/go-ethereum/node", "github.com/ethereum/go-ethereum/eth", "github.com/ethereum/go-ethereum/core",
			"github.com/ethereum/go-ethereum/p2p", "github.com/ethereum/go-ethereum/rpc",
		},
	},
	{
		[]string{"proxy"},
		true,
		[]string{module + "proxy/forward"},
	},
	{
		[]string{"internal/guard"},
		true,
		[]string{"github.com/caddyserver/", module + "pay", module + "x402", module + "proxy", module + "caddymodule"},
	},
	{
		[]string{"sandbox/attacks"},
		false,
		[]string{"github.com/caddyserver/", module + "caddymodule", module + "payapi", module + "proxy", module + "boltstore", module + "pgstore"},
	},
}

func TestArrowsPointInwards(t *testing.T) {
	t.Parallel()
	for _, rule := range forbidden {
		for _, p := range rule.packages {
			args := []string{"list", "-deps"}
			if rule.tests {
				args = append(args, "-test")
			}
			out, err := exec.CommandContext(t.Context(), "go", append(args, module+p)...).Output()
			if err != nil {
				t.Fatalf("go %s: %v", strings.Join(args, " "), err)
			}
			for dep := range strings.Lines(string(out)) {
				dep = strings.TrimSpace(dep)
				for _, no := range rule.imports {
					if dep == no || strings.HasPrefix(dep, strings.TrimSuffix(no, "/")+"/") {
						t.Errorf("%s must not know %s", p, dep)
					}
				}
			}
		}
	}
}
