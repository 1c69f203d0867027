package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/purserpay/purser/x402"
)

// PermitsMore names, by their JSON names, the limits of a policy in force through which it permits a
// payment that another one refuses; none: it permits no more. Where two policies are hard to compare,
// it names the limit: a person is asked once too often, and never once too little.
func (pol Policy) PermitsMore(than Policy) (names []string) {
	add := func(name string, more bool) {
		if more && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add("max_payment", capRaised(than.MaxPayment, pol.MaxPayment))
	add("hourly_budget", capRaised(than.HourlyBudget, pol.HourlyBudget))
	add("daily_budget", capRaised(than.DailyBudget, pol.DailyBudget))
	add("weekly_budget", capRaised(than.WeeklyBudget, pol.WeeklyBudget))
	add("monthly_budget", capRaised(than.MonthlyBudget, pol.MonthlyBudget))
	add("per_minute", numberRaised(than.PerMinute, pol.PerMinute))
	add("price_guard", numberRaised(than.PriceGuard, pol.PriceGuard))
	add("require_approval_above", capRaised(than.RequireApprovalAbove, pol.RequireApprovalAbove))
	add("require_approval_new_hosts", than.AsksAboutHosts() && !pol.AsksAboutHosts())
	// On REST a key without allowed payees needs an approval for each payment: see Policy.asks.
	add("allow_payees", than.AsksAboutHosts() && pol.Opens(DoorAPI) && len(than.AllowPayees) == 0 && len(pol.AllowPayees) > 0)
	for _, door := range []Door{DoorProxy, DoorTransport, DoorAPI} {
		add("doors", pol.Opens(door) && !than.Opens(door))
	}
	add("allow_hosts", len(than.AllowHosts) > 0 && (len(pol.AllowHosts) == 0 || !eachCovered(pol.AllowHosts, than.AllowHosts)))
	add("deny_hosts", !eachCovered(than.DenyHosts, pol.DenyHosts))
	add("sign_in_hosts", !eachCovered(pol.SignInHosts, than.SignInHosts))
	add("allow_payees", len(than.AllowPayees) > 0 && (len(pol.AllowPayees) == 0 || !within(pol.AllowPayees, than.AllowPayees)))
	add("deny_payees", !within(than.DenyPayees, pol.DenyPayees))
	// On REST a key with rules for hosts pays only listed payees: see allowsHost.
	add("allow_payees", pol.answersREST() && !than.answersREST())
	add("offer_signers", !within(pol.OfferSigners, than.OfferSigners))
	add("hosts", partsRaised(than.Hosts, pol.Hosts, func(name, old string) bool {
		return name != old && covers(old, name) // the part with the finer pattern leaves the budget of the coarser one
	}))
	add("tasks", partsRaised(than.Tasks, pol.Tasks, func(_, old string) bool { return old == OtherTasks }))
	return names
}

// answersREST reports whether the rules for hosts leave anything to pay on REST.
func (pol Policy) answersREST() bool {
	return pol.Opens(DoorAPI) && (!pol.NamesHosts() || len(pol.AllowPayees) > 0)
}

// capRaised reports whether a bound is higher than the one before, or gone.
func capRaised(was, now *Cap) bool {
	before, after := was.Max(), now.Max()
	return before != nil && (after == nil || after.Cmp(*before) > 0)
}

// numberRaised is capRaised for numbers; nil and 0 are no bound.
func numberRaised(was, now *int) bool {
	return was != nil && *was > 0 && (now == nil || *now <= 0 || *now > *was)
}

// partsRaised reports whether a part of the spending has higher limits than before, or other ones.
// leaves reports whether a new part's payments counted in an old part until now.
func partsRaised(was, now map[string]Budget, leaves func(name, old string) bool) bool {
	for name, before := range was {
		after, kept := now[name]
		if !kept && before != (Budget{}) || capRaised(before.MaxPayment, after.MaxPayment) || totalRaised(before.Total, after.Total) {
			return true
		}
		for _, p := range Periods {
			if capRaised(*before.Of(p), *after.Of(p)) {
				return true
			}
		}
	}
	for name := range now {
		if _, old := was[name]; old {
			continue
		}
		for old := range maps.Keys(was) {
			if leaves(name, old) {
				return true
			}
		}
	}
	return false
}

// covers reports whether a pattern of hosts matches all sites that another one matches.
func covers(pattern, other string) bool {
	return pattern == other || strings.HasPrefix(PatternKey(other), PatternKey(pattern))
}

// eachCovered reports whether some patterns match no site that others do not match.
func eachCovered(patterns, by []string) bool {
	return !slices.ContainsFunc(patterns, func(p string) bool {
		return !slices.ContainsFunc(by, func(wide string) bool { return covers(wide, p) })
	})
}

// within reports whether all addresses of a list are on another one.
func within(list, all []x402.Address) bool {
	return !slices.ContainsFunc(list, func(a x402.Address) bool { return !slices.Contains(all, a) })
}
