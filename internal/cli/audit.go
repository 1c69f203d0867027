package cli

import (
	"cmp"
	"encoding/json"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
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
			name: "audit", cursor: "before", heads: []string{"WHEN", "BY", "CHANGE", "OF", "BEFORE", "AFTER"}, cells: auditCells,
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
	of := cmp.Or(e.WalletID, e.PaymentID, e.KeyID, e.Organization)
	return []string{when(e.At), by, string(e.Action), orDash(of), compact(e.Old), compact(e.New)}
}

// compact is a JSON object on one line, without its braces.
func compact(object json.RawMessage) string {
	return orDash(strings.TrimSuffix(strings.TrimPrefix(string(plainJSON(object)), "{"), "}"))
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
