package dashboard_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// as returns the operator's browser with another role.
func (p *person) as(role string) *person {
	other := *p
	other.role = role
	return &other
}

// Viewers and approvers see every page, and no POST but theirs does anything. A new route must be in
// this order of roles, too.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	wallet := w.wallet(ada.key, 5_000_000)
	payment := w.buy(ada.key, "https://api.example.com/report", "demo", "10000")
	seen := w.person("bob")
	path := strings.NewReplacer("{$}", "", "keys/{id}", "keys/"+ada.key.ID, "wallets/{id}", "wallets/"+wallet.ID, "payments/{id}", "payments/"+payment.ID)
	gets, posts := 0, 0
	for _, pattern := range dashboard.Patterns() {
		method, at, _ := strings.Cut(pattern, " ")
		if at == "" || strings.Contains(path.Replace(at), "{") {
			continue
		}
		act, fresh := dashboard.Need(pattern)
		for _, role := range []string{"viewer", "approver"} {
			visitor := seen.as(role)
			visitor.auth = w.clock.now()
			may := act == "see" || act == "approve" && role == "approver"
			got := visitor.do(method, path.Replace(at), nil)
			if may == (got.status == http.StatusForbidden) {
				t.Errorf("%s %s by a %s: %d", method, at, role, got.status)
			}
			if !may {
				got.is(http.StatusForbidden, "Your role does not allow this", "Nothing was changed")
			}
		}
		switch {
		case method == http.MethodGet:
			gets++
		case act == "see":
			t.Errorf("%s: every visitor may do it", pattern)
		default:
			posts++
		}
		if fresh { // the operator, too
			op := w.operates()
			op.auth = w.clock.now().Add(-15 * time.Minute)
			if got := op.do(method, path.Replace(at), nil); !strings.HasPrefix(got.header.Get("Location"), "/dashboard/sign-in?again=1&return=") {
				t.Errorf("%s by a session of 15 minutes: %d %q", pattern, got.status, got.header.Get("Location"))
			}
		}
	}
	if gets < 10 || posts < 8 {
		t.Errorf("tried %d GETs and %d POSTs", gets, posts)
	}
	if k, err := w.books.Key(t.Context(), ada.key.ID); err != nil || k.Revoked() || k.Paused != nil {
		t.Errorf("the key: %+v, %v", k, err)
	}
	all, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{Limit: 100})
	if err != nil || slices.ContainsFunc(all, func(e pay.AuditEntry) bool {
		return e.By.ID == seen.account.ID && e.OrganizationID != seen.account.OrganizationID
	}) {
		t.Errorf("bob has changed something: %+v, %v", all, err)
	}

	// A viewer sees no button for what a viewer may not do.
	for at, buttons := range map[string][]string{
		"/dashboard/keys":                 {"Create key", "Link key"},
		"/dashboard/keys/" + ada.key.ID:   {"Pause key", "Revoke key", "Reveal key", "Change limits"},
		"/dashboard/wallets":              {"Create wallet"},
		"/dashboard/wallets/" + wallet.ID: {"Delete this wallet", "Withdraw…"},
	} {
		seen.as("viewer").get(at).is(200).without(buttons...)
		if at != "/dashboard/keys" {
			w.operates().get(at).is(200, buttons...)
		}
	}
	// A role that this version does not know may do nothing.
	seen.as("archivist").get("/dashboard/keys").is(http.StatusForbidden)
	seen.as("archivist").post("/dashboard/keys").is(http.StatusForbidden)
}
