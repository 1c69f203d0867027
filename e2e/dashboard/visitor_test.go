package dashboard

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// visitor is a browser without a screen: it keeps cookies and follows redirects.
type visitor struct {
	t      *testing.T
	house  *house
	client *http.Client
	org    string
}

// page is an answer.
type page struct {
	status int
	header http.Header
	url    *url.URL // after redirects
	body   string
}

func (h *house) stranger() *visitor {
	jar, _ := cookiejar.New(nil) // never fails without options
	return &visitor{t: h.t, house: h, client: &http.Client{Jar: jar, Timeout: time.Minute}}
}

// signIn signs a user in at the identity provider.
func (h *house) signIn(name string) *visitor {
	h.t.Helper()
	v := h.stranger()
	if at := v.logIn(v.get("/dashboard/"), name); at.status != http.StatusOK || at.url.Path != "/dashboard/" {
		h.t.Fatalf("signed in, but at %s: %d\n%s", at.url, at.status, at.body)
	}
	v.org = v.fact("/dashboard/settings", "Organization")
	return v
}

// signInAgain signs the same user in once more, as pages ask for before they reveal a key or move money.
func (v *visitor) signInAgain(name string) {
	v.t.Helper()
	if at := v.logIn(v.get("/dashboard/sign-in?again=1"), name); at.status != http.StatusOK || at.url.Path != "/dashboard/" {
		v.t.Fatalf("signed in again, but at %s: %d\n%s", at.url, at.status, at.body)
	}
}

var formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// logIn fills in the provider's form.
func (v *visitor) logIn(form page, name string) page {
	v.t.Helper()
	action := formAction.FindStringSubmatch(form.body)
	if action == nil || form.url.Host != strings.TrimPrefix(v.house.issuer(), "http://") {
		v.t.Fatalf("no form to log in with at %s: %d\n%s", form.url, form.status, form.body)
	}
	return v.send("POST", html.UnescapeString(action[1]), url.Values{"prompt": {"login"}, "login": {name}, "password": {"any"}})
}

func (v *visitor) get(path string) page { v.t.Helper(); return v.send("GET", v.house.url(path), nil) }

func (v *visitor) post(path string, form ...string) page {
	v.t.Helper()
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	return v.send("POST", v.house.url(path), values)
}

// send makes a request as browsers do. header are names and values in turn.
func (v *visitor) send(method, address string, form url.Values, header ...string) page {
	v.t.Helper()
	var body io.Reader = http.NoBody
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(v.t.Context(), method, address, body)
	if err != nil {
		v.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return page{res.StatusCode, res.Header, res.Request.URL, string(text)}
}

// fact returns the text below a name on a page.
func (v *visitor) fact(path, name string) string {
	v.t.Helper()
	p := v.get(path)
	found := regexp.MustCompile(`<dt>` + regexp.QuoteMeta(name) + `</dt><dd[^>]*>([^<]*)`).FindStringSubmatch(p.body)
	if found == nil {
		v.t.Fatalf("%s says nothing of %q: %d\n%s", path, name, p.status, p.body)
	}
	return html.UnescapeString(found[1])
}

var listed = regexp.MustCompile(`<a [^>]*href="/dashboard/(keys|wallets|payments|approvals)/([0-9a-f-]{36})"`)

// ids returns the ids of the keys, wallets, payments or approvals that a page links to, each once.
func (v *visitor) ids(path, kind string) (list []string) {
	v.t.Helper()
	seen := map[string]bool{}
	for _, m := range listed.FindAllStringSubmatch(v.get(path).body, -1) {
		if m[1] == kind && !seen[m[2]] {
			seen[m[2]] = true
			list = append(list, m[2])
		}
	}
	return list
}

// secretOf reads the key that a page shows once.
var secretOf = regexp.MustCompile(`<code id="secret">([^<]+)</code>`)

// newKey makes a key on the page of keys.
func (v *visitor) newKey(label string) (id, secret string) {
	v.t.Helper()
	p := v.post("/dashboard/keys", "label", label)
	found := secretOf.FindStringSubmatch(p.body)
	if found == nil {
		v.t.Fatalf("no key on %s: %d\n%s", p.url, p.status, p.body)
	}
	return strings.TrimPrefix(p.url.Path, "/dashboard/keys/"), found[1]
}

// is fails unless a page has a status and says something.
func (p page) is(t *testing.T, status int, says string) {
	t.Helper()
	if p.status != status || !strings.Contains(p.body, html.EscapeString(says)) {
		t.Fatalf("%s: %d, want %d and %q\n%s", p.url, p.status, status, says, p.body)
	}
}

func (p page) String() string { return fmt.Sprintf("%d %s", p.status, p.url) }
