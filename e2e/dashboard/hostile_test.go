package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// TestWhatIsAnothersIsNotThere requests all objects of another organization, by every address and
// method. Each answer must equal the answer to an invented id: the same status, headers and bytes.
func TestWhatIsAnothersIsNotThere(t *testing.T) {
	h := newHouse(t)
	ada, bob := h.signIn("ada"), h.signIn("bob")
	agent, err := h.newKey("agent of bob")
	if err != nil {
		t.Fatal(err)
	}
	bob.post("/dashboard/keys/link", "key", agent.Key).is(t, http.StatusOK, "Key linked")
	if err := h.buy(agent.Key, "secret-task", h.world.SellerURL()+"/weather"); err != nil {
		t.Fatal(err)
	}
	key := bob.ids("/dashboard/wallets", "keys")[0]
	wallet, payment := bob.ids("/dashboard/wallets", "wallets")[0], bob.ids("/dashboard/payments", "payments")[0]
	event := bob.eventID(t)
	const nobodys = "01900000-0000-7000-8000-000000000000"
	for _, c := range []struct{ method, path, id, form string }{
		{"GET", "/dashboard/keys/ID", key, ""},
		{"HEAD", "/dashboard/keys/ID", key, ""},
		{"POST", "/dashboard/keys/ID/reveal", key, ""},
		{"POST", "/dashboard/keys/ID/pause", key, ""},
		{"POST", "/dashboard/keys/ID/resume", key, ""},
		{"GET", "/dashboard/keys/ID/revoke", key, ""},
		{"POST", "/dashboard/keys/ID/revoke", key, ""},
		{"GET", "/dashboard/audit?key=ID", key, ""},
		{"GET", "/dashboard/wallets/ID", wallet, ""},
		{"GET", "/dashboard/wallets/ID?balance=now", wallet, ""},
		{"GET", "/dashboard/wallets/ID/balance", wallet, ""},
		{"GET", "/dashboard/wallets/ID/delete", wallet, ""},
		{"POST", "/dashboard/wallets/ID/delete", wallet, "confirm=" + agent.Wallet},
		{"POST", "/dashboard/wallets", key, "key=ID&network=base"},
		{"GET", "/dashboard/payments/ID", payment, ""},
		{"GET", "/dashboard/spend?key=ID", key, ""},
		{"GET", "/dashboard/spend.csv?key=ID", key, ""},
		{"GET", "/dashboard/spend?before=ID", event, ""},
		{"GET", "/dashboard/spend?before=ID", payment, ""},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			ask := func(id string) page {
				var form url.Values
				if c.method == "POST" {
					form, _ = url.ParseQuery(strings.ReplaceAll(c.form, "ID", id))
				}
				return ada.send(c.method, h.url(strings.ReplaceAll(c.path, "ID", id)), form)
			}
			theirs, none := ask(c.id), ask(nobodys)
			if none.status != http.StatusNotFound {
				t.Fatalf("an id that does not exist gets %d", none.status)
			}
			if theirs.status != none.status || strings.ReplaceAll(theirs.body, c.id, nobodys) != none.body {
				t.Errorf("another's: %d, nobody's: %d\n%s\n---\n%s", theirs.status, none.status, theirs.body, none.body)
			}
			theirs.header.Del("Date")
			none.header.Del("Date")
			if !maps.EqualFunc(theirs.header, none.header, slices.Equal) {
				t.Errorf("headers differ:\n%v\n%v", theirs.header, none.header)
			}
		})
	}
	// They are there for the one whose they are, and nothing happened to them.
	bob.get("/dashboard/wallets/"+wallet).is(t, http.StatusOK, agent.Wallet)
	bob.get("/dashboard/payments/"+payment).is(t, http.StatusOK, "secret-task")
	for _, path := range []string{"/dashboard/", "/dashboard/spend", "/dashboard/payments", "/dashboard/keys", "/dashboard/wallets", "/dashboard/spend.csv", "/dashboard/spend?task=secret-task"} {
		if p := ada.get(path); p.status != http.StatusOK || strings.Contains(p.body, payment) || strings.Contains(p.body, key) || strings.Contains(p.body, agent.Wallet) {
			t.Errorf("%s shows something of another organization", p)
		}
	}
}

