package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/policy"
)

const unlimited = "-" // a limit that is not set

func inUSDC(c *policy.Cap) string {
	if most := c.Max(); most != nil {
		return most.Format(usdcDecimals)
	}
	if c == nil {
		return unlimited
	}
	return c.String()
}

func counted(n *int) string {
	switch {
	case n == nil:
		return unlimited
	case *n == 0:
		return off
	}
	return strconv.Itoa(*n)
}

func switched(on *bool) string {
	switch {
	case on == nil:
		return unlimited
	case *on:
		return "on"
	}
	return off
}

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

var limitColumns = []column{
	{head: "KEY", holds: idCell},
	{head: "LABEL", holds: textCell},
	{head: "MAX"},
	{head: "DAILY"},
	{head: "SPENT"},
	{head: "LEFT"},
	{head: "MONTHLY"},
	{head: "QUOTA", spare: 3},
	{head: "PER MIN", spare: 2},
	{head: "DOORS", holds: textCell, spare: 1},
	{head: "MORE", holds: textCell},
}

// writeKeys writes a table of keys with what is in force at the proxy.
func writeKeys(t *columns, keys []adminapi.Key) {
	for _, k := range keys {
		p := k.InForce[policy.DoorProxy]
		paysThrough := "all"
		if len(p.Doors) > 0 {
			paysThrough = joined(p.Doors)
		}
		t.row(k.ID, orDash(k.Label), inUSDC(p.MaxPayment), inUSDC(p.DailyBudget), spentToday(k.Today), leftToday(k.Today), inUSDC(p.MonthlyBudget),
			quotaText(k.Quota), counted(p.PerMinute), paysThrough, strings.Join(more(p), " "))
	}
}

func spentToday(t *adminapi.Today) string {
	if t == nil {
		return unlimited
	}
	return signedUnits(t.Spent)
}

func leftToday(t *adminapi.Today) string {
	if t == nil || t.Left == nil {
		return unlimited
	}
	return units(*t.Left)
}

// more names the limits of a policy that the table has no room for.
func more(p policy.Policy) (all []string) {
	add := func(name string, have bool) {
		if have {
			all = append(all, name)
		}
	}
	add("raised", p.Raise != nil)
	add("hourly", p.HourlyBudget.Max() != nil)
	add("weekly", p.WeeklyBudget.Max() != nil)
	add("hosts", len(p.AllowHosts)+len(p.DenyHosts)+len(p.Hosts) > 0)
	add("payees", len(p.AllowPayees)+len(p.DenyPayees) > 0)
	add("tasks", len(p.Tasks) > 0)
	add("sign-in", len(p.SignInHosts) > 0)
	add("approvals", p.RequireApprovalAbove.Max() != nil || switched(p.RequireApprovalNewHosts) == "on")
	add("price-guard", p.PriceGuard != nil && *p.PriceGuard > 0)
	return all
}

// writeKey writes all limits of a key: its own, and what is in force at each door.
func writeKey(t *table, k adminapi.Key) {
	t.row("key", k.ID)
	t.some("label", k.Label)
	t.some("organization", k.Organization)
	t.row("made", when(k.Created))
	if k.Paused != nil || !k.Revoked.IsZero() || !k.EarlierUntil.IsZero() {
		t.row("state", keyStateText(k))
	}
	pausedHosts(t, k)
	if k.Today != nil {
		t.row("spent today", spentToday(k.Today))
	}
	if k.Quota != nil {
		t.row("payments this month", quotaText(k.Quota)+", then none until "+k.Quota.Resets.UTC().Format(time.DateOnly))
	}
	if left := leftToday(k.Today); left != unlimited {
		t.row("left today", left+" at the proxy")
	}
	writeFamily(t, k)
	for _, l := range k.ParentLimits {
		t.row("shared: "+sharedName(l), fmt.Sprintf("%s of %s spent, %s left", units(l.Spent), units(l.Limit), units(l.Left)))
	}
	for _, total := range k.Totals {
		t.row("total of task "+total.Task, totalText(total))
	}
	if k.Policy != nil && k.Policy.Raise != nil {
		t.row("raised", raiseText(*k.Policy.Raise))
		t.row("then", "the limits of the column OWN, or the defaults; 'purser limits "+label(k.ID)+" --for off' ends the raise now")
	}
	t.row()

	columns, heads := []policy.Policy{{}}, []string{"LIMIT", "OWN"}
	if k.Policy != nil {
		columns[0] = *k.Policy
	}
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
}

