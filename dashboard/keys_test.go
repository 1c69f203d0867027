package dashboard_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
)

var shownKey = regexp.MustCompile(`pk_[A-Za-z0-9_-]{40,}`)

func TestANewKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	path := ada.post("/dashboard/keys", "label", "  research <agent>  ").is(http.StatusSeeOther).header.Get("Location")
	if ada.do(http.MethodHead, path, nil); !strings.HasPrefix(path, "/dashboard/keys/") {
		t.Fatalf("leads to %q", path)
	}
	eve.get(path).is(http.StatusNotFound)
	page := ada.get(path, "Accept-Encoding", "gzip").is(200, "Your new key", "research &lt;agent&gt;", "Key created.")
	if page.header.Get("Content-Encoding") != "" || page.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a page with a key is packed or kept: %v", page.header)
	}
	secret := shownKey.FindString(page.body)
	k, err := w.payer.Resolve(t.Context(), secret)
	if err != nil || k.OrganizationID != ada.account.OrganizationID || k.Label != "research <agent>" {
		t.Fatalf("the key on the page is %+v, %v", k, err)
	}
	ada.get(path).is(200).without(secret, "Your new key")
	if strings.Contains(w.logs.String(), secret) {
		t.Error("the key is in the log")
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	ada := newWorld(t).person("ada")
	ada.post("/dashboard/keys", "label", strings.Repeat("ä", 200)).is(http.StatusSeeOther)
	ada.post("/dashboard/keys", "label", strings.Repeat("ä", 201)).is(http.StatusUnprocessableEntity, "at most 200 characters", `aria-invalid="true"`)
	ada.post("/dashboard/keys", "label", "\xff\xfe").is(http.StatusUnprocessableEntity)
	ada.get("/dashboard/keys").is(200, "2 of 3 of your plan")
}

func TestLinkingAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, eve := w.person("ada"), w.person("eve")
	loose, secret, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "from the API"})
	if err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/keys/link", "key", " "+secret+"\n").to("/dashboard/keys/" + loose.ID)
	ada.get("/dashboard/keys/"+loose.ID).is(200, "Key linked.", "from the API").without(secret)
	ada.post("/dashboard/keys/link", "key", secret).is(http.StatusConflict, "yours already").without(secret)
	eve.post("/dashboard/keys/link", "key", secret).is(http.StatusConflict, "belongs to another organization").without(secret, "from the API", loose.ID)
	for _, unknown := range []string{"", "pk_nobody_has_this_one", `"><script>alert(1)</script>`, strings.Repeat("k", 5000)} {
		ada.post("/dashboard/keys/link", "key", unknown).is(http.StatusUnprocessableEntity, "No key with this value").without("<script>alert", "pk_nobody")
	}
	if strings.Contains(w.logs.String(), secret) {
		t.Error("the key is in the log")
	}
}

func TestRevealingAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	path := "/dashboard/keys/" + ada.key.ID
	for _, auth := range []time.Time{{}, w.clock.now().Add(-15 * time.Minute)} {
		ada.auth = auth
		ada.get(path).is(200, "sign in again")
		ada.post(path + "/reveal").to("/dashboard/sign-in?again=1&return=" + strings.ReplaceAll(path, "/", "%2F"))
		if shownKey.MatchString(ada.get(path).body) {
			t.Fatal("shown without a recent sign-in")
		}
	}
	if strings.Contains(w.logs.String(), "revealed") {
		t.Fatal("logged what was not done")
	}
	ada.auth = w.clock.now().Add(-14 * time.Minute)
	ada.get(path + "/reveal").is(http.StatusNotFound) // a link must not reveal a key
	ada.post(path + "/reveal").to(path)
	secret := shownKey.FindString(ada.get(path).is(200).body)
	if k, err := w.payer.Resolve(t.Context(), secret); err != nil || k.ID != ada.key.ID {
		t.Fatalf("revealed %v, %v", k, err)
	}
	ada.get(path).is(200).without(secret)
	logs := w.logs.String()
	if !strings.Contains(logs, `"key":"`+ada.key.ID+`","by":"account `+ada.account.ID+`"`) || strings.Contains(logs, secret) {
		t.Errorf("the log lacks who revealed what, or has the key: %s", logs)
	}
}

// The page of a key names its parent and its children, and what the totals of its tasks leave.
func TestFamilyOnThePageOfAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bounded)
	ada := w.person("ada")
	total := policy.Budget{Total: &policy.Total{Amount: money.New(5_000_000), Until: time.Now().Add(time.Hour)}}
	if _, err := w.books.SetPolicy(t.Context(), ada.key.ID, &policy.Policy{Tasks: map[string]policy.Budget{"nightly": total}}); err != nil {
		t.Fatal(err)
	}
	child, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: "worker", OrganizationID: ada.key.OrganizationID, Parent: ada.key.ID})
	if err != nil {
		t.Fatal(err)
	}
	path := "/dashboard/keys/"
	ada.get(path+child.ID).is(200, "Parent", `href="`+path+ada.key.ID+`"`)
	ada.get(path+ada.key.ID).is(200, "Children", `href="`+path+child.ID+`"`, "Task nightly", "5 USDC left of 5 USDC since ", ", until ")
}
