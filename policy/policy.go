// Package policy has the rules and limits of a key: caps, hosts, payees and doors. It decides by the figures of one
// payment alone. Package pay decides what needs counting: budgets, rates, the price guard and approvals.
package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Policy limits what a key may spend. A field that is not set falls back to the configured
// defaults; for a key that is not the operator's, it is no limit on REST (docs/design/surfaces.md). Periods
// are those of UTC. A budget that is set later counts from the beginning of its period; one of an hour
// counts from when the policy first has one: see [Policy.CountsHours].
type Policy struct {
	// MaxPayment bounds one payment, the budgets what is spent in a [Period].
	MaxPayment    *Cap `json:"max_payment,omitempty"`
	HourlyBudget  *Cap `json:"hourly_budget,omitempty"`
	DailyBudget   *Cap `json:"daily_budget,omitempty"`
	WeeklyBudget  *Cap `json:"weekly_budget,omitempty"`
	MonthlyBudget *Cap `json:"monthly_budget,omitempty"`
	// PerMinute bounds the payments that may begin in a minute by the clock; 0 is no limit. Keys without
	// one may begin 3,000, unless the default says more or 0.
	PerMinute *int `json:"per_minute,omitempty"`
	// PriceGuard holds a payment above this many times what the endpoint was last paid. 0 is off.
	PriceGuard *int `json:"price_guard,omitempty"`
	// RequireApprovalAbove holds a payment above this amount until a person approves it, and
	// RequireApprovalNewHosts one to a host that the key has never paid: see [Approval].
	RequireApprovalAbove    *Cap  `json:"require_approval_above,omitempty"`
	RequireApprovalNewHosts *bool `json:"require_approval_new_hosts,omitempty"`
	// Raise has other numbers for a while; nil: none. A policy in force has the one that holds: see [Policy.At].
	Raise *Raise `json:"raise,omitempty"`
	// Doors the key may pay through; empty is all. Through the proxy means the transport, too.
	Doors []Door `json:"doors,omitempty"`
	// AllowHosts, when set, lists the only hosts that are paid: "name" (any port), "name:port",
	// "*.example.com" (all names below). DenyHosts are never paid, nor those of the defaults.
	AllowHosts []string `json:"allow_hosts,omitempty"`
	DenyHosts  []string `json:"deny_hosts,omitempty"`
	// SignInHosts lists the hosts that purser may sign in to, by the patterns of AllowHosts: see
	// [Payer.SignIn]. None is listed by default.
	SignInHosts []string `json:"sign_in_hosts,omitempty"`
	// AllowPayees, when set, lists the only addresses that are paid. Addresses in DenyPayees are
	// never paid; those of the defaults are denied as well.
	AllowPayees []x402.Address `json:"allow_payees,omitempty"`
	DenyPayees  []x402.Address `json:"deny_payees,omitempty"`
	// OfferSigners lists the addresses that sign offers and receipts for sellers that are paid at
	// another one: see [x402.Challenge.SignedOffer].
	OfferSigners []x402.Address `json:"offer_signers,omitempty"`
	// Hosts have limits by the patterns of AllowHosts, of which the most specific counts. Tasks
	// have limits by label. "*" is for labels without an own entry and calls without a label.
	// Entries of the defaults hold for other names.
	Hosts map[string]Budget `json:"hosts,omitempty"`
	Tasks map[string]Budget `json:"tasks,omitempty"`
}

// Budget limits a part of what a key spends, beside the key's own limits.
type Budget struct {
	MaxPayment    *Cap `json:"max_payment,omitempty"`
	HourlyBudget  *Cap `json:"hourly_budget,omitempty"`
	DailyBudget   *Cap `json:"daily_budget,omitempty"`
	WeeklyBudget  *Cap `json:"weekly_budget,omitempty"`
	MonthlyBudget *Cap `json:"monthly_budget,omitempty"`
	// Total bounds a task from its beginning to its end; nil: nothing does.
	Total *Total `json:"total,omitempty"`
}

// OtherTasks names the entry of Policy.Tasks for labels without an own one. It is no label.
const OtherTasks = "*"

