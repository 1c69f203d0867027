package session_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/perclient"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/sandbox/identity"
	"github.com/purserpay/purser/signer"
)

const (
	clientID     = "purser"
	clientSecret = "a secret/with+signs"
	publicURL    = "https://purser.example.com"
)

// world holds a provider, a payer on a real store, and a gate on loopback in front of a page.
type world struct {
	t        *testing.T
	provider *identity.Provider
	issuer   string
	asked    atomic.Int64 // requests to the provider
	accounts *counting
	gate     *session.Gate
	handler  http.Handler
	logs     bytes.Buffer
	ahead    atomic.Int64 // by which the clock is ahead
}

// counting counts the sessions that visitors make it write, and fails on command.
type counting struct {
	*books.Books
	sessions atomic.Int64
	down     atomic.Bool
}

func (c *counting) PutSession(ctx context.Context, s pay.Session) error {
	c.sessions.Add(1)
	return c.Books.PutSession(ctx, s)
}

func (c *counting) Session(ctx context.Context, id string) (pay.Session, error) {
	if c.down.Load() {
		return pay.Session{}, pay.ErrUnavailable
	}
	return c.Books.Session(ctx, id)
}

func newWorld(t *testing.T, change ...func(*session.Options)) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.provider, err = identity.New(identity.Options{
		ClientID: clientID, ClientSecret: clientSecret, PublicURL: publicURL, Now: w.now,
		User: identity.User{Subject: "user-1", Name: "Ada <b>Lovelace</b>", Email: "ada@example.com"},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		w.provider.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.issuer = server.URL
	w.provider.At(w.issuer)

	store := memory.New(memory.Options{Clock: w.now})
	kept, err := books.New(books.Options{Store: store, Wallets: signer.None{}, Clock: w.now})
	if err != nil {
		t.Fatal(err)
	}
	w.accounts = &counting{Books: kept}
	w.gate, w.handler = w.newGate(change...)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// newGate makes another gate with the same accounts, as a reload does.
func (w *world) newGate(change ...func(*session.Options)) (*session.Gate, http.Handler) {
	w.t.Helper()
	o := session.Options{
		Accounts: w.accounts, Issuer: w.issuer, ClientID: clientID, ClientSecret: clientSecret, LoopbackOnly: true, Clock: w.now,
		Logger: slog.New(slog.NewTextHandler(&w.logs, nil)), Peer: func(r *http.Request) netip.Addr { return perclient.Peer(r.RemoteAddr) },
	}
	for _, c := range change {
		c(&o)
	}
	g, err := session.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(g.Close)
	return g, g.Wrap(http.HandlerFunc(w.page), plain{})
}

// plain shows notices as text.
type plain struct{}

func (plain) Render(w http.ResponseWriter, _ *http.Request, status int, n session.Notice) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "%+v", n)
}

func (plain) Link(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "press the button") }

func (plain) Setup(w http.ResponseWriter, _ *http.Request, s session.Setup) { fmt.Fprintf(w, "%+v", s) }

// page names the visitor.
func (w *world) page(rw http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/dashboard/panic" {
		panic("pk_secret")
	}
	v, ok := session.From(r.Context())
	if !ok {
		fmt.Fprint(rw, "nobody at "+r.URL.Path)
		return
	}
	if v.Role == session.Operator && v.Account.ID == "" {
		fmt.Fprintf(rw, "operator at %s", r.URL.Path)
		return
	}
	if v.All {
		fmt.Fprintf(rw, "%s %s of all at %s as %s", v.Role, v.Account.Subject, r.URL.Path, v.Actor())
		return
	}
	fmt.Fprintf(rw, "%s of %s at %s as %s fresh=%v", v.Account.Subject, v.Account.OrganizationID, r.URL.Path, v.Role, v.Fresh(w.now()))
}

func public(o *session.Options) { o.PublicURL = publicURL }

// browser keeps cookies as browsers do, by name, for one host.
type browser struct {
	w       *world
	handler http.Handler
	origin  string
	cookies map[string]string
	last    map[string]*http.Cookie // as they were set last
}

func (w *world) browser(origin string) *browser {
	return &browser{w: w, handler: w.handler, origin: origin, cookies: map[string]string{}, last: map[string]*http.Cookie{}}
}

// local returns a browser on purser's machine.
func (w *world) local() *browser { return w.browser("http://127.0.0.1:8402") }

type answered struct {
	status int
	header http.Header
	text   string
}

func (a answered) location() string { return a.header.Get("Location") }

// ask makes a request. header holds names and values in turn. "Host" is one of the names.
func (b *browser) ask(method, path string, form url.Values, header ...string) answered {
	b.w.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	u, _ := url.Parse(b.origin)
	r.Host, r.TLS = u.Host, nil
	if u.Scheme == "https" && u.Hostname() == "localhost" { // Caddy's own TLS; elsewhere a proxy ends it
		r.TLS = &tls.ConnectionState{}
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	rec := httptest.NewRecorder()
	b.handler.ServeHTTP(rec, r)
	resp := rec.Result()
	body, _ := io.ReadAll(resp.Body)
	for _, c := range resp.Cookies() {
		if strings.HasPrefix(c.Name, "__Host-") && (!c.Secure || c.Path != "/" || c.Domain != "" || u.Scheme != "https") {
			continue // as browsers do
		}
		if c.Secure && u.Scheme != "https" {
			continue
		}
		b.last[c.Name] = c
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return answered{resp.StatusCode, resp.Header, string(body)}
}

func (b *browser) get(path string, header ...string) answered {
	b.w.t.Helper()
	return b.ask(http.MethodGet, path, nil, header...)
}

// toProvider begins a sign-in and returns the provider's URL.
func (b *browser) toProvider(path string) *url.URL {
	b.w.t.Helper()
	a := b.get(path)
	u, err := url.Parse(a.location())
	if err != nil || a.status != http.StatusSeeOther || !strings.HasPrefix(a.location(), b.w.issuer+"/authorize?") {
		b.w.t.Fatalf("%s: not sent to the provider: %d %s %s", path, a.status, a.location(), a.text)
	}
	return u
}

// press presses the provider's button and returns the path of the redirect back.
func (w *world) press(to *url.URL, answer string) string {
	w.t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.PostForm(to.String(), url.Values{"answer": {answer}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		body, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("provider: %s: %s", resp.Status, body)
	}
	return back.RequestURI()
}

// signIn does a whole sign-in.
func (b *browser) signIn(path string) answered {
	b.w.t.Helper()
	return b.get(b.w.press(b.toProvider(path), "yes"))
}

// mustSignIn does a whole sign-in and returns the token.
func (b *browser) mustSignIn() string {
	b.w.t.Helper()
	if a := b.signIn("/dashboard/sign-in"); a.status != http.StatusSeeOther || a.location() != "/dashboard/" {
		b.w.t.Fatalf("sign-in: %d %s %s\n%s", a.status, a.location(), a.text, &b.w.logs)
	}
	return b.token()
}

func (b *browser) token() string {
	if strings.HasPrefix(b.origin, "https") {
		return b.cookies["__Host-purser"]
	}
	return b.cookies["purser"]
}

// isIn reports whether a page is shown.
func (b *browser) isIn() bool {
	b.w.t.Helper()
	a := b.get("/dashboard/")
	in := a.status == http.StatusOK && strings.HasPrefix(a.text, "user-1 of org_")
	if !in && (a.status != http.StatusSeeOther || !strings.HasPrefix(a.location(), "/dashboard/sign-in")) {
		b.w.t.Fatalf("neither in nor out: %d %s", a.status, a.text)
	}
	return in
}
