package dashboard

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// limitField is a limit as people see and type it. Editor, review and create form are made from the
// table of limitFields alone.
type limitField struct {
	name        string // of the form's field, and the JSON name in the policy
	label, hint string
	kind        string // "amount", "count", "list", "choices", "switch" or "parts"
	none        string // says what holds while it is set nowhere
	unit        string // behind a number
	choices     []choice
	column      string   // heads the names of parts
	parts       []string // names the limits of a part, in the order in which they are typed behind its name
	more        bool     // shown in the second part of the editor
	// text returns the values of a policy as they are typed; none: it is not set.
	text func(policy.Policy) []string
	// read sets typed values, of which there is at least one.
	read func(*policy.Policy, []string) error
}

// choice is a value that can be ticked.
type choice struct{ Value, Label string }

// off is typed for no limit.
const off = "off"

// limitFields lists all limits of a key in the order of the editor.
func limitFields() []limitField {
	return []limitField{
		amountField("max_payment", "A payment", "The most that one payment may cost.", func(p *policy.Policy) **policy.Cap { return &p.MaxPayment }),
		amountField("hourly_budget", "An hour", "The most that the key may spend in an hour by the clock. It is counted from when the key has such a budget.", func(p *policy.Policy) **policy.Cap { return &p.HourlyBudget }),
		amountField("daily_budget", "A day", "The most that the key may spend from 00:00 to 24:00 UTC.", func(p *policy.Policy) **policy.Cap { return &p.DailyBudget }),
		amountField("weekly_budget", "A week", "The most that the key may spend from Monday to Sunday, UTC.", func(p *policy.Policy) **policy.Cap { return &p.WeeklyBudget }),
		amountField("monthly_budget", "A month", "The most that the key may spend in a calendar month.", func(p *policy.Policy) **policy.Cap { return &p.MonthlyBudget }),
		countField("per_minute", "Payments a minute", "How many payments may begin in a minute.", "payments", func(p *policy.Policy) **int { return &p.PerMinute }),
		countField("price_guard", "Price guard", "Declines a price above this many times what the same address was last paid.", "times", func(p *policy.Policy) **int { return &p.PriceGuard }),
		amountField("require_approval_above", "Ask a person above", "A payment above this amount waits until a person approves it.", func(p *policy.Policy) **policy.Cap { return &p.RequireApprovalAbove }),
		{
			name: "require_approval_new_hosts", label: "Ask a person about new hosts", hint: "The first payment to a host that the key has never paid waits until a person approves it.",
			kind: "switch", none: "no", choices: []choice{{"", "default"}, {"yes", "yes, ask"}, {"no", "no, pay"}},
			text: func(p policy.Policy) []string {
				switch ask := p.RequireApprovalNewHosts; {
				case ask == nil:
					return nil
				case *ask:
					return []string{"yes"}
				default:
					return []string{"no"}
				}
			},
			read: func(p *policy.Policy, typed []string) error {
				if typed[0] != "yes" && typed[0] != "no" {
					return fieldError("Choose one of the values.")
				}
				p.RequireApprovalNewHosts = new(typed[0] == "yes")
				return nil
			},
		},
		{
			name: "doors", label: "Ways to pay", hint: "Tick the ways that the key may use. None ticked: the default holds.", kind: "choices", none: "all",
			choices: []choice{
				{string(policy.DoorProxy), "The proxy, and the transport for programs in Go"},
				{string(policy.DoorTransport), "The transport only"},
				{string(policy.DoorAPI), "REST (POST /v1/pay)"},
			},
			text: func(p policy.Policy) (list []string) {
				for _, d := range p.Doors {
					list = append(list, string(d))
				}
				return list
			},
			read: func(p *policy.Policy, typed []string) error {
				for _, d := range typed {
					p.Doors = append(p.Doors, policy.Door(d))
				}
				return nil
			},
		},
		hostsField("allow_hosts", "Only these hosts", "One a line, such as api.example.com or *.example.com. All others are declined.", "all hosts", func(p *policy.Policy) *[]string { return &p.AllowHosts }),
		hostsField("deny_hosts", "Never these hosts", "One a line. Those of the configuration are denied as well.", "none", func(p *policy.Policy) *[]string { return &p.DenyHosts }),
		payeesField("allow_payees", "Only these payees", "Addresses, one a line. All others are declined. Rules for hosts bind payments over REST only together with these.", "all payees", func(p *policy.Policy) *[]x402.Address { return &p.AllowPayees }),
		payeesField("deny_payees", "Never these payees", "Addresses, one a line. Those of the configuration are denied as well.", "none", func(p *policy.Policy) *[]x402.Address { return &p.DenyPayees }),
		hostsField("sign_in_hosts", "Hosts to sign in to", "One a line. The key's wallet signs in there instead of paying again for what it has bought.", "none", func(p *policy.Policy) *[]string { return &p.SignInHosts }),
		payeesField("offer_signers", "Signers of offers", "Addresses, one a line, that sign offers for sellers who are paid at another address.", "none", func(p *policy.Policy) *[]x402.Address { return &p.OfferSigners }),
		partsField("hosts", "Budgets of hosts", "Limits for payments to a host, beside those above. The pattern that fits best counts.", "Host", partLimits, func(p *policy.Policy) *map[string]policy.Budget { return &p.Hosts }),
		partsField("tasks", "Budgets of tasks", "Limits for payments of a task. The task * is for all that have none of their own, and for requests without a task. What it spends in all is counted from when it is set here.", "Task", taskLimits, func(p *policy.Policy) *map[string]policy.Budget { return &p.Tasks }),
	}
}

