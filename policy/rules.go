package policy

import (
	"fmt"
	"slices"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Refusal says why a policy refuses a payment, by the figures of the payment alone.
type Refusal struct {
	// Rule is a stable word: doors, hosts, payees, per-payment, host-per-payment or task-per-payment.
	Rule   string
	Detail string        // for people, with amounts in whole units
	Limit  *money.Amount // the bound on the price; nil: the rule has none
}

// refuse returns the refusal of a rule.
func refuse(rule, format string, args ...any) *Refusal {
	return &Refusal{Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

// Allows checks the rules that need no counting.
func (pol Policy) Allows(door Door, at Site, task string, payee x402.Address, amount money.Amount) *Refusal {
	if !pol.Opens(door) {
		return refuse("doors", "this key may not pay through the door %s; an operator opens it with purser limits KEY --door", door)
	}
	if r := pol.AllowsHost(door, at); r != nil {
		return r
	}
	if r := pol.allowsPayee(payee); r != nil {
		return r
	}
	if Above(amount, pol.MaxPayment) {
		return TooDear("per-payment", amount, pol.MaxPayment, "")
	}
	if pattern, b, ok := pol.HostBudget(at); ok && Above(amount, b.MaxPayment) {
		return TooDear("host-per-payment", amount, b.MaxPayment, " to "+pattern)
	}
	if name, b, ok := pol.TaskBudget(task); ok && Above(amount, b.MaxPayment) {
		return TooDear("task-per-payment", amount, b.MaxPayment, " of task "+name)
	}
	return nil
}

// Above reports whether an amount passes a cap.
func Above(amount money.Amount, most *Cap) bool {
	return most.Max() != nil && amount.Cmp(*most.Max()) > 0 && !failpoint.Off(failpoint.Limits)
}

// Opens reports whether a key may pay through a door.
func (pol Policy) Opens(door Door) bool {
	return len(pol.Doors) == 0 || slices.Contains(pol.Doors, door) ||
		door == DoorTransport && slices.Contains(pol.Doors, DoorProxy)
}

// AllowsHost checks the host rules. On REST purser dials no host, so the host is only the caller's
// claim. A rule on it is useless there without one on the payee.
func (pol Policy) AllowsHost(door Door, at Site) *Refusal {
	if !pol.NamesHosts() {
		return nil
	}
	if door == DoorAPI && len(pol.AllowPayees) == 0 {
		return refuse("payees", "this key has rules for hosts, and on REST requestUrl is only the caller's word: "+
			"it may pay here once it also has allowed payees, or else through the proxy")
	}
	if at.Name == "" && door != DoorAPI {
		return refuse("hosts", "the request's host is not known, and this key has rules for hosts")
	}
	matching := at.Patterns()
	listed := func(pattern string) bool { return slices.Contains(matching, pattern) }
	switch {
	case slices.ContainsFunc(pol.DenyHosts, listed):
		return refuse("hosts", "%s is denied by the rules of this key", at.Words())
	case len(pol.AllowHosts) == 0 || slices.ContainsFunc(pol.AllowHosts, listed):
		return nil
	case at.Name == "":
		return refuse("hosts", "requestUrl is missing, and this key pays only certain hosts")
	}
	return refuse("hosts", "%s is not among the hosts that this key pays; an operator adds it with purser limits KEY --add-allow-host", at.Words())
}

func (pol Policy) allowsPayee(payee x402.Address) *Refusal {
	switch {
	case slices.Contains(pol.DenyPayees, payee):
		return refuse("payees", "%s is denied by the rules of this key", payee)
	case len(pol.AllowPayees) > 0 && !slices.Contains(pol.AllowPayees, payee):
		return refuse("payees", "%s is not among the payees that this key pays; an operator adds it with purser limits KEY --add-allow-payee", payee)
	}
	return nil
}

// AsksSome reports whether some payments may need an approval.
func (pol Policy) AsksSome() bool {
	return pol.RequireApprovalAbove.Max() != nil || pol.AsksAboutHosts()
}

// AsksAboutHosts reports whether payments to hosts that were never paid need an approval.
func (pol Policy) AsksAboutHosts() bool {
	return pol.RequireApprovalNewHosts != nil && *pol.RequireApprovalNewHosts
}

// Suspects reports whether the policy leaves it to purser which new hosts a person sees. Where an operator lists
// the hosts, or has said that no new host needs an approval, purser has nothing to add.
func (pol Policy) Suspects() bool {
	return pol.RequireApprovalNewHosts == nil && len(pol.AllowHosts) == 0 || pol.AsksAboutHosts()
}

// SignsIn reports whether the policy lists a site for sign-ins.
func (pol Policy) SignsIn(at Site) bool {
	if len(pol.SignInHosts) == 0 {
		return false
	}
	matching := at.Patterns()
	return slices.ContainsFunc(pol.SignInHosts, func(pattern string) bool { return slices.Contains(matching, pattern) })
}

// Guards reports whether the price guard is on.
func (pol Policy) Guards() bool { return pol.PriceGuard != nil && *pol.PriceGuard > 0 }

// TooDear refuses a price that is above the limit for one payment. of says which payments: " to example.com".
func TooDear(rule string, price money.Amount, most *Cap, of string) *Refusal {
	return &Refusal{
		Rule:   rule,
		Detail: fmt.Sprintf("%s is above the limit of %s for one payment%s", money.Text(price), money.Text(*most.Max()), of),
		Limit:  most.Max(),
	}
}