// Or fills in what is not set.
func (pol Policy) Or(def Policy) Policy {
	setUnset(&pol.MaxPayment, def.MaxPayment)
	setUnset(&pol.HourlyBudget, def.HourlyBudget)
	setUnset(&pol.DailyBudget, def.DailyBudget)
	setUnset(&pol.WeeklyBudget, def.WeeklyBudget)
	setUnset(&pol.MonthlyBudget, def.MonthlyBudget)
	setUnset(&pol.PerMinute, def.PerMinute)
	setUnset(&pol.PriceGuard, def.PriceGuard)
	setUnset(&pol.RequireApprovalAbove, def.RequireApprovalAbove)
	setUnset(&pol.RequireApprovalNewHosts, def.RequireApprovalNewHosts)
	if len(pol.Doors) == 0 {
		pol.Doors = def.Doors
	}
	if len(pol.AllowHosts) == 0 {
		pol.AllowHosts = def.AllowHosts
	}
	if len(pol.SignInHosts) == 0 {
		pol.SignInHosts = def.SignInHosts
	}
	if len(pol.AllowPayees) == 0 {
		pol.AllowPayees = def.AllowPayees
	}
	if len(pol.OfferSigners) == 0 {
		pol.OfferSigners = def.OfferSigners
	}
	pol.DenyHosts = slices.Concat(pol.DenyHosts, def.DenyHosts)
	pol.DenyPayees = slices.Concat(pol.DenyPayees, def.DenyPayees)
	pol.Hosts = merged(pol.Hosts, def.Hosts)
	pol.Tasks = merged(pol.Tasks, def.Tasks)
	return pol
}

func setUnset[T any](field **T, def *T) {
	if *field == nil {
		*field = def
	}
}

// merged has the entries of both; own ones win.
func merged(own, def map[string]Budget) map[string]Budget {
	all := make(map[string]Budget, len(own)+len(def))
	maps.Copy(all, def)
	maps.Copy(all, own)
	return all
}

// NamesHosts reports whether the policy has rules for hosts.
func (pol Policy) NamesHosts() bool {
	return len(pol.AllowHosts) > 0 || len(pol.DenyHosts) > 0 || len(pol.Hosts) > 0
}

// Site returns the host and port of a URL, as far as the policy needs them.
func (pol Policy) Site(raw string) Site {
	if !pol.NamesHosts() {
		return Site{}
	}
	return SiteOf(raw)
}

// HostBudget finds the entry of Hosts that counts for a site, and its pattern.
func (pol Policy) HostBudget(at Site) (pattern string, b Budget, ok bool) {
	if len(pol.Hosts) == 0 {
		return "", Budget{}, false
	}
	for _, pattern := range at.Patterns() {
		if b, ok := pol.Hosts[pattern]; ok {
			return pattern, b, true
		}
	}
	return "", Budget{}, false
}

// TaskBudget finds the entry of Tasks that counts for a label, and its name.
func (pol Policy) TaskBudget(label string) (name string, b Budget, ok bool) {
	if b, ok := pol.Tasks[label]; ok {
		return label, b, true
	}
	b, ok = pol.Tasks[OtherTasks]
	return OtherTasks, b, ok
}

// Cap bounds an amount in the smallest unit of USDC. "off" is no bound. A nil *Cap is not set.
type Cap struct {
	off bool
	max money.Amount
}

// CapOf returns a bound.
func CapOf(most money.Amount) *Cap { return &Cap{max: most} }

// NoCap returns "off".
func NoCap() *Cap { return &Cap{off: true} }

// Max returns the bound; nil for one that is off or not set.
func (c *Cap) Max() *money.Amount {
	if c == nil || c.off {
		return nil
	}
	return &c.max
}

const capOff = "off"

// String returns the amount, "off", or "" for one that is not set.
func (c *Cap) String() string {
	switch {
	case c == nil:
		return ""
	case c.off:
		return capOff
	}
	return c.max.String()
}

// MarshalJSON writes a decimal string or "off".
func (c Cap) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Cap) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil && s == capOff {
		*c = Cap{off: true}
		return nil
	}
	var most money.Amount
	if err := json.Unmarshal(b, &most); err != nil {
		return fmt.Errorf("neither an amount nor off: %w", err)
	}
	*c = Cap{max: most}
	return nil
}
