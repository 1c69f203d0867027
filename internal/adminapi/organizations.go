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
	// What it has, and may have. Payments are those of this month.
	Keys     Usage `json:"keys"`
	Wallets  Usage `json:"wallets"`
	Payments Usage `json:"payments"`
}

// Usage has a Most of 0 where there is no limit.
type Usage struct {
	Used int `json:"used"`
	Most int `json:"most"`
}

// Organizations is a page of organizations, by id. Next is what after must be for the
// next page; empty on the last.
type Organizations struct {
	Organizations []Organization `json:"organizations"`
	Next          string         `json:"next,omitempty"`
}

const (
	DefaultOrganizationPage = 100
	MaxOrganizationPage     = 500
)

func (p *Purser) shownOrganization(r *http.Request, o pay.Organization) (Organization, error) {
	u, err := p.Books.Usage(r.Context(), o.ID)
	if err != nil {
		return Organization{}, failure(err)
	}
	if !p.Books.HasPlans() {
		u.Plan.Keys, u.Plan.Wallets, u.Plan.Payments = 0, 0, 0
	}
	return Organization{
		ID: o.ID, Plan: u.Plan.Name, Created: o.Created, Keys: Usage{u.Keys, u.Plan.Keys},
		Wallets: Usage{u.Wallets, u.Plan.Wallets}, Payments: Usage{u.Payments, u.Plan.Payments},
	}, nil
}

// organizations lists them: GET /purser/organizations?after=&limit=.
func (h *Handler) organizations(w http.ResponseWriter, r *http.Request) error {
	limit, err := pageLimit(r.URL.Query(), DefaultOrganizationPage, MaxOrganizationPage)
	if err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	list, err := p.Books.Organizations(r.Context(), r.URL.Query().Get("after"), limit+1)
	if err != nil {
		return failure(err)
	}
	page := Organizations{Organizations: []Organization{}}
	if len(list) > limit {
		list = list[:limit]
		page.Next = list[limit-1].ID
	}
	for _, o := range list {
		shown, err := p.shownOrganization(r, o)
		if err != nil {
			return err
		}
		page.Organizations = append(page.Organizations, shown)
	}
	return writeBody(w, http.StatusOK, page)
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

// prepare makes the organization that somebody will have when they sign in, so that there can
// be something in it by then. It is found again by issuer and subject.
func (h *Handler) prepare(w http.ResponseWriter, r *http.Request) error {
	var who NewAccount
	if err := readBody(w, r, &who); err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	a, first, err := p.Books.SignIn(r.Context(), pay.Identity(who))
	if err != nil {
		return failure(err)
	}
	o, err := p.Books.Organization(r.Context(), a.OrganizationID)
	if err != nil {
		return failure(err)
	}
	shown, err := p.shownOrganization(r, o)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if first {
		status = http.StatusCreated
	}
	return writeBody(w, status, PreparedAccount{a.ID, shown})
}

// setPlan moves an organization to a plan: PUT /purser/organizations/{id}/plan.
func (h *Handler) setPlan(w http.ResponseWriter, r *http.Request) error {
	var want struct {
		Plan string `json:"plan"`
	}
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	o, err := p.Books.SetPlan(r.Context(), r.PathValue("id"), pay.PlanName(want.Plan))
	if err != nil {
		return failure(err)
	}
	shown, err := p.shownOrganization(r, o)
	if err != nil {
		return err
	}
	return writeBody(w, http.StatusOK, shown)
}

// linkKey claims a key for an organization: POST /purser/organizations/{id}/keys.
func (h *Handler) linkKey(w http.ResponseWriter, r *http.Request) error {
	var want struct {
		Key string `json:"key"`
	}
	if err := readBody(w, r, &want); err != nil {
		return err
	}
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer p.Leave()
	k, err := p.Books.LinkKey(r.Context(), r.PathValue("id"), want.Key)
	if err != nil {
		return failure(err)
	}
	return writeBody(w, http.StatusOK, shownKey(p.Payer, k))
}
