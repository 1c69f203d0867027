package dashboard_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

const nobodys = "01890a5d-ac96-774b-bcce-b302099a8057" // an id that does not exist

// Every path with an id of another organization gets the answer of an unknown id, to the byte.
func TestAnotherOrganizationsIDsAreNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	ada.auth, eve.auth = w.clock.now(), w.clock.now()
	wallet := w.wallet(ada.key, 5_000_000)
	eves := w.wallet(eve.key, 5_000_000)
	payment := w.buy(ada.key, "https://only.adas.example/report", "demo", "10000")
	page, err := w.books.SpendIn(t.Context(), books.OfOrganization(ada.account.OrganizationID), pay.OrganizationSpendQuery{})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("ada's events: %v, %v", page, err)
	}
	event := page.Entries[0].ID
	held := w.asks(ada.key, "https://only.adas.example/dear", "900000")

	routes := []struct{ pattern, path, id, form string }{
		{"GET /dashboard/keys/{id}", "/dashboard/keys/{id}", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/reveal", "/dashboard/keys/{id}/reveal", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/pause", "/dashboard/keys/{id}/pause", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/resume", "/dashboard/keys/{id}/resume", ada.key.ID, ""},
		{"GET /dashboard/keys/{id}/limits", "/dashboard/keys/{id}/limits", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/limits", "/dashboard/keys/{id}/limits", ada.key.ID, "revision=0&max_payment=1&do=save"},
		{"POST /dashboard/keys/{id}/end-raise", "/dashboard/keys/{id}/end-raise", ada.key.ID, ""},
		{"GET /dashboard/keys/{id}/reissue", "/dashboard/keys/{id}/reissue", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/reissue", "/dashboard/keys/{id}/reissue", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/end-overlap", "/dashboard/keys/{id}/end-overlap", ada.key.ID, ""},
		{"GET /dashboard/keys/{id}/revoke", "/dashboard/keys/{id}/revoke", ada.key.ID, ""},
		{"POST /dashboard/keys/{id}/revoke", "/dashboard/keys/{id}/revoke", ada.key.ID, ""},
		{"GET /dashboard/wallets/{id}", "/dashboard/wallets/{id}", wallet.ID, ""},
		{"GET /dashboard/wallets/{id}/balance", "/dashboard/wallets/{id}/balance", wallet.ID, ""},
		{"GET /dashboard/wallets/{id}/deposits", "/dashboard/wallets/{id}/deposits", wallet.ID, ""},
		{"GET /dashboard/wallets/{id}/withdraw", "/dashboard/wallets/{id}/withdraw", wallet.ID, ""},
		{"POST /dashboard/wallets/{id}/withdraw", "/dashboard/wallets/{id}/withdraw", wallet.ID, "all=1&to=" + seller},
		{"POST /dashboard/wallets/{id}/withdraw/send", "/dashboard/wallets/{id}/withdraw/send", wallet.ID, "order=x"},
		{"GET /dashboard/wallets/{id}/withdrawn", "/dashboard/wallets/{id}/withdrawn?payment=" + payment.ID, wallet.ID, ""},
		{"GET /dashboard/wallets/{id}/delete", "/dashboard/wallets/{id}/delete", wallet.ID, ""},
		{"POST /dashboard/wallets/{id}/delete", "/dashboard/wallets/{id}/delete", wallet.ID, "confirm=" + wallet.Address.String()},
		{"GET /dashboard/payments/{id}", "/dashboard/payments/{id}", payment.ID, ""},
		{"GET /dashboard/approvals/{id}", "/dashboard/approvals/{id}", held.ID, ""},
		{"POST /dashboard/approvals/{id}", "/dashboard/approvals/{id}", held.ID, "answer=approve"},
		{"GET /dashboard/approvals", "/dashboard/approvals?before={id}", held.ID, ""},
		// Ids outside the path.
		{"POST /dashboard/wallets", "/dashboard/wallets", ada.key.ID, "key={id}"},
		{"GET /dashboard/spend", "/dashboard/spend?key={id}", ada.key.ID, ""},
		{"GET /dashboard/spend", "/dashboard/spend?before={id}", event, ""},
		{"GET /dashboard/audit", "/dashboard/audit?key={id}", ada.key.ID, ""},
		{"GET /dashboard/wallets/{id}/withdrawn", "/dashboard/wallets/" + eves.ID + "/withdrawn?payment={id}", payment.ID, ""},
		{"GET /dashboard/spend.csv", "/dashboard/spend.csv?key={id}", ada.key.ID, ""},
	}
	for _, p := range dashboard.Patterns() {
		if strings.Contains(p, "{id}") && !slices.ContainsFunc(routes, func(r struct{ pattern, path, id, form string }) bool { return r.pattern == p }) {
			t.Errorf("nothing is known of %s", p)
		}
	}
	ask := func(p *person, method, path, form, id string) seen {
		fields, _ := url.ParseQuery(strings.ReplaceAll(form, "{id}", id))
		if method == http.MethodGet {
			fields = nil
		}
		return p.do(method, strings.ReplaceAll(path, "{id}", id), fields, "HX-Request", "true")
	}
	for _, r := range routes {
		w.clock.advance(10 * time.Second) // posts are bounded
		method, _, _ := strings.Cut(r.pattern, " ")
		if method == http.MethodPost {
			w.clock.advance(7 * time.Second) // sixty are allowed a minute
		}
		theirs, nothing := ask(eve, method, r.path, r.form, r.id), ask(eve, method, r.path, r.form, nobodys)
		theirs.header.Del("Date") // a second may end between the two
		nothing.header.Del("Date")
		same := theirs.body == nothing.body && maps.EqualFunc(theirs.header, nothing.header, slices.Equal)
		if theirs.status != http.StatusNotFound || nothing.status != http.StatusNotFound || !same {
			t.Errorf("%s %s: another's id answers %d, an unknown one %d, or the pages differ", method, r.path, theirs.status, nothing.status)
		}
		for _, bad := range []string{"x", "..%2f..", strings.ToUpper(r.id), strings.Repeat("0", 3000), r.id + "%00"} {
			if got := ask(eve, method, r.path, r.form, bad); got.status != http.StatusNotFound && got.status != http.StatusBadRequest {
				t.Errorf("%s %s of %.40q answers %d", method, r.path, bad, got.status)
			}
		}
	}
	// The owner gets another answer, so the check above can fail.
	for _, r := range routes[:8] {
		if method, _, _ := strings.Cut(r.pattern, " "); method == http.MethodGet {
			ask(ada, method, r.path, r.form, r.id).is(http.StatusOK)
		}
	}
	eve.get("/dashboard/").is(200).without("adas.example", wallet.Address.String())
	eve.get("/dashboard/spend").is(200, "Nothing is spent yet").without("adas.example")
	eve.get("/dashboard/payments").is(200).without("adas.example")
	eve.get("/dashboard/approvals").is(200, "No approval was answered").without("adas.example", `>1<span class="sr"> waiting`)
	ada.get("/dashboard/approvals").is(200, "only.adas.example", `>1<span class="sr"> waiting`)
	if got, err := w.books.WalletsIn(t.Context(), books.OfOrganization(ada.account.OrganizationID)); err != nil || len(got) != 1 {
		t.Errorf("ada's wallets after eve: %v, %v", got, err)
	}
}

func TestNobodyGetsInWithoutTheGatesWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	for _, p := range dashboard.Patterns() {
		method, path, ok := strings.Cut(p, " ")
		if !ok {
			method, path = http.MethodGet, p
		}
		path = strings.NewReplacer("{id}", ada.key.ID, "{$}", "").Replace(path)
		got := ada.do(method, path, url.Values{}, "Test-Visitor", "")
		if got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/dashboard/sign-in") {
			t.Errorf("%s without a visitor answers %d", p, got.status)
		}
	}
}