func amountField(name, label, hint string, at func(*policy.Policy) **policy.Cap) limitField {
	return limitField{
		name: name, label: label, hint: hint, kind: "amount", none: "no limit", unit: currency,
		text: func(p policy.Policy) []string { return some(capTyped(*at(&p))) },
		read: func(p *policy.Policy, typed []string) (err error) {
			*at(p), err = readCap(typed[0])
			return err
		},
	}
}

func countField(name, label, hint, unit string, at func(*policy.Policy) **int) limitField {
	return limitField{
		name: name, label: label, hint: hint, kind: "count", none: "no limit", unit: unit,
		text: func(p policy.Policy) []string {
			switch n := *at(&p); {
			case n == nil:
				return nil
			case *n <= 0:
				return []string{off}
			default:
				return []string{strconv.Itoa(*n)}
			}
		},
		read: func(p *policy.Policy, typed []string) error {
			n, err := strconv.Atoi(typed[0])
			switch {
			case strings.EqualFold(typed[0], off):
				n = 0
			case err != nil || n < 1 || n > 1_000_000:
				return fieldError("This is not a whole number above 0. Write off for no limit, or nothing for the default.")
			}
			*at(p) = &n
			return nil
		},
	}
}

func hostsField(name, label, hint, none string, at func(*policy.Policy) *[]string) limitField {
	return limitField{
		name: name, label: label, hint: hint, kind: "list", none: none, more: true,
		text: func(p policy.Policy) []string { return *at(&p) },
		read: func(p *policy.Policy, typed []string) error {
			*at(p) = typed
			return nil
		},
	}
}

func payeesField(name, label, hint, none string, at func(*policy.Policy) *[]x402.Address) limitField {
	return limitField{
		name: name, label: label, hint: hint, kind: "list", none: none, more: true,
		text: func(p policy.Policy) (list []string) {
			for _, a := range *at(&p) {
				list = append(list, a.String())
			}
			return list
		},
		read: func(p *policy.Policy, typed []string) error {
			for _, text := range typed {
				a, err := x402.ParseAddress(text)
				if err != nil {
					return fieldError(fmt.Sprintf("%s is not an address: it begins with 0x and has 40 digits more.", cut(text, 80)))
				}
				*at(p) = append(*at(p), a)
			}
			return nil
		},
	}
}

// partLimits names the limits that all parts may have, in the order in which they are typed.
var partLimits = []string{"A payment", "An hour", "A day", "A week", "A month"}

