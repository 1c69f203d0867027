package dashboard_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
)

// everyPage requests every page of a visitor with a key, a wallet and a payment.
func everyPage(t *testing.T, p *person) map[string]seen {
	t.Helper()
	pages := map[string]seen{}
	paths := []string{
		"/dashboard/", "/dashboard/?days=90", "/dashboard/keys", "/dashboard/wallets", "/dashboard/spend", "/dashboard/payments", "/dashboard/settings", "/dashboard/audit", "/dashboard/approvals",
		"/dashboard/nothing", "/dashboard/spend?task=%3Cb%3E&from=x", "/dashboard/live?newest=0",
	}
	for list, more := range map[string][]string{"keys": {"/revoke", "/limits", "/reissue"}, "wallets": {"/delete", "/balance", "/withdraw", "/deposits", "?balance=now&deposits=now&fund=2.5"}, "payments": nil, "approvals": nil} {
		objects := regexp.MustCompile("/dashboard/"+list+"/[0-9a-f-]{36}").FindAllString(p.get("/dashboard/"+list).is(200).body, -1)
		slices.Sort(objects)
		objects = slices.Compact(objects)
		for _, one := range objects[:min(3, len(objects))] {
			paths = append(paths, one)
			for _, path := range more {
				paths = append(paths, one+path)
			}
		}
	}
	paths = append(paths, "/dashboard/audit?key="+p.key.ID)
	for _, path := range paths {
		if strings.Contains(path, "/live?") || strings.HasSuffix(path, "/balance") || strings.HasSuffix(path, "/deposits") {
			pages[path] = p.get(path, "HX-Request", "true")
		} else {
			pages[path] = p.get(path)
		}
	}
	return pages
}

// faults returns parts that no page may have: violations of the content security policy, and
// misleading links.
func faults(page string) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	z := html.NewTokenizer(strings.NewReader(page))
	script := false
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF { //nolint:errorlint // the tokenizer returns io.EOF itself
				add("not HTML: %v", z.Err())
			}
			return list
		case html.EndTagToken, html.CommentToken, html.DoctypeToken:
		case html.TextToken:
			if script && strings.TrimSpace(string(z.Text())) != "" {
				add("a script in the page")
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			script = tag.Data == "script"
			at := map[string]string{}
			for _, a := range tag.Attr {
				at[a.Key] = a.Val
				if strings.HasPrefix(a.Key, "on") || strings.HasPrefix(a.Key, "hx-on") || a.Key == "style" || a.Key == "srcdoc" {
					add("<%s %s>", tag.Data, a.Key)
				}
				if a.Key != "href" && a.Key != "src" && a.Key != "action" && a.Key != "hx-get" {
					continue
				}
				u, err := url.Parse(a.Val)
				away := err != nil || u.Scheme != "" || u.Host != ""
				if err != nil || away && u.Scheme != "http" && u.Scheme != "https" || away && tag.Data != "a" {
					add("<%s %s=%q>", tag.Data, a.Key, a.Val)
				} else if away && a.Val != upgradeURL && !strings.Contains(tag.String(), `rel="noopener noreferrer"`) {
					add("a link elsewhere without rel: %s", tag)
				}
			}
			switch tag.Data {
			case "style", "img", "iframe", "object", "embed", "base":
				add("<%s>", tag.Data)
			case "script":
				if at["src"] == "" {
					add("a script without src")
				}
			}
		}
	}
}

// Text from outside stays text on every page, and no page needs more than the policy allows.
func TestMarkupIsText(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'{{.}}`
	w := newWorld(t)
	ada := w.person(evil)
	ada.auth = w.clock.now()
	k, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: evil, OrganizationID: ada.account.OrganizationID})
	if err != nil {
		t.Fatal(err)
	}
	w.wallet(k, 50_000_000)
	for i, at := range []string{
		"https://api.example.com/" + evil, "javascript:alert(document.domain)//https://x", "JaVaScRiPt:alert(1)", "data:text/html,<script>alert(1)</script>", evil,
		"https://user:" + url.QueryEscape(evil) + "@api.example.com/", "//evil.example.com/x", "http://[::1]:1/\u202egpj.exe", "vbscript:x", "https://xn--" + evil, "",
	} {
		w.buy(k, at, "", fmt.Sprint(1000+i))
	}
	w.asks(k, "https://api.example.com/"+evil, "600000")
	w.asks(k, "javascript:alert(1)", "600001")
	w.chain.set(func(l *ledger) { l.unclear = true })
	_, _ = w.try(k, "https://api.example.com/open", "", "1")
	pages := everyPage(t, ada)
	if len(pages) < 15 {
		t.Fatalf("%d pages", len(pages))
	}
	for path, page := range pages {
		for _, fault := range faults(page.body) {
			t.Errorf("%s: %s", path, fault)
		}
		if strings.Contains(page.body, "\u202e") {
			t.Errorf("%s has marks that turn text around", path)
		}
	}
	if len(faults(`<p style="x" onclick=y><script>z</script><a href="javascript:x">a</a><a href="https://x.example">b</a><img src=x>`)) < 6 {
		t.Error("the faults of a bad page are not seen")
	}
}

