package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/declines"
	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// whatIfDays are the choices of how far back a what-if looks.
var whatIfDays = []int{1, 7, 30}

const standardWhatIf = 7

// emptyParts counts the empty lines at the end of a table of parts.
const emptyParts = 2

// editorField is a field of the editor, as typed.
type editorField struct {
	Name, Label, Hint, Kind, Unit, Column string
	Values                                string // of a line, or a list by lines
	Default                               string // what holds while it is not set
	Own                                   bool
	Choices                               []tickable
	Parts                                 []partRow
	PartLimits                            []string
	Wrong                                 *wrong
	Prefix                                string // of the ids of its elements
}

type tickable struct {
	choice
	Ticked bool
}

type partRow struct {
	N      int
	Name   string
	Limits []partLimit
	Whose  string // names the row for screen readers
}

// partLimit is a limit of a part, as typed.
type partLimit struct{ Of, Typed string }

// editor makes the fields of a form. def holds what a field that is not set falls back to.
func editor(form url.Values, def policy.Policy, wrongs map[string]*wrong, more bool) (list []editorField) {
	for _, f := range limitFields() {
		if f.more != more {
			continue
		}
		typed := f.typed(form)
		e := editorField{
			Name: f.name, Label: f.label, Hint: f.hint, Kind: f.kind, Unit: f.unit, Column: f.column, Default: f.says(def),
			Own: strings.Join(typed, "") != "", Wrong: wrongs[f.name],
		}
		switch f.kind {
		case "amount", "count":
			e.Values = cut(form.Get(f.name), 100)
		case "list":
			e.Values = strings.Join(typed, "\n")
		case "choices", "switch":
			for _, c := range f.choices {
				e.Choices = append(e.Choices, tickable{c, slices.Contains(typed, c.Value) || c.Value == "" && len(typed) == 0})
			}
		case "parts":
			for _, row := range f.rows(typed) {
				e.Parts = append(e.Parts, f.partRow(row, cmp.Or(cut(row[0], maxName), "without a name")))
			}
			for n := range emptyParts {
				e.Parts = append(e.Parts, f.partRow(make([]string, 1+len(f.parts)), "in new line "+strconv.Itoa(n+1)))
			}
			for i := range e.Parts {
				e.Parts[i].N = i
			}
			e.PartLimits = f.parts
		}
		list = append(list, e)
	}
	return list
}

func (f limitField) partRow(typed []string, whose string) partRow {
	row := partRow{Name: typed[0], Whose: whose}
	for i, of := range f.parts {
		row.Limits = append(row.Limits, partLimit{of, typed[i+1]})
	}
	return row
}

type limitsPage struct {
	Name, Path       string
	Revision         uint64
	Main, More       []editorField
	MoreOpen         bool
	Wrongs           []*wrong // for the list above the form
	Changed, API     bool
	Own, OperatorSet bool
}

// limitsForm serves GET /dashboard/keys/{id}/limits. Values in the query stand in the place of the
// key's own: the form comes back so after a new sign-in.
func (d *dashboard) limitsForm(r *http.Request, v visit, k pay.Key) (answer, error) {
	var own policy.Policy
	if k.Policy != nil {
		own = *k.Policy
	}
	form := typedOf(own)
	for name, values := range r.URL.Query() {
		form[name] = values
	}
	return d.limitsWith(k, form, http.StatusOK, nil, false), nil
}

func (d *dashboard) limitsWith(k pay.Key, form url.Values, status int, wrongs map[string]*wrong, changed bool) answer {
	def := d.defaultsOf(k)
	p := limitsPage{
		Name: label(k), Path: keyPath(k.ID), Revision: k.PolicyRevision, Main: editor(form, def, wrongs, false), More: editor(form, def, wrongs, true),
		Changed: changed, Own: k.Policy != nil, OperatorSet: k.Operator, API: !k.Operator,
	}
	for _, f := range slices.Concat(p.Main, p.More) {
		if f.Wrong != nil {
			p.Wrongs = append(p.Wrongs, &wrong{Field: f.Name, Text: f.Label})
		}
	}
	for _, f := range p.More {
		p.MoreOpen = p.MoreOpen || f.Own || f.Wrong != nil
	}
	return answer{status: status, page: "limits", title: "Limits of " + p.Name, nav: "/dashboard/keys", body: p}
}

// defaultsOf returns what holds for a key at the proxy where it has no limit of its own.
func (d *dashboard) defaultsOf(k pay.Key) policy.Policy {
	k.Policy = nil
	return d.Payer.PolicyOf(k, policy.DoorProxy)
}

