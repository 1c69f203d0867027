package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

const limitsHelp = `
Without arguments it lists all keys with the limits that hold for them at the
proxy, what they spent today, and what that leaves of the daily budget; open
payments have taken theirs from it already. With the id of a key it shows that
key's limits, and changes those that flags name; 'exec' is the key that 'purser
exec' pays with. A label, or the first 8 or more characters of an id, will do
where only one key has them. A change holds for every payment that begins
afterwards.

Amounts are in USDC; days and months are those of UTC. 'off' is no limit, and
'default' takes the key's own limit away, so that the shipped or configured
default holds again. A list is replaced as a whole, unless the flag begins with
--add: that keeps what is in it.

    $ purser limits
    $ purser limits exec --max-payment 0.5 --daily-budget 5
    $ purser limits exec --host 'api.example.com=daily:2,max:0.1' --task 'nightly=daily:1' --task '*=daily:3'
    $ purser limits 0199… --allow-host api.example.com --allow-host '*.example.org' --deny-payee 0x20…
    $ purser limits research --add-deny-host shady.example.com
    $ purser limits 0199… --monthly-budget off --per-minute 10 --price-guard 3 --door proxy
    $ purser limits 0199… --allow-host default --task 'nightly=default'
    $ purser limits 0199… --json policy.json
    $ purser limits 0199… --reset

--host and --task name limits of a part of what the key spends, beside the key's
own: max, daily and monthly, each with an amount, off or default. All tasks that
have none of their own, and requests without a task, share those of the task '*'.

Programs read the limits of all keys with 'purser keys --json'. --json here sets all limits
at once from a file, or from standard input (-), in the
form of PUT /purser/keys/{id}/policy: amounts are strings in the smallest unit
there.`

// limitFlags are the flags that change a limit, with what they say in a merge patch of the
// policy.
var limitFlags = []struct {
	name, member, usage string
	read                func(string) (any, error)
}{
	{"max-payment", "max_payment", "most that one payment may cost: USDC, off or default", readCap},
	{"daily-budget", "daily_budget", "most that may be spent in a day: USDC, off or default", readCap},
	{"monthly-budget", "monthly_budget", "most that may be spent in a month: USDC, off or default", readCap},
	{"per-minute", "per_minute", "payments that may begin in a minute: a number, off or default", readCount},
	{"price-guard", "price_guard", "hold payments above so many times the last price: a number, off or default", readCount},
}

// limitLists are the flags that set a list.
var limitLists = []struct{ name, member, usage string }{
	{"door", "doors", "door that the key may pay through: proxy, transport or api; repeatable"},
	{"allow-host", "allow_hosts", "pay only this host, such as api.example.com or *.example.com; repeatable"},
	{"deny-host", "deny_hosts", "never pay this host; repeatable"},
	{"allow-payee", "allow_payees", "pay only this address; repeatable"},
	{"deny-payee", "deny_payees", "never pay this address; repeatable"},
}

// limitAdditions are the flags that add to a list.
var limitAdditions = []struct{ name, member, usage string }{
	{"add-allow-host", "add_allow_hosts", "pay this host as well; repeatable"},
	{"add-deny-host", "add_deny_hosts", "never pay this host either; repeatable"},
	{"add-allow-payee", "add_allow_payees", "pay this address as well; repeatable"},
	{"add-deny-payee", "add_deny_payees", "never pay this address either; repeatable"},
}

// limitParts are the flags that limit a part.
var limitParts = []struct{ name, member, usage string }{
	{"host", "hosts", "limits of a host, as 'api.example.com=daily:2,max:0.1'; repeatable"},
	{"task", "tasks", "limits of a task, as 'nightly=daily:1,monthly:off'; repeatable"},
}

func (env *Env) limitsCommand(c *cobra.Command) {
	adminFlag(c)
	changeFlags(c)
	for _, f := range limitAdditions {
		c.Flags().StringArray(f.name, nil, f.usage)
	}
	c.Flags().Bool("reset", false, "take all of the key's own limits away")
	c.Flags().String("json", "", "set all limits from a file with a policy in JSON, or - for standard input")
	c.Args = cobra.MaximumNArgs(1)
	Run(c, env.runLimits)
	c.ValidArgsFunction = oneID(env.keyIDs)
}

// changeFlags adds the flags that limitsPatch reads.
func changeFlags(c *cobra.Command) {
	for _, f := range limitFlags {
		c.Flags().String(f.name, "", f.usage)
	}
	for _, f := range limitLists {
		c.Flags().StringArray(f.name, nil, f.usage)
	}
	for _, f := range limitParts {
		c.Flags().StringArray(f.name, nil, f.usage)
	}
	oneOf(c, "door", "proxy", "transport", "api", byDefault)
}

func (env *Env) runLimits(c *cobra.Command, args []string) error {
	client, err := env.adminOf(c)
	if err != nil {
		return err
	}
	method, body, err := env.limitsChange(c)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if method != "" {
			return errors.New("whose limits? Name a key by its id or label, or exec")
		}
		return listLimits(c.Context(), client, c.OutOrStdout())
	}
	if err := checkID("KEY_ID", args[0]); err != nil {
		return err
	}
	path := "/purser/keys/" + url.PathEscape(args[0])
	var key adminapi.Key
	if method == "" {
		err = client.call(c.Context(), http.MethodGet, path, nil, &key)
	} else {
		err = client.call(c.Context(), method, path+"/policy", body, &key)
	}
	if err != nil {
		return err
	}
	return printKey(c.OutOrStdout(), key)
}

