package cli

import (
	"encoding/json"
	"errors"
	"net/url"
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
	adminFlag(c)
	c.Flags().String("key", "", "only changes of this key: its id, its label or exec")
	dayFlags(c, "all")
	limitFlag(c, adminapi.DefaultAuditPage)
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	Run(c, env.runAudit)
	env.keyFlag(c)
}

func (env *Env) runAudit(c *cobra.Command, _ []string) error {
	most, err1 := limitOf(c)
	as, err2 := form(c)
	days, err3 := daysOf(c, env.Now())
	client, err4 := env.adminOf(c)
	key, err5 := c.Flags().GetString("key")
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	ask := url.Values{}
	if key != "" {
		if err := checkID("--key", key); err != nil {
			return err
		}
		ask.Set("key", key)
	}
	l := listing[adminapi.AuditEntry]{
		path: "/purser/audit", ask: ask, name: "audit", cursor: "before", page: adminapi.MaxAuditPage, most: most,
		heads: []string{"WHEN", "BY", "CHANGE", "OF", "BEFORE", "AFTER"}, cells: auditCells,
	}
	if days != (daySpan{}) {
		// A clock that was set back does not end the list early.
		l.keep = func(e adminapi.AuditEntry) (kept, goOn bool) {
			return days.has(e.At), !days.before(e.At.Add(time.Hour))
		}
		l.position = func(e adminapi.AuditEntry) string { return strconv.FormatUint(e.Number, 10) }
	}
	return l.print(c, client, as, nil)
}

func auditCells(e adminapi.AuditEntry) []string {
	by := string(e.Kind)
	switch {
	case e.Email != "":
		by += " " + e.Email
	case e.By != "":
		by += " " + e.By
	}
	of := e.KeyID
	for _, id := range []string{e.PaymentID, e.WalletID} {
		if id != "" {
			of = id
		}
	}
	if of == "" {
		of = e.Organization
	}
	return []string{e.At.UTC().Format(time.RFC3339), by, string(e.Action), orDash(of), compact(e.Old), compact(e.New)}
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
