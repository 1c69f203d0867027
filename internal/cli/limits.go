package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

const limitsHelp = `
Without arguments it lists all keys with the limits that hold for them at the
proxy, what they spent today, and what that leaves of the daily budget; open
payments have taken theirs from it already. With the id of a key it shows that
key's limits, and changes those that flags name; 'exec' is the key that 'purser
exec' pays with. A label, or the first 8 or more characters of an id, will do
where only one key has them. A change holds for every payment that begins
afterwards.

Amounts are in USDC; hours, days, weeks (from Monday) and months are those of UTC. 'off' is no limit, and
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
    $ purser limits exec --require-approval-above 0.25 --require-approval-new-hosts on
    $ purser limits research --daily-budget 20 --max-payment 2 --for 2h
    $ purser limits research --for off
    $ purser limits 0199… --json policy.json
    $ purser limits 0199… --reset

With --for, the numbers that flags name hold for so long, such as 90m, 2h or 3d. Then
those from before hold again by themselves. A second raise takes the place of the
first, and --for off ends it. Changes without --for change what holds afterwards:
the raise stays.

--host and --task name limits of a part of what the key spends, beside the key's
own: max, hourly, daily, weekly and monthly, each with an amount, off or default. All tasks that
have none of their own, and requests without a task, share those of the task '*'.
A task may also have a total, which no day or month gives back, and an end: a time of the day
(the next one, as the clock here says), a time such as 2026-12-01T18:00:00Z, or a time from now,
such as +8h. A total counts from when the task got it, also if its amount or end changes later.
restart counts from zero again, until:off takes the end away, and total:off both.

    $ purser limits exec --task 'nightly=total:5,until:18:00'
    $ purser limits exec --task 'nightly=total:5,until:+8h,restart'

Programs read the limits of all keys with 'purser keys --json'. --json here sets all limits
at once from a file, or from standard input (-), in the
form of PUT /purser/keys/{id}/policy: amounts are strings in the smallest unit
there.`

// limitFlag is a flag that changes a limit, with its member in a merge patch of the policy.
type limitFlag struct {
	name, member, usage string
	read                func(string) (any, error)
	number              bool // it can be raised for a while
}

var limitFlags = []limitFlag{
	{"max-payment", "max_payment", "most that one payment may cost: USDC, off or default", readCap, true},
	{"hourly-budget", "hourly_budget", "most that may be spent in an hour by the clock: USDC, off or default", readCap, true},
	{"daily-budget", "daily_budget", "most that may be spent in a day: USDC, off or default", readCap, true},
	{"weekly-budget", "weekly_budget", "most that may be spent in a week from Monday: USDC, off or default", readCap, true},
	{"monthly-budget", "monthly_budget", "most that may be spent in a month: USDC, off or default", readCap, true},
	{"per-minute", "per_minute", "payments that may begin in a minute: a number, off or default", readCount, true},
	{"price-guard", "price_guard", "hold payments above so many times the last price: a number, off or default", readCount, true},
	{"require-approval-above", "require_approval_above", "payments above it wait for a person's approval: USDC, off or default", readCap, true},
	{"require-approval-new-hosts", "require_approval_new_hosts", "the first payment to a host waits for a person's approval: on, off or default", readSwitch, false},
}

type listFlag struct {
	name, member, usage string
	read                func(flag string, values []string) (any, error)
}

// limitLists are the flags that set a list, or the limits of parts.
var limitLists = []listFlag{
	{"door", "doors", "door that the key may pay through: proxy, transport or api; repeatable", readList},
	{"allow-host", "allow_hosts", "pay only this host, such as api.example.com or *.example.com; repeatable", readList},
	{"deny-host", "deny_hosts", "never pay this host; repeatable", readList},
	{"sign-in-host", "sign_in_hosts", "sign in to this host instead of paying again for what was paid; repeatable", readList},
	{"allow-payee", "allow_payees", "pay only this address; repeatable", readList},
	{"deny-payee", "deny_payees", "never pay this address; repeatable", readList},
	{"offer-signer", "offer_signers", "address that signs offers for a seller that is paid at another one; repeatable", readList},
	{"host", "hosts", "limits of a host, as 'api.example.com=daily:2,max:0.1'; repeatable", readParts},
	{"task", "tasks", "limits of a task, as 'nightly=daily:1,monthly:off' or 'nightly=total:5,until:18:00'; repeatable", readParts},
}