type reviewPage struct {
	Name, Path string
	Revision   uint64
	Hidden     [][2]string // the form, to be sent again
	Changes    []limitChange
	Raised     string   // the raise that stays; "": none
	Raises     []string // labels
	SignIn     bool     // saving leads to a new sign-in first
	WhatIf     whatIf
}

type limitChange struct {
	Label, Was, Now string
	Raised          bool
}

// whatIf tells in words of the payments that a policy would have declined.
type whatIf struct {
	Title, Held, Bound string
	Days               []dayChoice
	Rules              []whatIfRule
	Decimals           string
}

type dayChoice struct {
	Days    int
	Text    string
	Current bool
}

type whatIfRule struct {
	Why, Count string
	Amount     amount
	Examples   []paymentRow
}

// changeLimits serves POST /dashboard/keys/{id}/limits: it shows what a change means, goes back to the
// form, or saves it.
func (d *dashboard) changeLimits(r *http.Request, v visit, k pay.Key) (answer, error) {
	form := r.PostForm
	do := form.Get("do")
	if do == "reset" {
		form = url.Values{"revision": form["revision"], "days": form["days"]}
	}
	revision, err := strconv.ParseUint(form.Get("revision"), 10, 64)
	if err != nil {
		return answer{}, errForm
	}
	pol, wrongs := readLimits(form)
	switch {
	case len(wrongs) > 0:
		return d.limitsWith(k, form, http.StatusUnprocessableEntity, wrongs, false), nil
	case revision != k.PolicyRevision:
		return d.limitsWith(k, form, http.StatusConflict, nil, true), nil
	case do == "edit":
		return d.limitsWith(k, form, http.StatusOK, nil, false), nil
	}
	next := ownPolicy(k, pol)
	if raise := raiseOf(k, v.now); raise != nil { // the form changes what holds afterwards
		next = cmp.Or(next, new(policy.Policy))
		next.Raise = raise
	}
	raises := d.Payer.Raises(k, next)
	if len(raises) > 0 {
		if err := d.mayRaise(r.Context(), v, k); err != nil {
			return answer{}, err
		}
	}
	if do != "save" {
		return d.review(r.Context(), v, k, next, form, raises)
	}
	if len(raises) > 0 && !v.Fresh(v.now) {
		return answer{redirect: session.Again(limitsBack(k, form))}, nil
	}
	_, err = d.Books.SetPolicyAt(r.Context(), k.ID, revision, next)
	switch {
	case errors.Is(err, pay.ErrPolicyChanged):
		if k, err = d.Books.KeyIn(r.Context(), v.scope(), k.ID); err != nil {
			return answer{}, err
		}
		return d.limitsWith(k, form, http.StatusConflict, nil, true), nil
	case err != nil:
		return answer{}, err
	}
	return answer{redirect: keyPath(k.ID), say: saidLimitsSaved}, nil
}

// ownPolicy returns the policy to store: nil if it sets nothing. The exec key keeps its doors; see
// [books.ExecPolicy].
func ownPolicy(k pay.Key, pol policy.Policy) *policy.Policy {
	if k.Exec && len(pol.Doors) == 0 {
		pol.Doors = books.ExecPolicy().Doors
	}
	if len(typedOf(pol)) == 0 {
		return nil
	}
	return &pol
}

// limitsBack returns the path of the form with what was typed, or without it if that is too long.
func limitsBack(k pay.Key, form url.Values) string {
	kept := url.Values{}
	for _, f := range limitFields() {
		kept[f.name] = form[f.name]
		if len(kept[f.name]) == 0 {
			kept[f.name] = []string{""}
		}
	}
	path := keyPath(k.ID) + "/limits"
	if whole := path + "?" + kept.Encode(); session.Back(whole) == whole {
		return whole
	}
	return path
}

// errOthersMoney: the money that a key pays with is not its organization's.
var errOthersMoney = errors.New("only an operator raises limits of this key")

// mayRaise refuses an owner who raises limits on the money of others: of a key that the operator
// made, or that pays from a wallet of another organization.
func (d *dashboard) mayRaise(ctx context.Context, v visit, k pay.Key) error {
	if v.operator() {
		return nil
	}
	if k.Operator {
		return errOthersMoney
	}
	wallets, err := d.Books.ListWallets(ctx, k)
	if err != nil {
		return err
	}
	for _, w := range wallets {
		if w.KeyID == k.ID {
			continue
		}
		if _, err := d.Books.KeyIn(ctx, v.scope(), w.KeyID); errors.Is(err, pay.ErrKeyNotFound) {
			return errOthersMoney
		} else if err != nil {
			return err
		}
	}
	return nil
}