// limitsChange is the request that the flags amount to; its method is empty without any.
func (env *Env) limitsChange(c *cobra.Command) (method string, body any, err error) {
	patch, err := limitsPatch(c)
	if err == nil {
		err = addToLists(c, patch)
	}
	if err != nil {
		return "", nil, err
	}
	reset, err := c.Flags().GetBool("reset")
	if err != nil {
		return "", nil, err
	}
	whole := c.Flags().Changed("json")
	switch {
	case reset && whole || (reset || whole) && len(patch) > 0:
		return "", nil, errors.New("--reset and --json set everything: they go with no other change")
	case reset:
		return http.MethodPut, json.RawMessage("null"), nil
	case whole:
		text, err := env.readPolicyFile(c)
		return http.MethodPut, text, err
	case len(patch) > 0:
		return http.MethodPatch, patch, nil
	}
	return "", nil, nil
}

func (env *Env) readPolicyFile(c *cobra.Command) (json.RawMessage, error) {
	path, err := c.Flags().GetString("json")
	if err != nil {
		return nil, err
	}
	var text []byte
	if path == "-" {
		text, err = io.ReadAll(io.LimitReader(c.InOrStdin(), adminapi.MaxBody))
	} else {
		text, err = os.ReadFile(env.path(path))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("--json: %w", err)
	case !json.Valid(text):
		return nil, fmt.Errorf("--json: %s is not JSON", path)
	}
	return text, nil
}

// limitsPatch is the merge patch that the flags stand for.
func limitsPatch(c *cobra.Command) (map[string]any, error) {
	patch := map[string]any{}
	for _, f := range limitFlags {
		if !c.Flags().Changed(f.name) {
			continue
		}
		v, err := c.Flags().GetString(f.name)
		if err == nil {
			patch[f.member], err = f.read(v)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", f.name, err)
		}
	}
	for _, f := range limitLists {
		if !c.Flags().Changed(f.name) {
			continue
		}
		v, err := c.Flags().GetStringArray(f.name)
		if err == nil {
			patch[f.member], err = readList(v)
		}
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", f.name, err)
		}
	}
	for _, f := range limitParts {
		v, err := c.Flags().GetStringArray(f.name)
		if err != nil {
			return nil, err
		}
		parts := map[string]any{}
		for _, part := range v {
			name, limits, found := strings.Cut(part, "=")
			if !found || name == "" {
				return nil, fmt.Errorf("--%s %q: write it as 'NAME=daily:2,max:0.1'", f.name, part)
			}
			if _, twice := parts[name]; twice {
				return nil, fmt.Errorf("--%s: %s is there twice", f.name, name)
			}
			if parts[name], err = readBudget(limits); err != nil {
				return nil, fmt.Errorf("--%s %s: %w", f.name, name, err)
			}
		}
		if len(parts) > 0 {
			patch[f.member] = parts
		}
	}
	return patch, nil
}

// addToLists adds to a patch what goes to lists beside what is in them.
func addToLists(c *cobra.Command, patch map[string]any) error {
	for _, f := range limitAdditions {
		if !c.Flags().Changed(f.name) {
			continue
		}
		v, err := c.Flags().GetStringArray(f.name)
		if err != nil {
			return err
		}
		list, err := readList(v)
		if err == nil && list == nil {
			err = errors.New("default is nothing to add")
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", f.name, err)
		}
		patch[f.member] = list
	}
	return nil
}

// byDefault takes a limit of the key's own away.
const byDefault = "default"

// readCap reads an amount in USDC; nil takes the limit away.
func readCap(v string) (any, error) {
	switch v {
	case byDefault:
		return nil, nil
	case off:
		return off, nil
	}
	amount, err := x402.ParseUnits(v, usdcDecimals)
	if err != nil {
		return nil, fmt.Errorf("%q is not an amount in USDC like 0.25, off or default: %w", v, err)
	}
	return amount.String(), nil
}

// readCount reads a number; 0 is off.
func readCount(v string) (any, error) {
	switch v {
	case byDefault:
		return nil, nil
	case off:
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%q is not a number above 0, off or default", v)
	}
	return n, nil
}

// readList takes the list away when it is told to.
func readList(v []string) (any, error) {
	if len(v) == 0 { // a single empty entry arrives so
		v = []string{""}
	}
	for _, entry := range v {
		switch {
		case entry == "":
			return nil, errors.New("an entry is empty")
		case entry == byDefault && len(v) > 1:
			return nil, errors.New("default stands alone")
		case entry == byDefault:
			return nil, nil
		}
	}
	return v, nil
}

// readBudget reads the limits of a part, such as "daily:2,max:0.1", or default.
func readBudget(text string) (any, error) {
	if text == byDefault {
		return nil, nil
	}
	members := map[string]string{"max": "max_payment", "daily": "daily_budget", "monthly": "monthly_budget"}
	budget := map[string]any{}
	for limit := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(limit, ":")
		member, known := members[strings.TrimSpace(name)]
		if !known {
			return nil, fmt.Errorf("%q is not max, daily or monthly with an amount, such as daily:2", limit)
		}
		if _, twice := budget[member]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		var err error
		if budget[member], err = readCap(strings.TrimSpace(amount)); err != nil {
			return nil, err
		}
	}
	return budget, nil
}

// listLimits prints all keys.
func listLimits(ctx context.Context, client *adminClient, w io.Writer) error {
	var all []adminapi.Key
	for after := ""; ; {
		var page adminapi.Keys
		path := fmt.Sprintf("/purser/keys?today=true&limit=%d&after=%s", adminapi.MaxKeyPage, url.QueryEscape(after))
		if err := client.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return err
		}
		all = append(all, page.Keys...)
		if page.Next == "" {
			return printKeys(w, all)
		}
		after = page.Next
	}
}