// eventID returns the id of the visitor's only spend event.
func (v *visitor) eventID(t *testing.T) string {
	t.Helper()
	var id string
	process.Eventually(t, 10*time.Second, func() string {
		lines := strings.Split(v.get("/dashboard/spend.csv").body, "\n")
		if len(lines) < 2 || len(lines[1]) < 36 {
			return fmt.Sprint("no event in ", lines)
		}
		id = lines[1][:36]
		return ""
	})
	return id
}

// TestStrangers asks for every page without a session, with one that was made up, or from another site.
func TestStrangers(t *testing.T) {
	h := newHouse(t)
	ada := h.signIn("ada")
	id, secret := ada.newKey("mine")
	real := ada.cookie(t)
	direct := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, path string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, h.url(path), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
			req.Header.Set(header[i], header[i+1])
		}
		res, err := direct.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	pages := []string{
		"/dashboard/", "/dashboard/live", "/dashboard/keys", "/dashboard/keys/" + id, "/dashboard/wallets", "/dashboard/spend", "/dashboard/spend.csv",
		"/dashboard/payments", "/dashboard/settings", "/dashboard/audit", "/dashboard/keys/" + id + "/revoke", "/dashboard/nothing", "/dashboard//keys", "/dashboard/keys/../settings", "/dashboard/%6beys", "/dashboard/assets/../keys",
		"/dashboard/keys/%2e%2e/settings", "/dashboard",
	}
	t.Run("no session", func(t *testing.T) {
		other := strings.Repeat("A", len(real))
		for name, cookie := range map[string]string{
			"no cookie": "", "an empty one": "purser=", "one that was made up": "purser=" + other, "a piece of one": "purser=" + real[:len(real)-1],
			"one with another end": "purser=" + real[:len(real)-1] + string(real[len(real)-1]^1), "the cookie of https": "__Host-purser=" + real,
			"a long one": "purser=" + strings.Repeat("x", 5000), "another name": "session=" + real,
		} {
			for _, path := range pages {
				res := ask("GET", path, "Cookie", cookie)
				to := res.Header.Get("Location")
				// Some of these paths are cleaned first.
				if res.StatusCode/100 != 3 || !strings.HasPrefix(to, "/dashboard") || strings.HasPrefix(to, "//") {
					t.Errorf("%s: %s gets a %d to %q", name, path, res.StatusCode, to)
				}
			}
			for _, path := range []string{"/dashboard/keys", "/dashboard/keys/" + id + "/reveal", "/dashboard/keys/" + id + "/pause", "/dashboard/keys/" + id + "/revoke", "/dashboard/wallets", "/dashboard/keys/link"} {
				if res := ask("POST", path, "Cookie", cookie); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "/dashboard/sign-in") {
					t.Errorf("%s: POST %s gets a %d", name, path, res.StatusCode)
				}
			}
		}
		if res := ask("GET", "/dashboard/live", "HX-Request", "true"); res.StatusCode != http.StatusUnauthorized || res.Header.Get("HX-Redirect") == "" {
			t.Errorf("a script without a session gets a %d", res.StatusCode)
		}
	})
	t.Run("another site", func(t *testing.T) {
		before := len(ada.ids("/dashboard/keys", "keys"))
		for _, path := range []string{
			"/dashboard/keys", "/dashboard/keys/link", "/dashboard/keys/" + id + "/reveal", "/dashboard/keys/" + id + "/pause", "/dashboard/keys/" + id + "/resume",
			"/dashboard/keys/" + id + "/revoke", "/dashboard/wallets", "/dashboard/sign-out", "/dashboard/sign-out-everywhere", "/dashboard/sign-in",
		} {
			for _, header := range [][]string{
				{"Sec-Fetch-Site", "cross-site"},
				{"Sec-Fetch-Site", "same-site"},
				{"Origin", "https://evil.example"},
				{"Origin", "null"},
				{"Origin", "http://127.0.0.1:1"},
				{"Sec-Fetch-Site", "cross-site", "Origin", h.url("")},
			} {
				res := ask("POST", path, append(header, "Cookie", "purser="+real, "Content-Type", "application/x-www-form-urlencoded")...)
				if res.StatusCode != http.StatusForbidden {
					t.Errorf("POST %s with %v gets a %d", path, header, res.StatusCode)
				}
			}
		}
		if after := len(ada.ids("/dashboard/keys", "keys")); after != before {
			t.Errorf("%d keys, %d before", after, before)
		}
		// A name of another site that leads here.
		if res := ask("GET", "/dashboard/keys/"+id, "Host", "rebound.example", "Cookie", "purser="+real); res.StatusCode == http.StatusOK {
			t.Error("the dashboard answers to any name")
		}
	})
	t.Run("frames and kinds", func(t *testing.T) {
		for _, path := range pages {
			res := ask("GET", path, "Cookie", "purser="+real)
			csp := res.Header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "script-src 'self'"} {
				if !strings.Contains(csp, want) {
					t.Errorf("%s: its policy is %q", path, csp)
				}
			}
			if strings.Contains(csp, "unsafe") || res.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(res.Header.Get("Cache-Control"), "no-store") {
				t.Errorf("%s: %v", path, res.Header)
			}
		}
	})
	if strings.Contains(h.purser.Output.String(), secret) || strings.Contains(h.purser.Output.String(), real) {
		t.Error("a key or a session is in the log")
	}
}

