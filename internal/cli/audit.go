package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

const auditHelp = `
Lists who changed what, newest first: keys, limits, plans, links, wallets, pauses and what you
said of payments, with the values of before and after. Operators are named as their commands
name them; an account is somebody who signed in to the dashboard; 'configuration' is a start
that made what is configured. Days are those of UTC.

    $ purser audit
    $ purser audit --since 7d --key research
    $ purser audit --json`

func (env *Env) auditCommand(c *cobra.Command) {
	a := env.asks(c)
	a.keyFlag("only changes of this key: its id, its label or exec")
	a.dayFlags("all")
	a.limitFlag(adminapi.DefaultPage)
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		l := listing[adminapi.AuditEntry]{
			name: "audit", cursor: "before", columns: auditColumns, cells: auditCells,
		}
		if a.days != (daySpan{}) {
			// A clock that was set back does not end the list early.
			l.keep = func(e adminapi.AuditEntry) (kept, goOn bool) {
				return a.days.has(e.At), !a.days.before(e.At.Add(time.Hour))
			}
			l.position = func(e adminapi.AuditEntry) string { return strconv.FormatUint(e.Number, 10) }
		}
		return l.print(a)
	})
}

func auditCells(e adminapi.AuditEntry) []string {
	by := strings.TrimSuffix(string(e.Kind)+" "+cmp.Or(e.Email, e.By), " ")
	of := cmp.Or(e.WalletID, e.PaymentID, e.KeyLabel, e.KeyID, e.Organization)
	return []string{when(e.At), by, string(e.Action), orDash(of), changed(e.Old), changed(e.New)}
}

var auditColumns = []column{
	{head: "WHEN (UTC)", holds: timeCell},
	{head: "BY", holds: textCell},
	{head: "CHANGE"},
	{head: "OF", holds: textCell},
	{head: "BEFORE", holds: textCell},
	{head: "AFTER", holds: textCell},
}

// changed is a JSON object in words: "daily 5, doors proxy". Amounts are in USDC.
func changed(object json.RawMessage) string {
	var members map[string]any
	if json.Unmarshal(object, &members) != nil {
		return unlimited
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, memberText(name, members[name]))
	}
	return orDash(strings.Join(list, ", "))
}

// amountMembers have amounts in the smallest unit of USDC, and a shorter name for people.
var amountMembers = map[string]string{
	"max_payment": "max", "hourly_budget": "hourly", "daily_budget": "daily", "weekly_budget": "weekly", "monthly_budget": "monthly", "amount": "amount", "allowance": "allowance",
	"require_approval_above": "approval-above",
}

func memberText(name string, value any) string {
	short, amount := amountMembers[name]
	name = cmp.Or(short, strings.ReplaceAll(strings.TrimSuffix(name, "_id"), "_", "-"))
	switch v := value.(type) {
	case nil:
		return name + " " + unlimited
	case map[string]any:
		text, err := json.Marshal(v)
		if err != nil {
			return name
		}
		return name + " (" + changed(text) + ")"
	case []any:
		return name + " " + joined(v)
	case string:
		if _, err := money.Parse(v); err == nil && amount {
			v = units(v)
		}
		return name + " " + orDash(v)
	default:
		return fmt.Sprint(name, " ", v)
	}
}

// operatorName asks the operating system who uses this command; "" if it does not say.
func (env *Env) operatorName() string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if asked := env.Getenv("SUDO_USER"); asked != "" && asked != name {
		name = asked + " as " + name
	}
	return pay.Operator(name).ID
}