func TestUnknownAddressesAndMethods(t *testing.T) {
	t.Parallel()
	ada := newWorld(t).person("ada")
	for _, path := range []string{"/dashboard/nothing", "/dashboard/keys/", "/dashboard/keys/link", "/dashboard/wallets/x/y", "/dashboard/payments?state=nonsense", "/dashboard/spend?before=x"} {
		ada.get(path).is(http.StatusNotFound, "There is nothing at this address")
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		ada.do(method, "/dashboard/keys", nil).is(http.StatusNotFound)
	}
	ada.post("/dashboard/settings").is(http.StatusNotFound)
	ada.get("/dashboard").to("/dashboard/")
	ada.do(http.MethodHead, "/dashboard/", nil).is(200)
}

func TestHowFailuresLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	ada.do(http.MethodPost, "/dashboard/keys", url.Values{"label": {strings.Repeat("x", 100<<10)}}).is(http.StatusBadRequest, "could not be read")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	got := ada.get("/dashboard/settings")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "Not available at the moment") {
		t.Errorf("with a closed store: %d %s", got.status, got.body)
	}
	got.without("store", "bbolt", "panic")
}

func TestMessagesAreSaidOnceAndOnlyOnesOfTheList(t *testing.T) {
	t.Parallel()
	ada := newWorld(t).person("ada")
	to := ada.post("/dashboard/wallets", "key", ada.key.ID).is(http.StatusSeeOther).header.Get("Location")
	ada.get(to).is(200, "Wallet created.")
	ada.get(to).is(200).without("Wallet created.")
	ada.get("/dashboard/", "Cookie", "purser-said=<script>").is(200).without("<script>alert", "purser-said")
}
