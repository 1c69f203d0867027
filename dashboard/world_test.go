package dashboard_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/dashboard"
	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

const (
	usdc       = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
	seller     = "0x1111111111111111111111111111111111111111"
	upgradeURL = "https://plans.example.com/up"
)

// store is the payer's store, in memory or on disk.
type store interface {
	pay.Store
	Close() error
}

// world is the dashboard over HTTP with a real signer and payer. A header names the visitor: the
// gate has its own tests.
type world struct {
	t     testing.TB
	url   string
	store store
	disk  *boltstore.DB // also the store of a world that is onDisk
	payer *pay.Payer
	books *books.Books
	chain *ledger
	clock *clock
	logs  *paytest.Log
}

type setup struct {
	pay   pay.Options
	disk  string // path of the store; "" means memory
	pages dashboard.Options
	mute  bool // without a chain
	// wallets wraps the wallet provider; nil: the local one is used as it is.
	wallets func(pay.Wallets) pay.Wallets
}

// onDisk keeps the store in a file, which boltfill can give a long history.
func onDisk(t testing.TB) func(*setup) {
	path := filepath.Join(t.TempDir(), "purser.db")
	return func(s *setup) { s.disk = path }
}

func newWorld(t testing.TB, change ...func(*setup)) *world {
	t.Helper()
	w := &world{t: t, clock: &clock{}, logs: &paytest.Log{}, chain: &ledger{balances: map[x402.Address]money.Amount{}, moved: map[x402.Nonce]string{}}}
	w.chain.now = w.clock.now
	w.clock.set(time.Now().UTC())
	log := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := setup{
		pay:   pay.Options{Clock: w.clock.now, Logger: log, Facilitator: w.chain, Chain: w.chain, Names: pay.Names{RPC: func(string) string { return "PURSER_RPC_URL" }}},
		pages: dashboard.Options{Clock: w.clock.now, Logger: log, Version: "1.2.3", UpgradeURL: upgradeURL, Gate: headerGate{}},
	}
	for _, c := range change {
		c(&s)
	}
	if s.mute {
		s.pay.Chain = nil
	}
	var err error
	w.store = memory.New(memory.Options{Clock: w.clock.now})
	if s.disk != "" {
		w.disk, err = boltstore.Open(t.Context(), boltstore.Options{
			Path: s.disk, MasterKey: vault.Given(vault.MasterKey{1}), Clock: w.clock.now, Logger: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		w.store = w.disk
	}
	t.Cleanup(func() { _ = w.store.Close() })
	s.pay.Store, s.pay.Wallets = w.store, signer.NewLocal(w.store)
	if s.wallets != nil {
		s.pay.Wallets = s.wallets(s.pay.Wallets)
	}
	made := paytest.NewWorld(t, s.pay)
	w.payer, w.books = made.Payer, made.Books
	s.pages.Payer, s.pages.Books = w.payer, w.books
	s.pages.OperatorKeys = books.OperatorKeys{Books: w.books, Network: "base", Log: log}
	h, err := dashboard.New(s.pages)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

// headerGate believes the visitor's name in a request.
type headerGate struct{}

func (headerGate) Wrap(next http.Handler, _ session.Pages) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id, org, ok := strings.Cut(r.Header.Get("Test-Visitor"), "/"); ok {
			v := session.Visitor{Role: session.Owner, Account: pay.Account{
				ID: id, OrganizationID: org, Identity: pay.Identity{Issuer: "https://id.example.com", Subject: id, Name: "Ada <b>L</b>", Email: "ada@example.com"},
				Created: time.Now(), SignedIn: time.Now(),
			}}
			if at, err := time.Parse(time.RFC3339Nano, r.Header.Get("Test-Auth-Time")); err == nil {
				v.AuthTime = at
			}
			v.Session = r.Header.Get("Test-Session")
			if role := session.Role(r.Header.Get("Test-Role")); role != "" {
				v.Role, v.All = role, role != session.Owner
			}
			if id == "operator" {
				v.Role, v.All, v.Account, v.Name = session.Operator, true, pay.Account{}, org
			}
			r = r.WithContext(session.WithVisitor(r.Context(), v))
		}
		next.ServeHTTP(w, r)
	})
}

// person is a visitor with a browser.
type person struct {
	*world
	account pay.Account
	key     pay.Key // the first key
	auth    time.Time
	session string
	role    string // "": an owner, or the operator
	client  *http.Client
}

