package dashboard

import (
	"net/http"

	"github.com/purserpay/purser/dashboard/session"
)

type settingsPage struct {
	Operator, Linked                                                   bool // Linked: by purser dashboard
	Role, Shares                                                       string
	Name, Email, Issuer, Subject, Organization, Plan, Upgrade, Version string
	SignedIn, Ends, Resets                                             moment
	Plans                                                              []planRow
	Meters                                                             []meter
	All                                                                everything
	Elsewhere                                                          []setting // nil: the operator's
	Docs                                                               string
}

type planRow struct {
	Name, Price, Keys, Wallets, Payments string
	Mine                                 bool
}

// meter shows how much of a limit is used. Mille is in thousandths; Class is the CSS class of the gauge.
type meter struct {
	Name, Used, Limit, Class string
	Mille                    int
}

func newMeter(name string, used, limit int) meter {
	m := meter{Name: name, Used: count(used), Limit: count(limit), Mille: 1000}
	if used < limit {
		m.Mille = used * 1000 / limit
	}
	switch {
	case m.Mille >= 1000:
		m.Class = "full"
	case m.Mille >= 800:
		m.Class = "warn"
	}
	return m
}

// planned reports whether a plan bounds the visitor.
func (d *dashboard) planned(v visit) bool { return d.Books.HasPlans() && !v.operator() }

// limitOf returns a limit of a plan as text, or "" without plans.
func (d *dashboard) limitOf(v visit, limit int) string {
	if !d.planned(v) {
		return ""
	}
	return count(limit)
}

// upgrade returns the address that sells larger plans, or "".
func (d *dashboard) upgrade(v visit) string {
	if !d.planned(v) {
		return ""
	}
	return d.UpgradeURL
}

// roleText says what the visitor's role is.
func roleText(v visit) string {
	what := "every key, wallet and payment of this purser"
	if !v.operator() {
		if what = "your organization"; v.Shares != "" {
			what = "the organization that you share"
		}
	}
	switch v.Role { //nolint:exhaustive // the last line is the operator's
	case session.Viewer:
		return "Viewer: sees " + what + ", and changes nothing"
	case session.Approver:
		return "Approver: sees " + what + ", and answers payments that wait for approval"
	case session.Owner:
		return "Owner: sees and changes " + what
	}
	return "Operator: sees and changes " + what
}

// settings serves GET /dashboard/settings. Without plans it shows none.
func (d *dashboard) settings(r *http.Request, v visit) (answer, error) {
	a := answer{page: "settings", title: "Settings", nav: "/dashboard/settings"}
	p := settingsPage{
		Operator: v.operator(), Linked: v.Account.ID == "", Role: roleText(v), Shares: cut(v.Shares, maxName), Issuer: d.Issuer, Version: d.Version,
	}
	if v.operator() {
		all, err := d.everything(r.Context(), v)
		if err != nil {
			return answer{}, err
		}
		p.All, p.Elsewhere, p.Docs = all, d.elsewhere(), documentation+"configuration.md"
	}
	if p.Linked {
		p.Name, p.SignedIn, p.Ends = cut(v.Name, maxName), momentOf(v.AuthTime, inText), momentOf(v.AuthTime.Add(session.Lifetime), inText)
		a.body = p
		return a, nil
	}
	who := v.Account
	p.Name, p.Email, p.Issuer, p.Subject, p.Organization = who.Name, who.Email, who.Issuer, who.Subject, who.OrganizationID
	p.SignedIn = momentOf(who.SignedIn, inText)
	if v.operator() {
		a.body = p
		return a, nil
	}
	use, err := d.Books.UsageIn(r.Context(), v.scope())
	if err != nil {
		return answer{}, err
	}
	p.Plan, p.Upgrade, p.Resets = planName(use.Plan.Name), d.upgrade(v), momentOf(use.Resets, onlyDay)
	p.Meters = []meter{
		newMeter("API keys", use.Keys, use.Plan.Keys), newMeter("Wallets", use.Wallets, use.Plan.Wallets),
		newMeter("Payments in "+v.now.Format("January"), use.Payments, use.Plan.Payments),
	}
	if d.planned(v) {
		for _, plan := range d.Books.Plans().List() {
			p.Plans = append(p.Plans, planRow{
				Name: planName(plan.Name), Price: "$" + plan.Price, Keys: count(plan.Keys), Wallets: count(plan.Wallets), Payments: count(plan.Payments),
				Mine: plan.Name == use.Plan.Name,
			})
		}
	}
	a.body = p
	return a, nil
}