var limitAdditions = []listFlag{
	{"add-allow-host", "add_allow_hosts", "pay this host as well; repeatable", readAddition},
	{"add-deny-host", "add_deny_hosts", "never pay this host either; repeatable", readAddition},
	{"add-allow-payee", "add_allow_payees", "pay this address as well; repeatable", readAddition},
	{"add-deny-payee", "add_deny_payees", "never pay this address either; repeatable", readAddition},
}

func (env *Env) limitsCommand(c *cobra.Command) {
	a := env.asks(c)
	limits := changeFlags(c, limitAdditions)
	reset := c.Flags().Bool("reset", false, "take all of the key's own limits away")
	raise := c.Flags().String("for", "", "raise the numbers that other flags name for so long, such as 90m, 2h or 3d; off ends it")
	file := c.Flags().String("json", "", "set all limits from a file with a policy in JSON, or - for standard input")
	a.changes("change the limits of the key {}")
	c.Args = cobra.MaximumNArgs(1)
	c.ValidArgsFunction = env.keyIDs()
	a.runs(func(args []string) error {
		patch, err := limits()
		if err == nil && c.Flags().Changed("for") {
			patch, err = raisePatch(patch, *raise)
		}
		if err != nil {
			return err
		}
		method, action := http.MethodGet, ""
		var body any
		switch whole := c.Flags().Changed("json"); {
		case *reset && whole || (*reset || whole) && len(patch) > 0:
			return errors.New("--reset and --json set everything: they go with no other change")
		case *reset:
			a.dry.would = "take all limits of its own away from the key {}"
			method, action, body = http.MethodPut, "/policy", json.RawMessage("null")
		case whole:
			a.dry.would = "set all limits of its own of the key {}"
			method, action = http.MethodPut, "/policy"
			body, err = env.readPolicyFile(c, *file)
		case len(patch) > 0:
			method, action, body = http.MethodPatch, "/policy", patch
		}
		switch {
		case err != nil:
			return err
		case len(args) > 0:
			err = checkID("KEY_ID", args[0])
		case action != "":
			err = errors.New("whose limits? Name a key by its id or label, or exec")
		default:
			return listLimits(a)
		}
		if err != nil {
			return err
		}
		return tell(a, method, keyPath(args[0])+action, body, writeKey)
	})
}

// changeFlags adds the flags that change limits. patch returns the merge patch that they stand for.
func changeFlags(c *cobra.Command, additions []listFlag) (patch func() (map[string]any, error)) {
	var reads []func(patch map[string]any) error
	add := func(flag, member string, read func() (any, error)) {
		reads = append(reads, func(patch map[string]any) (err error) {
			if c.Flags().Changed(flag) {
				patch[member], err = read()
			}
			return err
		})
	}
	for _, f := range limitFlags {
		v := c.Flags().String(f.name, "", f.usage)
		add(f.name, f.member, func() (any, error) {
			limit, err := f.read(*v)
			if err != nil {
				err = fmt.Errorf("--%s: %w", f.name, err)
			}
			return limit, err
		})
	}
	for _, f := range slices.Concat(limitLists, additions) {
		v := c.Flags().StringArray(f.name, nil, f.usage)
		add(f.name, f.member, func() (any, error) { return f.read(f.name, *v) })
	}
	oneOf(c, "door", "proxy", "transport", "api", byDefault)
	oneOf(c, "require-approval-new-hosts", "on", off, byDefault)
	return func() (map[string]any, error) {
		patch := map[string]any{}
		for _, read := range reads {
			if err := read(patch); err != nil {
				return nil, err
			}
		}
		return patch, nil
	}
}

// raisePatch returns the merge patch that raises the numbers of another one for a while, or that ends the raise.
func raisePatch(patch map[string]any, text string) (map[string]any, error) {
	if text == off {
		if len(patch) > 0 {
			return nil, errors.New("--for off ends the raise: it goes with no other change")
		}
		return map[string]any{"raise": nil}, nil
	}
	d, err := time.ParseDuration(text)
	if days, isDays := days(text); isDays {
		d, err = days, nil
	}
	if err != nil || d <= 0 {
		return nil, fmt.Errorf("--for %q is not a time such as 90m, 2h or 3d, or off", text)
	}
	if len(patch) == 0 {
		return nil, errors.New("--for: which limits? Name them, as with --daily-budget 20 --for 2h")
	}
	raise := map[string]any{"for": d.String()}
	for member, value := range patch {
		number := slices.IndexFunc(limitFlags, func(f limitFlag) bool { return f.member == member && f.number })
		switch {
		case number < 0:
			return nil, fmt.Errorf("--for raises numbers of the key itself, and %s is none", strings.ReplaceAll(member, "_", "-"))
		case value == nil:
			return nil, fmt.Errorf("--%s: default stands for no number that could be raised", limitFlags[number].name)
		}
		raise[member] = value
	}
	return map[string]any{"raise": raise}, nil
}

