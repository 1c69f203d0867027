package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// An agent changes nothing on the dashboard, whatever it reaches over the network or through the
// proxy, and no page of another site does with the operator's cookie. Other ways are tested elsewhere:
//
//   - the admin endpoint through the proxy: TestProxyDoesNotReachTheAdminEndpoint, TestProxyMakesNoDashboardLink
//   - the admin endpoint by another name, a form or a page: TestAdminNames
//   - purser as the sidecar's upstream: TestUpstreamRefuses
//   - names that change their address: guard.TestRebinding
//   - roles: dashboard.TestRoles
//
// A program that has the operator's cookie acts as the operator. No test is about that.
func TestAnAgentChangesNothing(t *testing.T) {
	s := newSite(t)
	s.bind, s.route, s.app = "127.0.0.1 [::1]", "purser_proxy\n\t\tpurser_dashboard\n\t\tpurser_api", "standin loopback"
	key := "pk_" + strings.Repeat("agent", 8)
	t.Setenv("PURSER_KEY", key)
	socket := t.TempDir() + "/admin.sock"
	mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600"))
	adminSend(t, socket, "POST", "/purser/exec", "application/json", `{}`)
	id := decodeKeys(t, socket)[0]
	_, listed := adminCall(t, socket, "GET", "/purser/wallets")
	_, wallet, _ := strings.Cut(listed, `"id":"`)
	if wallet, _, _ = strings.Cut(wallet, `"`); wallet == "" {
		t.Fatalf("no wallet: %s", listed)
	}

	// The operator is signed in, in a browser on this machine.
	operator := newBrowser(t)
	link := madeLink(t, socket)
	resp, err := operator.PostForm(s.url()+"/dashboard/link", url.Values{"link": {link.Fragment}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	page := s.url() + "/dashboard/keys/" + id
	if status, _, _ := get(t, operator, page); status != http.StatusOK {
		t.Fatalf("the operator sees the key: %d", status)
	}
	cookies := operator.Jar.Cookies(resp.Request.URL)

	held := heldPayment(t, id)
	posts := []string{
		"/dashboard/keys/" + id + "/pause", "/dashboard/keys/" + id + "/limits", "/dashboard/keys/" + id + "/revoke", "/dashboard/keys",
		"/dashboard/wallets/" + wallet + "/withdraw", "/dashboard/wallets/" + wallet + "/withdraw/send", "/dashboard/wallets/" + wallet + "/delete",
		"/dashboard/approvals/" + held, "/dashboard/approve/" + held,
	}
	form := url.Values{"answer": {"approve"}, "to": {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}, "amount": {"1"}, "order": {"x"}, "label": {"mine"}, "save": {"1"}, "daily_budget": {"1000000"}, "link": {"x"}, "_method": {"POST"}}
	send := func(c *http.Client, method, to string, change func(*http.Request)) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, to, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if change != nil {
			change(r)
		}
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err := c.Do(r)
		if err != nil {
			return // no connection, no change
		}
		defer resp.Body.Close()
		at := resp.Header.Get("Location")
		if method != http.MethodGet && resp.StatusCode < 400 && at != "/dashboard/" && !strings.HasPrefix(at, "/dashboard/sign-in") {
			t.Errorf("%s %s: %s, to %q", method, to, resp.Status, at)
		}
	}

	// The agent's own clients: without a session, with its key in every place, through the proxy with
	// the key and as the stand-in client of this machine.
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	withKey := func(r *http.Request) {
		r.Header.Set("X-Api-Key", key)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set(adminapi.OperatorHeader, "root")
		r.Header.Set("Origin", "http://"+r.URL.Host)
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		r.Header.Set("X-Forwarded-User", "root")
		r.AddCookie(&http.Cookie{Name: "purser", Value: strings.Repeat("A", 43)})
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]", "127.0.0.2", "[::ffff:127.0.0.1]", machine, "purser.invalid"} {
		at := fmt.Sprintf("http://%s:%d", host, s.port)
		for _, c := range []*http.Client{s.through(t, url.User(key)), s.through(t, nil), newBrowser(t)} {
			for _, path := range []string{posts[0], posts[1], posts[4], posts[7], posts[8]} {
				send(c, http.MethodPost, at+path, withKey)
			}
		}
		if got := connectTo(t, s, key, fmt.Sprintf("%s:%d", host, s.port)); got == http.StatusOK {
			t.Errorf("a tunnel to %s", host)
		}
	}
	// Its own names for purser's address.
	for _, name := range []string{"evil.example", "127.0.0.1.evil.example", "purser.example.com"} {
		send(newBrowser(t), http.MethodPost, s.url()+posts[0], func(r *http.Request) {
			withKey(r)
			r.Host = fmt.Sprintf("%s:%d", name, s.port)
			for _, c := range cookies { // a browser after a rebinding has none; and if it had
				r.AddCookie(c)
			}
		})
	}
	// Pages of other sites, in the operator's browser.
	for what, change := range map[string]func(*http.Request){
		"another origin":    func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"another port":      func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") },
		"the other name":    func(r *http.Request) { r.Header.Set("Origin", fmt.Sprintf("http://localhost:%d", s.port)) },
		"no origin to tell": func(r *http.Request) { r.Header.Set("Origin", "null") },
		"a sandboxed frame": func(r *http.Request) { r.Header.Set("Origin", "null"); r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another site":      func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"the same site":     func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"a site that says htm": func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.example")
			r.Header.Set("HX-Request", "true")
		},
	} {
		for _, path := range posts {
			if send(operator, http.MethodPost, s.url()+path, change); t.Failed() {
				t.Fatal(what)
			}
		}
	}
	// A link that the operator follows is a GET, whatever it says of itself.
	for _, path := range posts {
		send(operator, http.MethodGet, s.url()+path+"?_method=POST&daily_budget=1000000", func(r *http.Request) {
			for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
				r.Header.Set(name, http.MethodPost)
			}
		})
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, "OPTIONS", "PROPFIND"} {
		send(operator, method, s.url()+posts[0], func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
	}

	code, was := adminCall(t, socket, "GET", "/purser/audit")
	if code != http.StatusOK || strings.Contains(was, "dashboard") || strings.Contains(was, "paused") {
		t.Errorf("something was changed: %d %s", code, was)
	}
	if a, err := serving().home.store.Approval(t.Context(), held); err != nil || a.Answer != "" {
		t.Errorf("a payment was answered: %+v, %v", a, err)
	}
	// The same requests from the page itself do change something: the test can fail.
	approve, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+posts[7], strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	approve.Header.Set("Origin", s.url())
	approve.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if resp, err = operator.Do(approve); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if a, err := serving().home.store.Approval(t.Context(), held); err != nil || a.Answer != pay.Approved {
		t.Errorf("the operator's own answer: %s, %+v, %v", resp.Status, a, err)
	}
	ok, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+posts[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	ok.Header.Set("Origin", s.url())
	if resp, err = operator.Do(ok); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if _, now := adminCall(t, socket, "GET", "/purser/audit"); resp.StatusCode != http.StatusSeeOther || !strings.Contains(now, "on the dashboard") {
		t.Errorf("the operator's own: %s, %s", resp.Status, now)
	}
	order, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url()+posts[4], strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	order.Header.Set("Origin", s.url())
	order.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if resp, err = operator.Do(order); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode == http.StatusForbidden || !strings.Contains(string(text), "<h1>Withdraw") {
		t.Errorf("the operator's own order: %s, %v, %s", resp.Status, err, text)
	}
}

// decodeKeys returns the ids of all keys.
func decodeKeys(t *testing.T, socket string) (ids []string) {
	t.Helper()
	_, text := adminCall(t, socket, "GET", "/purser/keys")
	for _, part := range strings.Split(text, `"id":"`)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Fatalf("no keys: %s", text)
	}
	return ids
}

