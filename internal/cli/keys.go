package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

const keysHelp = `
Lists the API keys of a running purser, oldest first, with the limits that each has of its
own; 'purser limits KEY_ID' shows all that holds for one. A key's secret is shown once, when
it is made.

    $ purser keys list
    $ purser keys list --json
    $ purser keys show research
    $ purser keys create --label research --daily-budget 5 --door proxy
    $ purser keys pause research
    $ purser keys revoke 0199…`

const keysCreateHelp = `
Makes an API key and prints it. Keep it now: it is stored as a hash and not shown again.
It draws from the deployment's wallet ('purser wallets --help'), or from the one that --wallet
names; --wallet new makes one for it alone. The flags for limits are those of 'purser limits'. What they do not set is as the
configured defaults say, at every door, the REST API as well. No plan bounds its payments.

With --parent, for an agent that starts agents, the key is a child of another one. It has limits of
its own, and what it spends counts in the parent's budgets, too: both must have room. It draws from
the wallets that the parent has now, and belongs to the parent's organization, if there is one. While the
parent is paused it pays nothing, and a revoked parent's children are refused. A child has no children.

    $ purser keys create --label research --daily-budget 5 --door proxy
    $ purser keys create --label ci --network base-sepolia --json
    $ purser keys create --label customer-7 --wallet new
    $ purser keys create --label worker --parent research --daily-budget 1`

func (env *Env) keysCommand(c *cobra.Command) {
	a := env.asks(c)
	listKeys(a)
	listKeys(a.list("Lists API keys, as 'purser keys' does"))
	showKeyCommand(a)
	createKeyCommand(a)
	reissueKeyCommand(a)
	stopKeyCommands(a)
}

func listKeys(a *asking) {
	a.limitFlag(0)
	a.jsonFlag(printsAmounts)
	a.runs(func([]string) error {
		if a.json.on {
			a.ask.Set("today", "true")
		}
		return listing[adminapi.Key]{
			name: "keys", cursor: "after", columns: []column{
				{head: "KEY", holds: idCell},
				{head: "LABEL", holds: textCell},
				{head: "STATE", holds: textCell},
				{head: "PARENT", holds: idCell, spare: 3},
				{head: "ORGANIZATION", holds: idCell, spare: 1},
				{head: "MADE (UTC)", holds: timeCell, spare: 2},
				{head: "LAST USED (UTC)", holds: timeCell, spare: 2},
				{head: "OWN LIMITS", holds: textCell},
			},
			cells: func(k adminapi.Key) []string {
				return []string{k.ID, orDash(k.Label), keyState(k), orDash(k.Parent), orDash(k.Organization), when(k.Created), orDash(when(lastUse(k))), summary(k.Policy)}
			},
		}.print(a)
	})
}

const keysShowHelp = `
Shows one key: whether it pays, whose it is, which of its secrets work, and when it was last used
at each door, within ten minutes. 'purser limits KEY'
shows what it may spend.

    $ purser keys show research
    $ purser keys show 0199… --json`

func showKeyCommand(keys *asking) {
	a := keys.sub("show KEY", "Shows a key", keysShowHelp, cobra.ExactArgs(1))
	a.jsonFlag(printsAmounts)
	a.ValidArgsFunction = a.env.keyIDs()
	a.runs(func(args []string) error {
		if err := checkID("KEY", args[0]); err != nil {
			return err
		}
		return tell(a, http.MethodGet, keyPath(args[0]), nil, writeKeyFacts)
	})
}

func writeKeyFacts(t *table, k adminapi.Key) {
	t.row("key", k.ID)
	t.row("label", orDash(k.Label))
	t.row("state", keyStateText(k))
	writeFamily(t, k)
	if k.Organization != "" {
		t.row("organization", k.Organization)
	}
	t.row("made", when(k.Created))
	if !k.Reissued.IsZero() {
		t.row("reissued", when(k.Reissued))
	}
	for _, door := range adminapi.Doors {
		used := "never"
		if at := k.Used[door]; !at.IsZero() {
			used = when(at)
		}
		t.row("last used at "+string(door), used)
	}
	t.row("own limits", summary(k.Policy))
}

// writeFamily writes a key's parent and children.
func writeFamily(t *table, k adminapi.Key) {
	if k.Parent != "" {
		t.row("parent", named(k.Parent, k.ParentLabel))
	}
	for _, child := range k.Children {
		name := named(child.ID, child.Label)
		if !child.Revoked.IsZero() {
			name += ", revoked"
		}
		t.row("child", name)
	}
}

// named names a key by its label and id.
func named(id, label string) string {
	if label == "" {
		return id
	}
	return label + " (" + id + ")"
}

// lastUse tells when a key was last used at any door; zero: never.
func lastUse(k adminapi.Key) (last time.Time) {
	for _, at := range k.Used {
		if at.After(last) {
			last = at
		}
	}
	return last
}

func orDash(text string) string {
	if text == "" {
		return unlimited
	}
	return text
}

func summary(own *policy.Policy) string {
	if own == nil {
		return unlimited
	}
	all := caps(own.Whole())
	if own.PerMinute != nil {
		all = append(all, "per-minute:"+counted(own.PerMinute))
	}
	if len(own.Doors) > 0 {
		all = append(all, "doors:"+strings.ReplaceAll(joined(own.Doors), " ", "+"))
	}
	return orDash(strings.Join(append(all, more(*own)...), ","))
}

func createKeyCommand(keys *asking) {
	a := keys.sub("create", "Makes an API key that can pay", keysCreateHelp, cobra.NoArgs)
	name := a.Flags().String("label", "", "what the key is for; up to 200 characters")
	network := a.networkFlag("network of its wallet")
	wallet := a.Flags().String("wallet", "", "wallet that it draws from, by id or address, or new for one of its own (default: the deployment's)")
	parent := a.Flags().String("parent", "", "key whose budgets it shares, by id or label; it draws from that key's wallets")
	exec := a.Flags().Bool("exec", false, "make another exec key in the place of a revoked one")
	a.changes("make an API key")
	a.jsonFlag(printsJSON)
	limits := changeFlags(a.Command, nil)
	a.runs(func([]string) error {
		body := map[string]any{"label": *name, "network": *network, "wallet": *wallet, "parent": *parent, "exec": *exec}
		patch, err := limits()
		if err != nil {
			return err
		}
		if len(patch) > 0 {
			body["policy"] = patch
		}
		return tell(a, http.MethodPost, "/purser/keys", body, writeCreatedKey)
	})
}

func writeCreatedKey(t *table, k adminapi.CreatedKey) {
	address := "none: no wallet provider is configured (PURSER_WALLETS)"
	if k.Address != nil {
		address = *k.Address
	}
	t.row("key", k.Key)
	t.row("id", k.ID)
	t.row("label", orDash(k.Label))
	t.row("network", k.Network)
	t.row("address", address)
	funded := "send %s on %s to the address"
	if k.Lent {
		funded = "the address is that of a shared wallet; fund it with %s on %s, unless you have"
	}
	fmt.Fprintf(t, `
Keep the key now: it is not shown again. Then:
  `+funded+`
  purser limits %s              what it may spend
  purser exec --key-file FILE -- CMD   runs a program that it pays for, with the key in FILE
`, tokensOf(k.Network), label(k.Network), label(k.ID))
}

// tokensOf names what a wallet on a network is funded with.
func tokensOf(network string) string {
	n, _ := x402.NetworkByWire(network)
	return cmp.Or(n.Tokens(), money.Symbol)
}
