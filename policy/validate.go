package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/x402"
)

// maxPolicyEntries bounds every list and map of a policy.
const maxPolicyEntries = 1000

// maxTask is the longest task label.
const maxTask = 64

// ValidTask reports whether s can be a task label (docs/design/surfaces.md).
func ValidTask(s string) bool {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return s != "" && len(s) <= maxTask && strings.Trim(s, alphabet) == ""
}

// FieldError: a field of a policy is malformed. Field is its JSON name, with the entry for maps:
// hosts[api.example.com].daily_budget.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Validate checks that the policy can be meant: *FieldError.
func (pol Policy) Validate() error {
	if err := pol.validateNumbers(""); err != nil {
		return err
	}
	if err := pol.Raise.validate(); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		size int
	}{
		{"doors", len(pol.Doors)},
		{"allow_hosts", len(pol.AllowHosts)},
		{"deny_hosts", len(pol.DenyHosts)},
		{"sign_in_hosts", len(pol.SignInHosts)},
		{"allow_payees", len(pol.AllowPayees)},
		{"deny_payees", len(pol.DenyPayees)},
		{"offer_signers", len(pol.OfferSigners)},
		{"hosts", len(pol.Hosts)},
		{"tasks", len(pol.Tasks)},
	} {
		if f.size > maxPolicyEntries {
			return &FieldError{Field: f.name, Reason: fmt.Sprintf("%d entries, at most %d", f.size, maxPolicyEntries)}
		}
	}
	for _, f := range []struct {
		name string
		list []x402.Address
	}{{"allow_payees", pol.AllowPayees}, {"deny_payees", pol.DenyPayees}, {"offer_signers", pol.OfferSigners}} {
		for _, a := range f.list {
			if a.Foreign() { // more likely mistyped
				return &FieldError{Field: f.name, Reason: a.String() + " is not an address: want 0x and 40 hex digits"}
			}
		}
	}
	for _, f := range []struct {
		name  string
		empty bool
	}{
		{"allow_hosts", pol.AllowHosts != nil && len(pol.AllowHosts) == 0},
		{"allow_payees", pol.AllowPayees != nil && len(pol.AllowPayees) == 0},
		{"doors", pol.Doors != nil && len(pol.Doors) == 0},
	} {
		if f.empty { // it reads like nothing being allowed, and would allow everything
			return &FieldError{Field: f.name, Reason: "an empty list; leave it out to allow all"}
		}
	}
	for _, d := range pol.Doors {
		if d != DoorAPI && d != DoorProxy && d != DoorTransport {
			return &FieldError{Field: "doors", Reason: fmt.Sprintf("%q is none of %s, %s, %s", words.Truncate(string(d), 40), DoorAPI, DoorProxy, DoorTransport)}
		}
	}
	if err := validPatterns("allow_hosts", pol.AllowHosts); err != nil {
		return err
	}
	if err := validPatterns("deny_hosts", pol.DenyHosts); err != nil {
		return err
	}
	if err := validPatterns("sign_in_hosts", pol.SignInHosts); err != nil {
		return err
	}
	return pol.validateParts()
}

// validateNumbers checks the limits that are numbers. Names of fields begin with the prefix.
func (pol Policy) validateNumbers(prefix string) error {
	if err := pol.Whole().validate(prefix); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		value *int
	}{{"per_minute", pol.PerMinute}, {"price_guard", pol.PriceGuard}} {
		if f.value != nil && *f.value < 0 {
			return &FieldError{Field: prefix + f.name, Reason: fmt.Sprintf("%d is neither a positive number nor 0 for off", *f.value)}
		}
	}
	return nil
}

// validateParts checks Hosts and Tasks, in an order that does not change.
func (pol Policy) validateParts() error {
	names := slices.Sorted(maps.Keys(pol.Hosts))
	if err := validPatterns("hosts", names); err != nil {
		return err
	}
	for _, name := range names {
		field := "hosts[" + name + "]."
		if err := pol.Hosts[name].validate(field); err != nil {
			return err
		}
		if pol.Hosts[name].Total != nil {
			return &FieldError{Field: field + "total", Reason: "only tasks have totals"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pol.Tasks)) {
		if name != OtherTasks && !ValidTask(name) {
			return &FieldError{Field: "tasks", Reason: fmt.Sprintf(
				"%q is neither %q nor 1 to %d characters of A-Z a-z 0-9 . _ -", words.Truncate(name, maxTask), OtherTasks, maxTask)}
		}
		if err := pol.Tasks[name].validate("tasks[" + name + "]."); err != nil {
			return err
		}
	}
	return nil
}

func (b Budget) validate(prefix string) error {
	if b.Total != nil && b.Total.Amount.IsZero() {
		return &FieldError{Field: prefix + "total.amount", Reason: "a total has an amount above 0"}
	}
	for _, f := range []struct {
		name  string
		value *Cap
	}{{"max_payment", b.MaxPayment}, {"hourly_budget", b.HourlyBudget}, {"daily_budget", b.DailyBudget}, {"weekly_budget", b.WeeklyBudget}, {"monthly_budget", b.MonthlyBudget}} {
		if most := f.value.Max(); most != nil && most.IsZero() {
			return &FieldError{Field: prefix + f.name, Reason: "must be more than 0; off is no limit"}
		}
	}
	return nil
}

// validPatterns takes only the form that hosts are compared in.
func validPatterns(field string, patterns []string) error {
	for _, p := range patterns {
		normal, err := normalPattern(p)
		if err != nil {
			return &FieldError{Field: field, Reason: fmt.Sprintf("%q is %s", words.Truncate(p, 80), err)}
		}
		if normal != p {
			return &FieldError{Field: field, Reason: fmt.Sprintf("write %q as %q", words.Truncate(p, 80), normal)}
		}
	}
	return nil
}