// taskLimits names those of tasks, which end with a total and the task's end.
var taskLimits = append(slices.Clip(partLimits), "In all", "Until (UTC)")

// rows cuts typed values into parts: each has a name and its limits.
func (f limitField) rows(typed []string) (rows [][]string) {
	for row := range slices.Chunk(typed, 1+len(f.parts)) {
		if len(row) == 1+len(f.parts) && strings.Join(row, "") != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// capsOf returns where the limits of a part are, in the order of partLimits.
func capsOf(b *policy.Budget) []**policy.Cap {
	list := []**policy.Cap{&b.MaxPayment}
	for _, p := range policy.Periods {
		list = append(list, b.Of(p))
	}
	return list
}

// partsField is a table of parts with limits of their own.
func partsField(name, label, hint, column string, limits []string, at func(*policy.Policy) *map[string]policy.Budget) limitField {
	f := limitField{name: name, parts: limits}
	return limitField{
		name: name, label: label, hint: hint, kind: "parts", none: "none", column: column, parts: limits, more: true,
		text: func(p policy.Policy) (list []string) {
			for _, part := range slices.Sorted(maps.Keys(*at(&p))) {
				b := (*at(&p))[part]
				list = append(list, part)
				for _, limit := range capsOf(&b) {
					list = append(list, capTyped(*limit))
				}
				if len(limits) > len(partLimits) {
					list = append(list, totalTyped(b.Total)...)
				}
			}
			return list
		},
		read: func(p *policy.Policy, typed []string) error {
			parts := map[string]policy.Budget{}
			for _, row := range f.rows(typed) {
				if _, twice := parts[row[0]]; twice || row[0] == "" {
					return fieldError("Every line with a limit needs a name, and no name may stand there twice.")
				}
				var b policy.Budget
				for i, to := range capsOf(&b) {
					var err error
					if *to, err = readCap(row[i+1]); err != nil {
						return fieldError(cut(row[0], 60) + ": " + err.Error())
					}
				}
				if len(limits) > len(partLimits) {
					var err error
					if b.Total, err = readTotal(row[1+len(partLimits)], row[2+len(partLimits)]); err != nil {
						return fieldError(cut(row[0], 60) + ": " + err.Error())
					}
				}
				if b == (policy.Budget{}) {
					return fieldError(fmt.Sprintf("%s has no limit. Give it one, or clear its line.", cut(row[0], 60)))
				}
				parts[row[0]] = b
			}
			if len(parts) > 0 {
				*at(p) = parts
			}
			return nil
		},
	}
}

// untilLayout writes and reads the end of a task, in UTC.
const untilLayout = "2006-01-02 15:04:05"

// totalTyped returns a total as people type it: its amount and its end.
func totalTyped(t *policy.Total) []string {
	if t == nil {
		return []string{"", ""}
	}
	amount, until := twoDigits(t.Amount.Format(decimals)), ""
	if !t.Until.IsZero() {
		until = strings.TrimSuffix(t.Until.UTC().Format(untilLayout), ":00")
	}
	return []string{amount, until}
}

// readTotal reads a total; nil: nothing is typed.
func readTotal(amount, until string) (*policy.Total, error) {
	most, err := readCap(amount)
	switch {
	case err != nil:
		return nil, err
	case most.Max() == nil && until != "":
		return nil, fieldError("A task with an end needs an amount that it may spend in all.")
	case most.Max() == nil:
		return nil, nil
	}
	t := &policy.Total{Amount: *most.Max()}
	if until == "" {
		return t, nil
	}
	for _, layout := range []string{untilLayout, strings.TrimSuffix(untilLayout, ":05")} {
		if at, err := time.Parse(layout, strings.TrimSpace(strings.TrimSuffix(until, "UTC"))); err == nil {
			t.Until = at
			return t, nil
		}
	}
	return nil, fieldError("Write the end of a task as 2026-12-01 18:00, in UTC.")
}

// fieldError is a problem of a field, as a sentence for the visitor.
type fieldError string

func (e fieldError) Error() string { return string(e) }

func some(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// capTyped returns a bound as people type it: "0.50", "off", or "" for one that is not set.
func capTyped(c *policy.Cap) string {
	if most := c.Max(); most != nil {
		return twoDigits(most.Format(decimals))
	}
	return c.String()
}

// twoDigits writes at least cents: 0.5 as 0.50.
func twoDigits(number string) string {
	whole, fraction, _ := strings.Cut(number, ".")
	return whole + "." + fraction + strings.Repeat("0", max(0, 2-len(fraction)))
}

// readCap reads an amount in USDC; "" is nil.
func readCap(text string) (*policy.Cap, error) {
	switch {
	case text == "":
		return nil, nil
	case strings.EqualFold(text, off):
		return policy.NoCap(), nil
	}
	most, err := money.ParseUnits(strings.TrimSpace(strings.TrimSuffix(text, currency)), decimals)
	if err != nil || most.IsZero() {
		return nil, fieldError("This is not an amount of USDC above 0, such as 0.50. Write off for no limit, or nothing for the default.")
	}
	return policy.CapOf(most), nil
}

// typed returns what a form says of a field. Fields with one line count once, lists by line.
func (f limitField) typed(form url.Values) []string {
	all := form[f.name]
	if f.kind == "parts" {
		list := make([]string, len(all))
		for i, text := range all {
			list[i] = strings.TrimSpace(text)
		}
		return list
	}
	return strings.FieldsFunc(strings.Join(all, "\n"), func(r rune) bool {
		return r == '\n' || r == '\r' || f.kind == "list" && (r == ',' || r == ' ' || r == '\t')
	})
}

// typedOf returns the form of a policy.
func typedOf(pol policy.Policy) url.Values {
	form := url.Values{}
	for _, f := range limitFields() {
		if list := f.text(pol); len(list) > 0 {
			form[f.name] = list
		}
	}
	return form
}

// readLimits reads a form. wrongs holds the problems by the field's name.
func readLimits(form url.Values) (pol policy.Policy, wrongs map[string]*wrong) {
	wrongs = map[string]*wrong{}
	for _, f := range limitFields() {
		typed := f.typed(form)
		if f.kind == "amount" || f.kind == "count" || f.kind == "switch" {
			typed = some(strings.TrimSpace(form.Get(f.name)))
		}
		if len(typed) == 0 {
			continue
		}
		if err := f.read(&pol, typed); err != nil {
			wrongs[f.name] = &wrong{Field: f.name, Text: err.Error()}
		}
	}
	if len(wrongs) > 0 {
		return pol, wrongs
	}
	if input, ok := errors.AsType[*policy.FieldError](pol.Validate()); ok {
		name, _, _ := strings.Cut(input.Field, "[")
		wrongs[name] = &wrong{Field: name, Text: cut(input.Reason, maxTitle)}
	}
	return pol, wrongs
}

// says returns the values of a field in a policy in words.
func (f limitField) says(pol policy.Policy) string {
	list := f.text(pol)
	switch {
	case len(list) == 0:
		return f.none
	case list[0] == off:
		return "no limit"
	case f.kind == "parts":
		var parts []string
		for _, row := range f.rows(list) {
			var limits []string
			for i, of := range f.parts {
				of = strings.ToLower(of[:1]) + of[1:]
				if i == len(taskLimits)-1 {
					if row[i+1] != "" {
						limits = append(limits, "until "+row[i+1]+" UTC")
					}
					continue
				}
				if row[i+1] == off {
					limits = append(limits, "no limit for "+of)
				} else if row[i+1] != "" {
					limits = append(limits, row[i+1]+" "+of)
				}
			}
			parts = append(parts, row[0]+": "+strings.Join(limits, ", "))
		}
		return cut(strings.Join(parts, "; "), maxTitle)
	case f.unit != "":
		return list[0] + " " + f.unit
	}
	return cut(strings.Join(list, ", "), maxTitle)
}