// cookie is the value of a visitor's session cookie.
func (v *visitor) cookie(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(v.house.url("/dashboard/"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.client.Jar.Cookies(at) {
		if c.Name == "purser" {
			return c.Value
		}
	}
	t.Fatal("no session cookie")
	return ""
}

// TestProviderThatIsDown stops the identity provider. A visitor with a session goes on. A visitor
// without one gets an explanation, and can sign in as soon as the provider is back.
func TestProviderThatIsDown(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			h := newHouse(t)
			var ada *visitor
			if known {
				ada = h.signIn("ada")
			}
			if err := h.provider.Stop(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if known { // the pages need no provider, and purser itself less
				ada.get("/dashboard/").is(t, http.StatusOK, "Overview")
			} else {
				p := h.stranger().get("/dashboard/keys")
				p.is(t, http.StatusServiceUnavailable, "The identity provider does not answer")
				if p.header.Get("Retry-After") == "" || strings.Contains(p.body, h.issuer()) {
					t.Errorf("%v\n%s", p.header, p.body)
				}
			}
			if _, err := h.newKey("made meanwhile"); err != nil {
				t.Errorf("the API without a provider: %v", err)
			}
			h.startProvider()
			process.Eventually(t, 30*time.Second, func() string { // purser leaves a provider that failed alone for seconds
				if p := h.stranger().get("/dashboard/"); p.status != http.StatusOK {
					time.Sleep(time.Second) // sign-ins are bounded
					return p.String()
				}
				return ""
			})
			h.signIn("carol").get("/dashboard/").is(t, http.StatusOK, "carol@example.com")
		})
	}
}

// TestProviderThatFailsOnTheWay takes the provider away between its form and purser's question for the token.
func TestProviderThatFailsOnTheWay(t *testing.T) {
	h := newHouse(t)
	v := h.stranger()
	form := v.get("/dashboard/")
	var callback *url.URL
	v.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/dashboard/callback" {
			callback = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	v.logIn(form, "ada")
	if callback == nil {
		t.Fatal("the provider does not send anybody back")
	}
	if err := h.provider.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	v.client.CheckRedirect = nil
	v.send("GET", callback.String(), nil).is(t, http.StatusServiceUnavailable, "The identity provider does not answer")
	h.startProvider()
	// The code is spent, and so is the attempt.
	if p := v.send("GET", callback.String(), nil); p.status != http.StatusBadRequest || strings.Contains(p.body, "Overview</h1>") {
		t.Errorf("a callback that was answered: %s", p)
	}
	h.signIn("ada")
}