// connectTo asks the proxy for a tunnel, and returns the status. Through a tunnel that it opens, a
// POST must find no session either: the caller fails it anyway.
func connectTo(t *testing.T, s *site, key, authority string) int {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Bearer %s\r\n\r\n", authority, authority, key)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 1)
	return resp.StatusCode
}

// heldPayment makes a payment of a key wait for an approval, and returns the approval's id.
func heldPayment(t *testing.T, keyID string) string {
	t.Helper()
	now := time.Now().UTC()
	terms := pay.Terms{Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.Networks()[0].Assets[0].Address, PayTo: x402.EVMAddress([20]byte{7}), Amount: money.New(10_000)}
	id := uuid.Must(uuid.NewV7()).String()
	row := &pay.Payment{
		ID: id, KeyID: keyID, Door: policy.DoorProxy, Host: "api.example.com", Terms: terms, Currency: "USDC", Created: now, Identity: pay.HashOf(id), State: pay.Open,
		Authorization: x402.Authorization{Value: terms.Amount, Nonce: x402.Nonce(pay.HashOf(id)), ValidBefore: uint64(now.Add(time.Minute).Unix())},
	}
	a := &pay.Approval{
		ID: uuid.Must(uuid.NewV7()).String(), KeyID: keyID, Door: policy.DoorProxy, Host: "api.example.com", URL: "https://api.example.com/x", Terms: terms, Currency: "USDC",
		Purchase: pay.HashOf("purchase", id), Created: now, Expires: now.Add(time.Hour),
	}
	place := pay.Limit{Reservation: pay.Reservation{Counter: pay.PlaceCounter(keyID, now), Amount: money.New(1), Release: pay.ReleasePlace}}
	begun, err := serving().home.store.Begin(t.Context(), &pay.Begin{
		Now: now, Owner: "test", CallIdentity: pay.CallIdentity{KeyID: keyID, Identity: row.Identity},
		Judgement: pay.Judgement{Place: place, Policy: &policy.Policy{RequireApprovalAbove: policy.CapOf(money.Amount{})}}, Proposal: pay.Proposal{New: row, Approval: a},
	})
	if err != nil || begun.How != pay.Unapproved {
		t.Fatalf("%+v, %v", begun, err)
	}
	return a.ID
}