// review returns the page between form and saving.
func (d *dashboard) review(ctx context.Context, v visit, k pay.Key, next *policy.Policy, form url.Values, raises []string) (answer, error) {
	p := reviewPage{Name: label(k), Path: keyPath(k.ID), Revision: k.PolicyRevision, SignIn: len(raises) > 0 && !v.Fresh(v.now)}
	def := d.defaultsOf(k)
	var was, now policy.Policy
	if k.Policy != nil {
		was = *k.Policy
	}
	if next != nil {
		now = *next
		p.Raised = raiseText(now.Raise)
	}
	for _, f := range limitFields() {
		before, after := f.text(was), f.text(now)
		for _, value := range form[f.name] {
			p.Hidden = append(p.Hidden, [2]string{f.name, value})
		}
		raised := slices.Contains(raises, f.name)
		if raised {
			p.Raises = append(p.Raises, f.label)
		}
		if !slices.Equal(before, after) {
			p.Changes = append(p.Changes, limitChange{f.label, f.saysOr(was, def), f.saysOr(now, def), raised})
		}
	}
	var err error
	days := standardWhatIf
	if n, err := strconv.Atoi(form.Get("days")); err == nil && slices.Contains(whatIfDays, n) {
		days = n
	}
	if p.WhatIf, err = d.whatIf(ctx, v, k, next, days); err != nil {
		return answer{}, err
	}
	return answer{page: "limits-review", title: "Review the limits of " + p.Name, nav: "/dashboard/keys", body: p}, nil
}

// saysOr returns a field's value in words, or that of the defaults.
func (f limitField) saysOr(pol, def policy.Policy) string {
	if len(f.text(pol)) == 0 {
		return f.says(def) + " (default)"
	}
	return f.says(pol)
}

// asksWhy says why a payment waits for an approval.
var asksWhy = map[string]string{
	pay.RuleApprovalAbove:   "waits, because the price is above what needs no approval",
	pay.RuleApprovalNewHost: "waits, because the key has not paid the host before",
}

func inDays(n int) string {
	if n == 1 {
		return "24 hours"
	}
	return strconv.Itoa(n) + " days"
}

// whatIf replays the key's payments by a policy.
func (d *dashboard) whatIf(ctx context.Context, v visit, k pay.Key, pol *policy.Policy, days int) (whatIf, error) {
	got, err := limits.Replay(ctx, d.Payer, k, pol, v.now.AddDate(0, 0, -days), limits.Bounds{})
	if err != nil {
		return whatIf{}, err
	}
	w := whatIf{}
	for _, n := range whatIfDays {
		w.Days = append(w.Days, dayChoice{n, inDays(n), n == days})
	}
	of := "in the last " + inDays(days)
	switch {
	case got.Payments == 0 && got.From.IsZero() && got.Until.IsZero():
		w.Title = "The key has made no payments " + of + ", so there is nothing to compare with."
	case got.Declined.Count == 0:
		w.Title = "These limits would have declined none of the " + payments(got.Payments) + " " + of + "."
	default:
		w.Title = "These limits would have declined " + payments(got.Declined.Count) + ", " + money.Text(got.Declined.Amount) + ", " + of + "."
	}
	switch {
	case !got.Until.IsZero():
		w.Bound = "There was time for " + payments(got.Payments) + " only, until " + momentOf(got.Until, inText).Text + "."
	case !got.From.IsZero():
		w.Bound = "Of the newest " + payments(got.Payments) + " only, since " + momentOf(got.From, inText).Text + "."
	}
	if n := got.Held.Count; n > 0 {
		w.Held = payments(n) + ", " + money.Text(got.Held.Amount) + ", would have waited for a person's approval."
	}
	var shown []amount
	for _, rule := range slices.Concat(got.Rules, got.Asks) {
		why := cmp.Or(asksWhy[rule.Rule], declines.Why(rule.Rule), rule.Rule)
		row := whatIfRule{Why: strings.ToUpper(why[:min(1, len(why))]) + why[min(1, len(why)):], Count: count(rule.Count), Amount: amountOf(rule.Amount, false, currency)}
		for _, e := range rule.Examples {
			row.Examples = append(row.Examples, rowOf(e, momentOf(e.Created, inTable)))
		}
		w.Rules, shown = append(w.Rules, row), append(shown, row.Amount)
	}
	w.Decimals = column(shown...)
	return w, nil
}
