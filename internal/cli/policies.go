package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// unlimited is printed for a limit that is not set.
const unlimited = "-"

// inUSDC is a limit for people.
func inUSDC(c *pay.Cap) string {
	if most := c.Max(); most != nil {
		return most.Format(usdcDecimals)
	}
	if c == nil {
		return unlimited
	}
	return c.String()
}

// counted is a limit that is a number for people.
func counted(n *int) string {
	switch {
	case n == nil:
		return unlimited
	case *n == 0:
		return off
	}
	return strconv.Itoa(*n)
}

// joined is a list for people.
func joined[T any](all []T) string {
	if len(all) == 0 {
		return unlimited
	}
	text := make([]string, len(all))
	for i, v := range all {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, " ")
}

// printKeys writes a table of keys with what is in force at the proxy.
func printKeys(w io.Writer, keys []adminapi.Key) error {
	t := newTable(w)
	t.row("KEY", "LABEL", "MAX PAYMENT", "DAILY", "SPENT TODAY", "LEFT", "MONTHLY", "QUOTA", "PER MINUTE", "DOORS", "MORE")
	for _, k := range keys {
		p := k.InForce[pay.DoorProxy]
		paysThrough := "all"
		if len(p.Doors) > 0 {
			paysThrough = joined(p.Doors)
		}
		t.row(k.ID, k.Label, inUSDC(p.MaxPayment), inUSDC(p.DailyBudget), spentToday(k.Today), leftToday(k.Today), inUSDC(p.MonthlyBudget),
			quotaText(k.Quota), counted(p.PerMinute), paysThrough, strings.Join(more(p), " "))
	}
	return t.flush()
}

// spentToday formats what a key spent today.
func spentToday(t *adminapi.Today) string {
	if t == nil {
		return unlimited
	}
	return signedUnits(t.Spent)
}

// leftToday formats what remains of its daily budget.
func leftToday(t *adminapi.Today) string {
	if t == nil || t.Left == nil {
		return unlimited
	}
	return units(*t.Left)
}

// more names the limits of a policy that the table has no room for.
func more(p pay.Policy) []string {
	var all []string
	for _, part := range []struct {
		name string
		have bool
	}{
		{"hosts", len(p.AllowHosts)+len(p.DenyHosts)+len(p.Hosts) > 0},
		{"payees", len(p.AllowPayees)+len(p.DenyPayees) > 0},
		{"tasks", len(p.Tasks) > 0},
		{"price-guard", p.PriceGuard != nil && *p.PriceGuard > 0},
	} {
		if part.have {
			all = append(all, part.name)
		}
	}
	return all
}

// print writes all limits of a key: its own, and what is in force at each door.
func printKey(w io.Writer, k adminapi.Key) error {
	t := newTable(w)
	t.row("key", k.ID)
	if k.Label != "" {
		t.row("label", k.Label)
	}
	if k.Organization != "" {
		t.row("organization", k.Organization)
	}
	t.row("made", k.Created.UTC().Format(time.RFC3339))
	if k.Paused != nil || !k.Revoked.IsZero() {
		t.row("state", stateText(k.Paused, k.Revoked))
	}
	if k.Today != nil {
		t.row("spent today", spentToday(k.Today))
	}
	if k.Quota != nil {
		t.row("payments this month", quotaText(k.Quota)+", then none until "+k.Quota.Resets.UTC().Format(time.DateOnly))
	}
	if leftToday(k.Today) != unlimited {
		t.row("left today", leftToday(k.Today)+" at the proxy")
	}
	t.row()
	if err := t.flush(); err != nil {
		return err
	}

	var own pay.Policy
	if k.Policy != nil {
		own = *k.Policy
	}
	columns, heads := []pay.Policy{own}, []string{"LIMIT", "OWN"}
	for _, d := range adminapi.Doors {
		columns, heads = append(columns, k.InForce[d]), append(heads, "AT "+strings.ToUpper(string(d)))
	}
	t.row(heads...)
	for _, row := range limitRows(columns) {
		values := []string{row.name}
		set := row.always
		for _, p := range columns {
			values = append(values, row.value(p))
			set = set || row.value(p) != unlimited
		}
		if set {
			t.row(values...)
		}
	}
	return t.flush()
}

// limitRow is one limit of several policies.
type limitRow struct {
	name  string
	value func(pay.Policy) string
	// always: the row is shown where no policy sets it as well, so that people see that it is missing.
	always bool
}

// limitRows are the limits that at least one of some policies can have.
func limitRows(policies []pay.Policy) []limitRow {
	rows := []limitRow{
		{"max payment", func(p pay.Policy) string { return inUSDC(p.MaxPayment) }, true},
		{"daily budget", func(p pay.Policy) string { return inUSDC(p.DailyBudget) }, true},
		{"monthly budget", func(p pay.Policy) string { return inUSDC(p.MonthlyBudget) }, true},
		{"per minute", func(p pay.Policy) string { return counted(p.PerMinute) }, true},
		{"price guard", func(p pay.Policy) string { return counted(p.PriceGuard) }, true},
		{"doors", func(p pay.Policy) string { return joined(p.Doors) }, true},
		{"allowed hosts", func(p pay.Policy) string { return joined(p.AllowHosts) }, false},
		{"denied hosts", func(p pay.Policy) string { return joined(p.DenyHosts) }, false},
		{"allowed payees", func(p pay.Policy) string { return joined(p.AllowPayees) }, false},
		{"denied payees", func(p pay.Policy) string { return joined(p.DenyPayees) }, false},
	}
	hosts, tasks := map[string]bool{}, map[string]bool{}
	for _, p := range policies {
		for name := range p.Hosts {
			hosts[name] = true
		}
		for name := range p.Tasks {
			tasks[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		rows = append(rows, limitRow{"host " + name, func(p pay.Policy) string { return budgetText(p.Hosts, name) }, false})
	}
	for _, name := range slices.Sorted(maps.Keys(tasks)) {
		rows = append(rows, limitRow{"task " + name, func(p pay.Policy) string { return budgetText(p.Tasks, name) }, false})
	}
	return rows
}

// budgetText is a part's budget in the form of the flags.
func budgetText(parts map[string]pay.Budget, name string) string {
	b, known := parts[name]
	if !known {
		return unlimited
	}
	var all []string
	for _, limit := range []struct {
		name string
		cap  *pay.Cap
	}{{"max", b.MaxPayment}, {"daily", b.DailyBudget}, {"monthly", b.MonthlyBudget}} {
		if limit.cap != nil {
			all = append(all, limit.name+":"+inUSDC(limit.cap))
		}
	}
	if len(all) == 0 {
		return unlimited
	}
	return strings.Join(all, ",")
}

// quotaText is a key's quota for people.
func quotaText(q *adminapi.Quota) string {
	if q == nil {
		return unlimited
	}
	return q.Used + " of " + q.Most
}

// quotasText is the status of quotas for people.
func quotasText(q *adminapi.QuotaStatus) string {
	return fmt.Sprintf("%d of %d used up; fullest: %s, %s of %s payments this month", q.Exhausted, q.Counted, q.Fullest, q.Used, q.Most)
}
