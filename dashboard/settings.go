package dashboard

import "net/http"

type settingsPage struct {
	Name, Email, Issuer, Subject, Organization, Plan, Upgrade string
	SignedIn, Resets                                          moment
	Plans                                                     []planRow
	Meters                                                    []meter
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

// planned returns a limit of a plan as text, or "" without plans.
func (d *dashboard) planned(limit int) string {
	if !d.Books.HasPlans() {
		return ""
	}
	return count(limit)
}

// upgrade returns the address that sells larger plans, or "".
func (d *dashboard) upgrade() string {
	if !d.Books.HasPlans() {
		return ""
	}
	return d.UpgradeURL
}

// settings serves GET /dashboard/settings. Without plans it shows none.
func (d *dashboard) settings(r *http.Request, v visit) (answer, error) {
	use, err := d.Books.Usage(r.Context(), v.org())
	if err != nil {
		return answer{}, err
	}
	a := v.Account
	p := settingsPage{
		Name: a.Name, Email: a.Email, Issuer: a.Issuer, Subject: a.Subject, Organization: a.OrganizationID,
		Plan: planName(use.Plan.Name), Upgrade: d.upgrade(), SignedIn: momentOf(a.SignedIn, inText), Resets: momentOf(use.Resets, onlyDay),
		Meters: []meter{
			newMeter("API keys", use.Keys, use.Plan.Keys), newMeter("Wallets", use.Wallets, use.Plan.Wallets),
			newMeter("Payments in "+v.now.Format("January"), use.Payments, use.Plan.Payments),
		},
	}
	if d.Books.HasPlans() {
		for _, plan := range d.Books.Plans().List() {
			p.Plans = append(p.Plans, planRow{
				Name: planName(plan.Name), Price: "$" + plan.Price, Keys: count(plan.Keys), Wallets: count(plan.Wallets), Payments: count(plan.Payments),
				Mine: plan.Name == use.Plan.Name,
			})
		}
	}
	return answer{page: "settings", title: "Settings", nav: "/dashboard/settings", body: p}, nil
}