// The first view of a page transfers a bounded number of compressed bytes.
func TestNoPageWeighsMoreThanItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 150_000
	w := newWorld(t)
	ada := w.person("ada")
	if _, err := w.books.SetPlan(t.Context(), ada.account.OrganizationID, pay.PlanAgency); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 1))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('!' + random.IntN(90))
		}
		return string(b)
	}
	keys := []pay.Key{ada.key}
	for len(keys) < 150 {
		k, _, err := w.books.CreateKey(t.Context(), books.KeyRequest{Label: noise(200), OrganizationID: ada.account.OrganizationID})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		w.wallet(k, 50_000_000)
	}
	for i := range 110 {
		host := fmt.Sprintf("https://%s.example.com/", strings.Repeat(string(rune('a'+i%26)), 60))
		w.buy(keys[i], host+url.PathEscape(noise(5000)), strings.Repeat("t", 60)+fmt.Sprint(i), fmt.Sprint(100_000+i))
	}
	sizes := map[string]int{}
	asset := regexp.MustCompile(`/dashboard/assets/[a-z.0-9]+`)
	heaviest := 0
	for path, page := range everyPage(t, ada) {
		weight := 0
		for _, part := range append(asset.FindAllString(page.body, -1), path) {
			if sizes[part] == 0 || part == path {
				sizes[part] = len(ada.get(part, "Accept-Encoding", "gzip", "HX-Request", "").body)
			}
			weight += sizes[part]
		}
		heaviest = max(heaviest, weight)
		if weight > budget {
			t.Errorf("%s weighs %d bytes", path, weight)
		}
	}
	t.Logf("the heaviest page weighs %d bytes", heaviest)
}

func TestAssets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	page := ada.get("/dashboard/")
	paths := regexp.MustCompile(`/dashboard/assets/([a-z]+)\.[0-9a-f]{12}\.(css|js|svg)`).FindAllString(page.body, -1)
	if len(paths) != 4 {
		t.Fatalf("assets of the page: %v", paths)
	}
	for _, path := range paths {
		plain := ada.get(path, "Accept-Encoding", "identity", "Test-Visitor", "").is(200)
		packed := ada.get(path, "Accept-Encoding", "br;q=1, gzip;q=0.5").is(200)
		if packed.header.Get("Content-Encoding") != "gzip" || packed.header.Get("Vary") != "Accept-Encoding" || plain.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: packing: %v", path, packed.header)
		}
		z, err := gzip.NewReader(strings.NewReader(packed.body))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, []byte(plain.body)) {
			t.Errorf("%s: packed and plain differ: %v", path, err)
		}
		if got := plain.header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
		if ada.get(path, "Accept-Encoding", "gzip;q=0").header.Get("Content-Encoding") != "" {
			t.Errorf("%s is packed for somebody who does not want it", path)
		}
	}
	for _, path := range []string{"app.css", "app.000000000000.css", "", "..%2fdashboard.go", "htmx.LICENSE"} {
		ada.get("/dashboard/assets/" + path).is(http.StatusNotFound)
	}
}

// The pages of package session have the same layout, and show text from providers as text.
func TestNotices(t *testing.T) {
	t.Parallel()
	var pages session.Pages
	newWorld(t, func(s *setup) { s.pages.Gate = keptPages{&pages} })
	request := httptest.NewRequest(http.MethodGet, "/dashboard/", nil)
	show := func(n session.Notice) seen {
		rec := httptest.NewRecorder()
		pages.Render(rec, request, 502, n)
		return seen{t: t, status: rec.Code, header: rec.Header(), body: rec.Body.String()}
	}
	show(session.Notice{Title: "Down", Text: "It is <down>.", Detail: `<script>alert(1)</script>`, Action: "Try again", ActionURL: "/dashboard/sign-in"}).
		is(502, "<h1>Down</h1>", "It is &lt;down&gt;.", "&lt;script&gt;", `href="/dashboard/sign-in"`).without("<script>alert")
	for _, bad := range []string{"javascript:alert(1)", "//evil.example.com", "data:text/html,x"} {
		show(session.Notice{Title: "x", Action: "Go", ActionURL: bad}).is(502).without(bad, "Go</a>")
	}
	rec := httptest.NewRecorder()
	pages.Setup(rec, request, session.Setup{
		RedirectURL: "https://purser.example.com/dashboard/callback", Placeholder: true,
		Variables: []session.Variable{{Name: "PURSER_OIDC_ISSUER", Meaning: "The provider.", Example: "https://id.example.com"}},
	})
	seen{t: t, status: rec.Code, body: rec.Body.String()}.is(200, "purser dashboard", "For a team", "https://purser.example.com/dashboard/callback", "PURSER_OIDC_ISSUER", "make sandbox", "Replace <code>purser.example.com")
}
