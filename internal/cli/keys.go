package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const keysHelp = `
Lists the API keys of a running purser, oldest first, with the limits that each has of its
own; 'purser limits KEY_ID' shows all that holds for one. A key's secret is shown once, when
it is made.

    $ purser keys
    $ purser keys --json
    $ purser keys create --label research --daily-budget 5 --door proxy
    $ purser keys pause research
    $ purser keys revoke 0199…`

const keysCreateHelp = `
Makes an API key with a wallet and prints it. Keep it now: it is stored as a hash and not
shown again. The flags for limits are those of 'purser limits'. What they do not set is as the
configured defaults say, at every door, the REST API as well. No plan bounds its payments.

    $ purser keys create --label research --daily-budget 5 --door proxy
    $ purser keys create --label ci --network base-sepolia --json`

func (env *Env) keysCommand(c *cobra.Command) {
	adminFlag(c)
	limitFlag(c, 0)
	c.Flags().Bool("json", false, "print JSON, with amounts in the smallest unit")
	c.Args = cobra.NoArgs
	Run(c, env.runKeys)

	create := &cobra.Command{Use: "create", Short: "Makes an API key with a wallet", Long: keysCreateHelp, Args: cobra.NoArgs}
	adminFlag(create)
	create.Flags().String("label", "", "what the key is for; up to 200 characters")
	create.Flags().String("network", "", "network of its wallet (default: the first one that is configured)")
	create.Flags().Bool("json", false, "print JSON")
	changeFlags(create)
	oneOf(create, "network", networkNames()...)
	Run(create, env.runCreateKey)
	c.AddCommand(create)
	c.AddCommand(env.keyStopCommands()...)
}

func (env *Env) runKeys(c *cobra.Command, _ []string) error {
	client, err1 := env.adminOf(c)
	as, err2 := form(c)
	most, err3 := limitOf(c)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	ask := url.Values{}
	if as == asJSON {
		ask.Set("today", "true")
	}
	return listing[adminapi.Key]{
		path: "/purser/keys", ask: ask, name: "keys", cursor: "after", page: adminapi.MaxKeyPage, most: most,
		heads: []string{"KEY", "LABEL", "STATE", "ORGANIZATION", "MADE", "OWN LIMITS"},
		cells: func(k adminapi.Key) []string {
			return []string{k.ID, orDash(k.Label), keyState(k), orDash(k.Organization), k.Created.UTC().Format(time.RFC3339), summary(k.Policy)}
		},
	}.print(c, client, as, nil)
}

func orDash(text string) string {
	if text == "" {
		return unlimited
	}
	return text
}

// summary is a key's own policy on one line.
func summary(own *pay.Policy) string {
	if own == nil {
		return unlimited
	}
	var all []string
	for _, limit := range []struct {
		name string
		cap  *pay.Cap
	}{{"max", own.MaxPayment}, {"daily", own.DailyBudget}, {"monthly", own.MonthlyBudget}} {
		if limit.cap != nil {
			all = append(all, limit.name+":"+inUSDC(limit.cap))
		}
	}
	if own.PerMinute != nil {
		all = append(all, "per-minute:"+counted(own.PerMinute))
	}
	if len(own.Doors) > 0 {
		all = append(all, "doors:"+strings.ReplaceAll(joined(own.Doors), " ", "+"))
	}
	return orDash(strings.Join(append(all, more(*own)...), ","))
}

func (env *Env) runCreateKey(c *cobra.Command, _ []string) error {
	text, err1 := c.Flags().GetString("label")
	network, err2 := c.Flags().GetString("network")
	as, err3 := form(c)
	limits, err4 := limitsPatch(c)
	client, err5 := env.adminOf(c)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	body := map[string]any{"label": text, "network": network}
	if len(limits) > 0 {
		body["policy"] = limits
	}
	var made adminapi.CreatedKey
	if err := client.call(c.Context(), http.MethodPost, "/purser/keys", body, &made); err != nil {
		return err
	}
	if as == asJSON {
		return printJSON(c.OutOrStdout(), made)
	}
	return printCreatedKey(c.OutOrStdout(), made)
}

func printCreatedKey(w io.Writer, k adminapi.CreatedKey) error {
	t := newTable(w)
	address := "none: no wallet provider is configured (PURSER_WALLETS)"
	if k.Address != nil {
		address = *k.Address
	}
	for _, line := range [][2]string{
		{"key", k.Key}, {"id", k.ID}, {"label", orDash(k.Label)}, {"network", k.Network}, {"address", address},
	} {
		t.row(line[0], line[1])
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
Keep the key now: it is not shown again. Then:
  send USDC on %s to the address
  purser limits %s              what it may spend
  purser exec --key-file FILE -- CMD   runs a program that it pays for, with the key in FILE
`, label(k.Network), label(k.ID))
	return err
}