func (env *Env) readPolicyFile(c *cobra.Command, path string) (text json.RawMessage, err error) {
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

const byDefault = "default" // takes a limit of the key's own away

// readCap reads an amount in USDC; nil takes the limit away.
func readCap(v string) (any, error) {
	switch v {
	case byDefault:
		return nil, nil
	case off:
		return off, nil
	}
	amount, err := money.ParseUnits(v, usdcDecimals)
	if err != nil {
		return nil, fmt.Errorf("%q is not an amount in USDC like 0.25, off or default: %w", v, err)
	}
	return amount.String(), nil
}

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

func readSwitch(v string) (any, error) {
	switch v {
	case byDefault:
		return nil, nil
	case "on", off:
		return v == "on", nil
	}
	return nil, fmt.Errorf("%q is none of on, off and default", v)
}

// readList takes the list away when it is told to.
func readList(flag string, v []string) (any, error) {
	if len(v) == 0 { // a single empty entry arrives so
		v = []string{""}
	}
	switch {
	case slices.Contains(v, ""):
		return nil, errors.New("--" + flag + ": an entry is empty")
	case !slices.Contains(v, byDefault):
		return v, nil
	case len(v) > 1:
		return nil, errors.New("--" + flag + ": default stands alone")
	}
	return nil, nil
}

func readAddition(flag string, v []string) (any, error) {
	list, err := readList(flag, v)
	if err == nil && list == nil {
		err = errors.New("--" + flag + ": default is nothing to add")
	}
	return list, err
}

// readParts reads the limits of parts, each as NAME=daily:2,max:0.1.
func readParts(flag string, v []string) (any, error) {
	parts := map[string]any{}
	for _, part := range v {
		name, limits, found := strings.Cut(part, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--%s %q: write it as 'NAME=daily:2,max:0.1'", flag, part)
		}
		if _, twice := parts[name]; twice {
			return nil, fmt.Errorf("--%s: %s is there twice", flag, name)
		}
		var err error
		if parts[name], err = readBudget(limits); err != nil {
			return nil, fmt.Errorf("--%s %s: %w", flag, name, err)
		}
		if budget, is := parts[name].(map[string]any); is && flag == "host" {
			if _, has := budget["total"]; has {
				return nil, fmt.Errorf("--host %s: only tasks have totals and ends", name)
			}
		}
	}
	return parts, nil
}

// readBudget reads the limits of a part, such as "daily:2,max:0.1", or default.
func readBudget(text string) (any, error) {
	if text == byDefault {
		return nil, nil
	}
	members := map[string]string{"max": "max_payment"}
	for _, p := range policy.Periods {
		members[p.Word()] = p.Word() + "_budget"
	}
	budget, total := map[string]any{}, totalPatch{}
	for limit := range strings.SplitSeq(text, ",") {
		name, amount, _ := strings.Cut(limit, ":")
		if ours, err := total.read(strings.TrimSpace(name), strings.TrimSpace(amount)); err != nil {
			return nil, err
		} else if ours {
			continue
		}
		member, known := members[strings.TrimSpace(name)]
		if !known {
			return nil, fmt.Errorf("%q is not max, hourly, daily, weekly or monthly with an amount, such as daily:2; a task may also have total, until and restart", limit)
		}
		if _, twice := budget[member]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		var err error
		if budget[member], err = readCap(strings.TrimSpace(amount)); err != nil {
			return nil, err
		}
	}
	return budget, total.into(budget)
}

func listLimits(a *asking) error {
	var all []adminapi.Key
	ask := url.Values{"today": {"true"}, "limit": {strconv.Itoa(adminapi.MaxPage)}}
	for next := "begun"; next != ""; {
		var page []adminapi.Key
		var err error
		if page, next, err = fetchPage[adminapi.Key](a.Context(), a.client, "keys", ask); err != nil {
			return err
		}
		all = append(all, page...)
		ask.Set("after", next)
	}
	table := a.newColumns(limitColumns)
	writeKeys(table, all)
	return table.Flush()
}
