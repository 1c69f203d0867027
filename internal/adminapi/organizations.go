package adminapi

import (
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// Organization is an organization with what it uses of its plan.
type Organization struct {
	ID      string       `json:"id"`
	Plan    pay.PlanName `json:"plan"`
	Created time.Time    `json:"created_at"`
	// Keys, Wallets and Payments count what it has, and may have. Payments are those of this month.
	Keys     Usage `json:"keys"`
	Wallets  Usage `json:"wallets"`
	Payments Usage `json:"payments"`
}

// Usage has a Most of 0 where there is no limit.
type Usage struct {
	Used int `json:"used"`
	Most int `json:"most"`
}

// Organizations is a page of organizations, by id.
type Organizations struct {
	Organizations []Organization `json:"organizations"`
	Next          string         `json:"next,omitempty"`
}

func (p *Purser) shownOrganization(r *http.Request, o pay.Organization) (Organization, error) {
	u, err := p.Books.Usage(r.Context(), o.ID)
	if err != nil {
		return Organization{}, err
	}
	if !p.Books.HasPlans() {
		u.Plan.Keys, u.Plan.Wallets, u.Plan.Payments = 0, 0, 0
	}
	return Organization{
		ID: o.ID, Plan: u.Plan.Name, Created: o.Created, Keys: Usage{u.Keys, u.Plan.Keys},
		Wallets: Usage{u.Wallets, u.Plan.Wallets}, Payments: Usage{u.Payments, u.Plan.Payments},
	}, nil
}

func (p *Purser) organizations(r *http.Request) (any, error) {
	list, next, err := listed(r, func(limit int) ([]pay.Organization, error) {
		return p.Books.Organizations(r.Context(), r.URL.Query().Get("after"), limit)
	}, func(o pay.Organization) string { return o.ID }, func(o pay.Organization) (Organization, error) {
		return p.shownOrganization(r, o)
	})
	return Organizations{list, next}, err
}

// NewAccount is the body of POST /purser/organizations.
type NewAccount struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
	Name    string `json:"name"`
	Email   string `json:"email"`
}

// PreparedAccount is its answer.
type PreparedAccount struct {
	Account      string       `json:"account_id"`
	Organization Organization `json:"organization"`
}

// prepare makes the organization of an account before its first sign-in, so that the operator can put
// keys into it. It is found again by issuer and subject.
func (p *Purser) prepare(r *http.Request, who NewAccount) (any, error) {
	a, first, err := p.Books.SignIn(r.Context(), pay.Identity(who))
	if err != nil {
		return nil, err
	}
	o, err := p.Books.Organization(r.Context(), a.OrganizationID)
	if err != nil {
		return nil, err
	}
	shown, err := p.shownOrganization(r, o)
	if err != nil {
		return nil, err
	}
	if first {
		return created{PreparedAccount{a.ID, shown}}, nil
	}
	return PreparedAccount{a.ID, shown}, nil
}

// PlanChange is the body of PUT /purser/organizations/{id}/plan.
type PlanChange struct {
	Plan string `json:"plan"`
}

// setPlan moves an organization to a plan: PUT /purser/organizations/{id}/plan.
func (p *Purser) setPlan(r *http.Request, want PlanChange) (any, error) {
	o, err := p.findOrganization(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if o, err = p.Books.SetPlan(r.Context(), o.ID, pay.PlanName(want.Plan)); err != nil {
		return nil, err
	}
	return p.shownOrganization(r, o)
}

// KeyLink is the body of POST /purser/organizations/{id}/keys.
type KeyLink struct {
	Key string `json:"key"` // the secret
}

func (p *Purser) linkKey(r *http.Request, want KeyLink) (any, error) {
	o, err := p.findOrganization(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	k, err := p.Books.LinkKey(r.Context(), o.ID, want.Key)
	return p.shownKey(k), err
}