// sharedName names a budget of the parent, such as "daily-budget" or "task-total of nightly".
func sharedName(l adminapi.Limit) string {
	if l.Of == "" {
		return l.Rule
	}
	return l.Rule + " of " + l.Of
}

// raiseText tells what is raised and until when.
func raiseText(r policy.Raise) string {
	raised := policy.Policy{Raise: &r}.At(r.Until.Add(-1))
	list := caps(raised.Whole())
	for _, n := range []struct {
		name  string
		value *int
	}{{"per-minute:", r.PerMinute}, {"price-guard:", r.PriceGuard}} {
		if n.value != nil {
			list = append(list, n.name+counted(n.value))
		}
	}
	if r.RequireApprovalAbove != nil {
		list = append(list, "approval-above:"+inUSDC(r.RequireApprovalAbove))
	}
	return strings.Join(list, ",") + " until " + when(r.Until)
}

type limitRow struct {
	name  string
	value func(policy.Policy) string
	// always: the row is shown where no policy sets it as well, so that people see that it is missing.
	always bool
}

// limitRows are the limits that at least one of some policies can have.
func limitRows(policies []policy.Policy) []limitRow {
	rows := []limitRow{
		{"max payment", func(p policy.Policy) string { return inUSDC(p.MaxPayment) }, true},
		{"hourly budget", func(p policy.Policy) string { return inUSDC(p.HourlyBudget) }, false},
		{"daily budget", func(p policy.Policy) string { return inUSDC(p.DailyBudget) }, true},
		{"weekly budget", func(p policy.Policy) string { return inUSDC(p.WeeklyBudget) }, false},
		{"monthly budget", func(p policy.Policy) string { return inUSDC(p.MonthlyBudget) }, true},
		{"per minute", func(p policy.Policy) string { return counted(p.PerMinute) }, true},
		{"price guard", func(p policy.Policy) string { return counted(p.PriceGuard) }, true},
		{"approval above", func(p policy.Policy) string { return inUSDC(p.RequireApprovalAbove) }, false},
		{"approval of new hosts", func(p policy.Policy) string { return switched(p.RequireApprovalNewHosts) }, false},
		{"doors", func(p policy.Policy) string { return joined(p.Doors) }, true},
		{"allowed hosts", func(p policy.Policy) string { return joined(p.AllowHosts) }, false},
		{"denied hosts", func(p policy.Policy) string { return joined(p.DenyHosts) }, false},
		{"sign-in hosts", func(p policy.Policy) string { return joined(p.SignInHosts) }, false},
		{"allowed payees", func(p policy.Policy) string { return joined(p.AllowPayees) }, false},
		{"offer signers", func(p policy.Policy) string { return joined(p.OfferSigners) }, false},
		{"denied payees", func(p policy.Policy) string { return joined(p.DenyPayees) }, false},
	}
	parts := func(kind string, of func(policy.Policy) map[string]policy.Budget) {
		names := map[string]bool{}
		for _, p := range policies {
			for name := range of(p) {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			rows = append(rows, limitRow{kind + " " + name, func(p policy.Policy) string {
				b := of(p)[name]
				return orDash(strings.Join(caps(b), ","))
			}, false})
		}
	}
	parts("host", func(p policy.Policy) map[string]policy.Budget { return p.Hosts })
	parts("task", func(p policy.Policy) map[string]policy.Budget { return p.Tasks })
	return rows
}

// caps names the amounts of a budget in the form of the flags.
func caps(b policy.Budget) (all []string) {
	add := func(name string, limit *policy.Cap) {
		if limit != nil {
			all = append(all, name+":"+inUSDC(limit))
		}
	}
	add("max", b.MaxPayment)
	for _, p := range policy.Periods {
		add(p.Word(), *b.Of(p))
	}
	if t := b.Total; t != nil {
		all = append(all, "total:"+t.Amount.Format(usdcDecimals))
		if !t.Until.IsZero() {
			all = append(all, "until:"+when(t.Until))
		}
	}
	return all
}

// totalText tells what is used of a task's total, and from when to when it counts.
func totalText(t adminapi.Total) string {
	text := fmt.Sprintf("%s of %s spent, %s left; counted since %s", units(t.Spent), units(t.Limit), units(t.Left), when(t.Begin))
	switch {
	case t.Ended:
		text += ", ended at " + when(t.Until)
	case !t.Until.IsZero():
		text += ", until " + when(t.Until)
	}
	return text
}

func quotaText(q *adminapi.Quota) string {
	if q == nil {
		return unlimited
	}
	return q.Used + " of " + q.Most
}