// TestLabelsAndAddresses puts markup into every text from outside that pages show.
func TestLabelsAndAddresses(t *testing.T) {
	h := newHouse(t)
	ada := h.signIn("ada")
	const markup = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`
	id, _ := ada.newKey(markup)
	agent, err := h.newKey(`=cmd|' /C calc'!A0 ` + markup)
	if err != nil {
		t.Fatal(err)
	}
	ada.post("/dashboard/keys/link", "key", agent.Key).is(t, http.StatusOK, "Key linked")
	if err := h.buy(agent.Key, "task", h.world.SellerURL()+`/weather?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&x='"><b>`); err != nil {
		t.Fatal(err)
	}
	payment := ada.ids("/dashboard/payments", "payments")[0]
	for _, path := range []string{
		"/dashboard/", "/dashboard/keys", "/dashboard/keys/" + id, "/dashboard/wallets", "/dashboard/spend", "/dashboard/payments", "/dashboard/payments/" + payment,
		"/dashboard/spend?host=" + url.QueryEscape(markup), "/dashboard/spend?task=" + url.QueryEscape(markup), "/dashboard/spend?from=" + url.QueryEscape(markup),
		"/dashboard/payments?state=" + url.QueryEscape(markup), "/dashboard/" + url.PathEscape(markup), "/dashboard/keys/" + url.PathEscape(markup),
		"/dashboard/sign-in?out=" + url.QueryEscape(markup), "/dashboard/?days=" + url.QueryEscape(markup),
		"/dashboard/callback?state=" + url.QueryEscape(markup) + "&error=" + url.QueryEscape(markup),
	} {
		p := ada.get(path)
		if strings.Contains(p.body, "<script>alert") || strings.Contains(p.body, "<img src=x") || strings.Contains(p.body, `"><b>`) || p.status >= 500 {
			t.Errorf("%s: %d\n%s", path, p.status, p.body)
		}
	}
	var csv string
	process.Eventually(t, 10*time.Second, func() string { // the event is written a moment after the answer
		if csv = ada.get("/dashboard/spend.csv").body; strings.Count(csv, "\n") < 2 {
			return "the export has no event"
		}
		return ""
	})
	if !strings.Contains(csv, `'=cmd|`) || strings.Contains(csv, `,=cmd|`) || strings.Contains(csv, `,"=cmd|`) {
		t.Errorf("a formula in the export:\n%s", csv)
	}
}

// TestPlanIsFull goes to the limits of a plan, through the pages.
func TestPlanIsFull(t *testing.T) {
	h := newHouse(t)
	ada, bob, eve := h.signIn("ada"), h.signIn("bob"), h.signIn("eve")
	first := ada.ids("/dashboard/keys", "keys")[0]
	free, err := h.newKey("of nobody")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := h.newKey("of bob")
	if err != nil {
		t.Fatal(err)
	}
	bob.post("/dashboard/keys/link", "key", taken.Key).is(t, http.StatusOK, "Key linked")

	_, own := eve.newKey("second")
	for key, want := range map[string]struct {
		status int
		says   string
	}{
		"pk_nobody":        {http.StatusUnprocessableEntity, "No key with this value exists here"},
		"":                 {http.StatusUnprocessableEntity, "No key with this value exists here"},
		"<b>" + free.Key:   {http.StatusUnprocessableEntity, "No key with this value exists here"},
		taken.Key:          {http.StatusConflict, "This key belongs to another organization"},
		own:                {http.StatusConflict, "This key is yours already"},
		" " + own + "\r\n": {http.StatusConflict, "This key is yours already"},
	} {
		p := eve.post("/dashboard/keys/link", "key", key)
		p.is(t, want.status, want.says)
		if key != "" && strings.Contains(p.body, strings.TrimSpace(key)) {
			t.Error("a pasted key is shown again")
		}
	}
	for n := 0; ; n++ { // keys cannot be guessed
		p := eve.post("/dashboard/keys/link", "key", fmt.Sprint("pk_", n))
		if p.status == http.StatusTooManyRequests && p.header.Get("Retry-After") != "" {
			break
		}
		if n == 60 {
			t.Fatal("one can go on trying keys")
		}
	}
	ada.newKey("second")
	ada.newKey("third")
	ada.post("/dashboard/keys", "label", "fourth").is(t, http.StatusTooManyRequests, "API key limit reached for your plan")
	ada.post("/dashboard/keys/link", "key", free.Key).is(t, http.StatusTooManyRequests, "API key limit reached for your plan")
	ada.post("/dashboard/keys/link", "key", taken.Key).is(t, http.StatusConflict, "This key belongs to another organization")
	for range 3 {
		ada.post("/dashboard/wallets", "key", first, "network", "base").is(t, http.StatusOK, "Wallet created")
	}
	full := ada.post("/dashboard/wallets", "key", first, "network", "base")
	full.is(t, http.StatusTooManyRequests, "Wallet limit reached for your plan")
	if !strings.Contains(full.body, upgradeURL) {
		t.Errorf("no way to a larger plan:\n%s", full.body)
	}
	if n, m := len(ada.ids("/dashboard/keys", "keys")), len(ada.ids("/dashboard/wallets", "wallets")); n != 3 || m != 3 {
		t.Errorf("%d keys and %d wallets, want 3 and 3", n, m)
	}
	h.setPlan(ada.org, "developer")
	ada.post("/dashboard/keys/link", "key", free.Key).is(t, http.StatusOK, "Key linked")
	ada.post("/dashboard/wallets", "key", first, "network", "base").is(t, http.StatusOK, "Wallet created")
}
