package dashboard_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// An operator sees on every page what no other visitor sees but its owner.
func TestOperatorsSeeAllOrganizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve, op := w.person("ada"), w.person("eve"), w.operates()
	made, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "the operator's own", Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	free, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "nobody's yet"})
	if err != nil {
		t.Fatal(err)
	}
	ofAll := map[string]*struct {
		key     pay.Key
		wallet  pay.Wallet
		payment *pay.Payment
	}{"adas": {key: ada.key}, "eves": {key: eve.key}, "operators": {key: made}, "nobodys": {key: free}}
	for name, of := range ofAll {
		of.wallet = w.wallet(of.key, 5_000_000)
		of.payment = w.buy(of.key, "https://only."+name+".example/report", name, "10000")
	}
	for _, of := range ofAll {
		for _, path := range []string{
			"/dashboard/keys/" + of.key.ID, "/dashboard/wallets/" + of.wallet.ID, "/dashboard/payments/" + of.payment.ID,
			"/dashboard/spend?key=" + of.key.ID, "/dashboard/audit?key=" + of.key.ID, "/dashboard/wallets/" + of.wallet.ID + "/delete",
			"/dashboard/keys/" + of.key.ID + "/revoke", "/dashboard/spend.csv?key=" + of.key.ID,
		} {
			op.get(path).is(http.StatusOK)
		}
		op.get("/dashboard/keys").is(200, of.key.ID)
		op.get("/dashboard/wallets").is(200, of.wallet.ID)
		op.get("/dashboard/payments").is(200, of.payment.ID)
		op.get("/dashboard/").is(200, of.payment.ID)
	}
	for name := range ofAll {
		site := "only." + name + ".example"
		op.get("/dashboard/spend").is(200, site)
		op.get("/dashboard/spend.csv").is(200, site)
		op.get("/dashboard/").is(200, site, "0.04", "Operator root")
	}
	op.get("/dashboard/keys").is(200, ada.account.OrganizationID, ">operator<", ">unclaimed<").without("of your plan", "Link an existing key")
	op.get("/dashboard/settings").is(200, "Operator", "purser 1.2.3", "purser dashboard", "root").without("Plan</h2>")
	op.get("/dashboard/keys/" + nobodys).is(http.StatusNotFound)

	// The others see what they saw before.
	for _, path := range []string{"/dashboard/", "/dashboard/keys", "/dashboard/wallets", "/dashboard/spend", "/dashboard/spend.csv", "/dashboard/payments", "/dashboard/audit"} {
		eve.get(path).is(200).without("adas.example", "operators.example", "nobodys.example", ada.key.ID, made.ID, free.ID, "own</a>")
	}
	for _, id := range []string{made.ID, free.ID} {
		eve.get("/dashboard/keys/" + id).is(http.StatusNotFound)
	}
}

// Someone without an organization sees nothing: not what belongs to no organization either.
func TestNoOrganizationIsNotAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	free, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "nobody's yet"})
	if err != nil {
		t.Fatal(err)
	}
	wallet := w.wallet(free, 5_000_000)
	paid := w.buy(free, "https://only.nobodys.example/report", "demo", "10000")
	stray := w.person("ada")
	stray.account.OrganizationID = ""
	for _, path := range []string{"/dashboard/keys", "/dashboard/wallets", "/dashboard/spend", "/dashboard/payments", "/dashboard/audit"} {
		stray.get(path).is(200).without(free.ID, wallet.ID, paid.ID, "nobodys.example")
	}
	for _, path := range []string{"/dashboard/keys/" + free.ID, "/dashboard/wallets/" + wallet.ID, "/dashboard/payments/" + paid.ID, "/dashboard/spend?key=" + free.ID, "/dashboard/audit?key=" + free.ID} {
		stray.get(path).is(http.StatusNotFound)
	}
}

// The audit names the operator for an operator's changes, and tells them from those by commands.
func TestOperatorsChangeThings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, op := w.person("ada"), w.operates()
	to := op.post("/dashboard/keys", "label", "research").is(http.StatusSeeOther).header.Get("Location")
	page := op.get(to).is(200, "no copy is kept", "Your new key", "research").without("Reveal the key")
	secret := regexp.MustCompile(`pk_[\w-]{43}`).FindString(page.body)
	k, err := w.books.KeyBySecret(t.Context(), secret)
	if err != nil || !k.Operator || k.Claimed() || k.Label != "research" || !strings.HasSuffix(to, k.ID) {
		t.Fatalf("made %+v, %v", k, err)
	}
	if wallets, err := w.books.ListWallets(t.Context(), k); err != nil || len(wallets) != 1 {
		t.Errorf("wallets: %v, %v", wallets, err)
	}
	op.post(to + "/reveal").is(http.StatusConflict)
	op.get("/dashboard/keys").is(200).without(">shared<")
	op.post("/dashboard/keys", "label", "from the same wallet")
	op.get("/dashboard/keys").is(200, ">shared<")

	// An operator resumes what an operator has paused, and the owner cannot.
	path := "/dashboard/keys/" + ada.key.ID
	op.post(path + "/pause").to(path)
	ada.post(path + "/resume").is(http.StatusConflict)
	op.get(path).is(200, "Resume key")
	ada.get(path).is(200).without("Resume key")
	op.post(path + "/resume").to(path)
	ada.get("/dashboard/audit").is(200, "Key paused", "Key resumed", "the operator").without("root", "research")
	op.get("/dashboard/audit").is(200, "Key paused", "operator root on the dashboard", "research")
	entries, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{Limit: 10})
	if err != nil || len(entries) == 0 || entries[0].By != (pay.Actor{Kind: pay.ActorOperator, ID: "root on the dashboard"}) {
		t.Errorf("audit: %+v, %v", entries, err)
	}

	// For linking there is no organization, and secrets need a recent sign-in.
	op.post("/dashboard/keys/link", "key", secret).is(http.StatusNotFound)
	op.auth = w.clock.now().Add(-16 * time.Minute)
	op.post(path + "/reveal").to("/dashboard/sign-in?again=1&return=" + url.QueryEscape(path))
	op.post(path + "/revoke").to("/dashboard/sign-in?again=1&return=" + url.QueryEscape(path+"/revoke"))
	op.auth = w.clock.now()
	op.post(path + "/reveal").to(path)
	op.get(path).is(200, "pk_")
}
