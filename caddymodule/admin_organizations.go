package caddymodule

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// adminOrganization is an organization with what it uses of its plan.
type adminOrganization struct {
	ID      string       `json:"id"`
	Plan    pay.PlanName `json:"plan"`
	Created time.Time    `json:"created_at"`
	// What it has, and may have. Payments are those of this month.
	Keys     adminUse `json:"keys"`
	Wallets  adminUse `json:"wallets"`
	Payments adminUse `json:"payments"`
}

// adminUse has a Most of 0 where there is no limit.
type adminUse struct {
	Used int `json:"used"`
	Most int `json:"most"`
}

// adminOrganizations is a page of organizations, by id. Next is what after must be for the
// next page; empty on the last.
type adminOrganizations struct {
	Organizations []adminOrganization `json:"organizations"`
	Next          string              `json:"next,omitempty"`
}

const (
	defaultOrganizationPage = 100
	maxOrganizationPage     = 500
)

func (t *tenant) shownOrganization(r *http.Request, o pay.Organization) (adminOrganization, error) {
	u, err := t.payer.Usage(r.Context(), o.ID)
	if err != nil {
		return adminOrganization{}, adminFailure(err)
	}
	if !t.payer.HasPlans() {
		u.Plan.Keys, u.Plan.Wallets, u.Plan.Payments = 0, 0, 0
	}
	return adminOrganization{
		ID: o.ID, Plan: u.Plan.Name, Created: o.Created, Keys: adminUse{u.Keys, u.Plan.Keys},
		Wallets: adminUse{u.Wallets, u.Plan.Wallets}, Payments: adminUse{u.Payments, u.Plan.Payments},
	}, nil
}

// organizations lists them: GET /purser/organizations?after=&limit=.
func (*adminAPI) organizations(w http.ResponseWriter, r *http.Request) error {
	limit, err := pageLimit(r.URL.Query(), defaultOrganizationPage, maxOrganizationPage)
	if err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	list, err := t.payer.Organizations(r.Context(), r.URL.Query().Get("after"), limit+1)
	if err != nil {
		return adminFailure(err)
	}
	page := adminOrganizations{Organizations: []adminOrganization{}}
	if len(list) > limit {
		list = list[:limit]
		page.Next = list[limit-1].ID
	}
	for _, o := range list {
		shown, err := t.shownOrganization(r, o)
		if err != nil {
			return err
		}
		page.Organizations = append(page.Organizations, shown)
	}
	return writeBody(w, http.StatusOK, page)
}

// newPerson is the body of POST /purser/organizations.
type newPerson struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	Name    string `json:"name"`
	Email   string `json:"email"`
}

// preparedPerson is its answer.
type preparedPerson struct {
	Account      string            `json:"account_id"`
	Organization adminOrganization `json:"organization"`
}

// prepare makes the organization that somebody will have when they sign in, so that there can
// be something in it by then. It is found again by issuer and subject.
func (*adminAPI) prepare(w http.ResponseWriter, r *http.Request) error {
	var who newPerson
	if err := readBody(w, r, &who); err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	a, first, err := t.payer.SignIn(r.Context(), pay.Identity(who))
	if err != nil {
		return adminFailure(err)
	}
	o, err := t.payer.Organization(r.Context(), a.OrganizationID)
	if err != nil {
		return adminFailure(err)
	}
	shown, err := t.shownOrganization(r, o)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if first {
		status = http.StatusCreated
	}
	return writeBody(w, status, preparedPerson{a.ID, shown})
}

// setPlan moves an organization to a plan: PUT /purser/organizations/{id}/plan.
func (*adminAPI) setPlan(w http.ResponseWriter, r *http.Request) error {
	var want struct {
		Plan string `json:"plan"`
	}
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	o, err := t.payer.SetPlan(r.Context(), r.PathValue("id"), pay.PlanName(want.Plan))
	if err != nil {
		return adminFailure(err)
	}
	shown, err := t.shownOrganization(r, o)
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, shown)
}

// linkKey claims a key for an organization: POST /purser/organizations/{id}/keys.
func (*adminAPI) linkKey(w http.ResponseWriter, r *http.Request) error {
	var want struct {
		Key string `json:"key"`
	}
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	t, err := enterTenant()
	if err != nil {
		return err
	}
	defer t.leave()
	k, err := t.payer.LinkKey(r.Context(), r.PathValue("id"), want.Key)
	if err != nil {
		return adminFailure(err)
	}
	return writeBody(w, http.StatusOK, shownKey(t.payer, k))
}