func (w *world) person(name string) *person {
	w.t.Helper()
	a, _, err := w.books.SignIn(w.t.Context(), pay.Identity{Issuer: "https://id.example.com", Subject: name})
	if err != nil {
		w.t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	p := &person{world: w, account: a, client: &http.Client{
		Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	keys, err := w.books.KeysIn(w.t.Context(), books.OfOrganization(a.OrganizationID))
	if err != nil || len(keys) != 1 {
		w.t.Fatalf("keys of a new organization: %v, %v", keys, err)
	}
	p.key = keys[0]
	p.session, p.auth = p.signedIn("first"), w.clock.now()
	return p
}

// operates returns a person who came with a link of `purser dashboard`.
func (w *world) operates() *person {
	w.t.Helper()
	jar, _ := cookiejar.New(nil)
	return &person{
		world: w, account: pay.Account{ID: "operator", OrganizationID: "root"}, auth: w.clock.now(), session: "of an operator",
		client: &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// signedIn returns a session of an account. The store knows it.
func (p *person) signedIn(name string) string {
	p.t.Helper()
	sum := sha256.Sum256([]byte(p.account.ID + name))
	s := pay.Session{ID: hex.EncodeToString(sum[:]), Data: []byte("{}"), Expires: p.clock.now().Add(12 * time.Hour)}
	if err := p.books.PutSession(p.t.Context(), s); err != nil {
		p.t.Fatal(err)
	}
	return s.ID
}

// seen is an answer.
type seen struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// get and post make a request. post takes pairs of fields.
func (p *person) get(path string, header ...string) seen {
	return p.do(http.MethodGet, path, nil, header...)
}

func (p *person) post(path string, fields ...string) seen {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	return p.do(http.MethodPost, path, form)
}

func (p *person) do(method, path string, form url.Values, header ...string) seen {
	p.t.Helper()
	res := p.request(method, path, form, header...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return seen{t: p.t, status: res.StatusCode, header: res.Header, body: string(text)}
}

func (p *person) request(method, path string, form url.Values, header ...string) *http.Response {
	p.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Test-Visitor", p.account.ID+"/"+p.account.OrganizationID)
	req.Header.Set("Test-Session", p.session)
	req.Header.Set("Test-Role", p.role)
	if !p.auth.IsZero() {
		req.Header.Set("Test-Auth-Time", p.auth.Format(time.RFC3339Nano))
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

func (s seen) is(status int, parts ...string) seen {
	s.t.Helper()
	if s.status != status {
		s.t.Fatalf("status %d, want %d: %s", s.status, status, s.brief())
	}
	for _, part := range parts {
		if !strings.Contains(s.body, part) {
			s.t.Errorf("%q is not on the page: %s", part, s.brief())
		}
	}
	return s
}

func (s seen) without(parts ...string) seen {
	s.t.Helper()
	for _, part := range parts {
		if strings.Contains(s.body, part) {
			s.t.Errorf("%q is on the page: %s", part, s.brief())
		}
	}
	return s
}

// brief returns the page without its frame, for messages.
func (s seen) brief() string {
	if _, inside, ok := strings.Cut(s.body, "<main"); ok {
		inside, _, _ = strings.Cut(inside, "</main>")
		return inside
	}
	return s.body
}

// to follows no redirect, but checks its target.
func (s seen) to(path string) seen {
	s.t.Helper()
	s.is(http.StatusSeeOther)
	if got := s.header.Get("Location"); got != path {
		s.t.Fatalf("leads to %q, want %q", got, path)
	}
	return s
}

// wallet makes a funded wallet for a key.
func (w *world) wallet(k pay.Key, micros uint64) pay.Wallet {
	w.t.Helper()
	wallet, err := w.books.CreateWallet(w.t.Context(), k, "base")
	if err != nil {
		w.t.Fatal(err)
	}
	w.chain.fund(*wallet.Address, micros)
	return wallet
}

// challenge returns the challenge of a v1 seller.
func challenge(micros string) x402.Challenge {
	c, err := x402.DecodeHeader(base64.StdEncoding.EncodeToString(fmt.Appendf(nil, `{"x402Version":1,"error":"pay","accepts":[{
		"scheme":"exact","network":"base","maxAmountRequired":%q,"resource":"","description":"","mimeType":"","payTo":%q,
		"maxTimeoutSeconds":60,"asset":%q,"extra":{"name":"USD Coin","version":"2"}}]}`, micros, seller, usdc)))
	if err != nil {
		panic(err)
	}
	return c
}

// buy pays for a URL through the facilitator, which settles it.
func (w *world) buy(k pay.Key, at, task, micros string) *pay.Payment {
	w.t.Helper()
	p, err := w.try(k, at, task, micros)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) try(k pay.Key, at, task, micros string) (*pay.Payment, error) {
	k, err := w.books.Key(w.t.Context(), k.ID)
	if err != nil {
		return nil, err
	}
	a, err := w.payer.Pay(w.t.Context(), pay.Request{
		Key: k, Door: policy.DoorAPI, Task: task, Settlement: pay.SettlePayer, Challenge: challenge(micros), URL: at,
	})
	if err != nil {
		return nil, err
	}
	return paytest.Finish(w.t, w.payer, a), nil
}

// clock stands still until it is set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) set(t time.Time)         { c.at.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

// keptPages is a gate that keeps the pages it gets.
type keptPages struct{ pages *session.Pages }

func (k keptPages) Wrap(next http.Handler, p session.Pages) http.Handler {
	*k.pages = p
	return next
}
