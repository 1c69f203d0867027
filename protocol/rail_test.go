package protocol_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/protocol"
	"github.com/purserpay/purser/proxy"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/signer"
	"github.com/purserpay/purser/x402"
)

// clover is a rail of play. Its accounts are keys of ed25519, in hex. A transfer is a text, and the chain takes it up
// to a height. The hash of the text marks its use.
type clover struct{ meadow *meadow }

const (
	cloverNumber = x402.OtherRails
	cloverLasts  = 5 // blocks
)

var cloverDollar = foreign("meadow-dollar-of-the-clover-rail")

func foreign(text string) x402.Address {
	a, err := x402.ForeignAddress(text)
	if err != nil {
		panic(err)
	}
	return a
}

func (clover) Number() x402.Rail { return cloverNumber }

func (clover) Network() x402.Network {
	return x402.Network{Name: "meadow", Title: "Meadow", Wire: "clover:meadow", ChainID: 4242, Coin: "LEAF", Assets: []x402.Asset{{Symbol: "USDC", Decimals: 6, Address: cloverDollar}}}
}

func (clover) Takes(r x402.Requirement) error {
	if _, err := hex.DecodeString(r.PayTo.String()); err != nil {
		return &x402.UnsupportedError{Kind: "scheme", Value: r.Scheme, Detail: "the payee is no key"}
	}
	return nil
}

func (c clover) Authorize(_ context.Context, a x402.Authorization, _ x402.Requirement) (x402.Authorization, error) {
	c.meadow.asked.Add(1)
	if c.meadow.down.Load() {
		return a, errors.New("the meadow does not answer")
	}
	a.Height = c.meadow.tip() + cloverLasts
	a.Message = fmt.Sprint(a.From, " ", a.To, " ", a.Value, " ", a.Height, " ", a.Nonce)
	a.Nonce = sha256.Sum256([]byte(a.Message))
	return a, nil
}

func (clover) Sign(a x402.Authorization) pay.Message {
	return pay.Message{From: a.From, Bytes: []byte(a.Message), Verify: func(s x402.Signature) error {
		if !signedBy(a.From.String(), a.Message, s[:ed25519.SignatureSize]) {
			return errors.New("it is not by the account")
		}
		return nil
	}}
}

func signedBy(account, message string, signature []byte) bool {
	key, err := hex.DecodeString(account)
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(message), signature)
}

func (clover) Payload(o x402.Offer, a x402.Authorization, s x402.Signature) (x402.Payload, error) {
	text, err := json.Marshal([]string{a.Message, hex.EncodeToString(s[:ed25519.SignatureSize])})
	return x402.Payload{Version: o.Version, JSON: text}, err
}

// meadow is the chain of clover, as an RPC tells of it. A block has all transfers since the one before.
type meadow struct {
	now  func() time.Time
	down atomic.Bool // nothing new can be authorized

	mu     sync.Mutex
	height uint64
	funds  map[string]uint64
	used   map[x402.Nonce]transfer
	behind uint64 // the RPC tells of a safe block so far behind the newest
	stale  bool   // the RPC's newest block is old
	fee    uint64 // that an account pays beside each transfer
	gleans atomic.Uint64
	asked  atomic.Int32 // for what an authorization needs

	strange   atomic.Bool // another payee gets a part
	elsewhere atomic.Bool // the RPC is for another chain
}

type transfer struct {
	tx     string
	amount uint64
	height uint64
}

func newMeadow(now func() time.Time) *meadow {
	return &meadow{now: now, height: 100, funds: map[string]uint64{}, used: map[x402.Nonce]transfer{}}
}

func (m *meadow) tip() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.height
}

// grow adds blocks.
func (m *meadow) grow(blocks uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.height += blocks
}

func (m *meadow) has(account string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.funds[account]
}

// settle moves what a signed transfer says, once.
func (m *meadow) settle(message, signature string) (tx string, err error) {
	var from, to, nonce string
	var amount, until uint64
	if _, err := fmt.Sscan(message, &from, &to, &amount, &until, &nonce); err != nil {
		return "", err
	}
	raw, err := hex.DecodeString(signature)
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := x402.Nonce(sha256.Sum256([]byte(message)))
	switch {
	case err != nil || !signedBy(from, message, raw):
		return "", errors.New("not signed by the account")
	case m.used[mark].tx != "":
		return m.used[mark].tx, nil
	case m.height >= until:
		return "", errors.New("too late")
	case m.funds[from] < amount:
		return "", errors.New("insufficient_funds")
	}
	m.funds[from], m.funds[to] = m.funds[from]-amount-m.fee, m.funds[to]+amount
	tx = "Leaf" + base64.RawURLEncoding.EncodeToString(mark[:])
	m.used[mark] = transfer{tx, amount, m.height}
	return tx, nil
}

func (m *meadow) Identify(_ context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	if n.Name != "meadow" {
		return pay.ChainIdentity{}, pay.ErrUnwatched
	}
	if m.elsewhere.Load() {
		return pay.ChainIdentity{ChainID: 4243}, errors.New("another chain")
	}
	return pay.ChainIdentity{ChainID: 4242, Genesis: "0x" + strings.Repeat("5e", 32)}, nil
}

func (m *meadow) Balance(_ context.Context, _ x402.Network, _ x402.Asset, owner x402.Address) (money.Amount, error) {
	return money.New(m.has(owner.String())), nil
}

func (m *meadow) Trace(ctx context.Context, q pay.TraceQuery) (t pay.Trace, err error) {
	if t.Chain, err = m.Identify(ctx, q.Network, q.Asset); err != nil {
		return t, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	hash := func(height uint64) string { return fmt.Sprintf("0x%064x", height) }
	t.SafeNumber, t.SafeTime, t.Latest = m.height-m.behind, m.now(), m.now()
	if t.SafeHash = hash(t.SafeNumber); m.stale {
		t.SafeTime, t.Latest = t.SafeTime.Add(-time.Hour), t.Latest.Add(-time.Hour)
	}
	if q.Kept != nil && q.Kept.Number <= m.height {
		t.KeptHash = hash(q.Kept.Number)
	}
	if u := m.used[q.Authorization.Nonce]; u.tx != "" {
		t.Used, t.Transaction, t.Moved = true, u.tx, money.New(u.amount+m.fee)
		t.SafeUsed = u.height <= t.SafeNumber
		t.SafeLogs = t.SafeUsed
	}
	return t, nil
}

// keyring makes wallets of clover beside those of tokens.
type keyring struct {
	*signer.Local
	store pay.Store
}

func (k keyring) Create(_ context.Context, id, network string) (pay.ProvidedWallet, error) {
	if network != "meadow" {
		return pay.ProvidedWallet{}, errors.New("no such network")
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return pay.ProvidedWallet{}, err
	}
	return pay.ProvidedWallet{ProviderID: "local_" + id, Address: new(foreign(hex.EncodeToString(public))), Secret: private.Seed()}, nil
}

func (k keyring) SignBytes(ctx context.Context, w pay.Wallet, m pay.Message) (s x402.Signature, err error) {
	seed, err := k.store.WalletSecret(ctx, w.ID)
	if err == nil {
		copy(s[:], ed25519.Sign(ed25519.NewKeyFromSeed(seed), m.Bytes))
	}
	return s, err
}

// stile is a protocol of play for clover:
//
//	Stile: AMOUNT PAYEE SECONDS [REASON]
//	Stile-Pass: MESSAGE SIGNATURE      as JSON, in base64
//	Stile-Receipt: TRANSACTION
type stile struct{}

const stileVersion = tollVersion + 1

func (stile) Decode(field string) (c x402.Challenge, err error) {
	w := strings.Fields(field)
	if len(w) < 3 {
		return c, errors.New("a stile has three words")
	}
	raw, err := json.Marshal(map[string]string{"stile": field})
	if err != nil {
		return c, err
	}
	r := x402.Requirement{Raw: raw, Version: stileVersion, Scheme: "clover", OtherRail: cloverNumber, Network: "clover:meadow", Asset: cloverDollar}
	if r.Amount, err = money.Parse(w[0]); err == nil {
		r.PayTo, err = x402.ForeignAddress(w[1])
	}
	seconds, wrong := strconv.Atoi(w[2])
	if err != nil || wrong != nil {
		return c, errors.Join(err, wrong)
	}
	r.MaxTimeout = time.Duration(seconds) * time.Second
	return x402.Challenge{Version: stileVersion, Accepts: []x402.Requirement{r}, Error: strings.Join(w[3:], " ")}, nil
}

func (p stile) Offers(_, h http.Header, _ []byte) (x402.Challenge, bool, error) {
	if h.Get("Stile") == "" {
		return x402.Challenge{}, false, nil
	}
	c, err := p.Decode(h.Get("Stile"))
	return c, true, err
}

func (stile) Carries(h http.Header) bool { return h.Get("Stile-Pass") != "" }

func (stile) Room(http.Header, x402.Payload) error { return nil }

func (stile) Insists() bool { return false }

func (stile) Writes(version int) bool { return version == stileVersion }

func (stile) Credential(p x402.Payload) (name, value string) {
	return "Stile-Pass", base64.StdEncoding.EncodeToString(p.JSON)
}

func (p stile) Answer(status int, h http.Header, _ []byte) (a protocol.Answer) {
	if field := h.Get("Stile-Receipt"); field != "" {
		r, _ := p.DecodeReceipt(field)
		a.Speaks, a.Receipt = true, &r
	}
	if status == http.StatusPaymentRequired {
		a.Challenge, a.Found, _ = p.Offers(nil, h, nil)
	}
	return a
}

func (stile) DecodeReceipt(field string) (x402.Receipt, error) {
	return x402.Receipt{Success: true, Transaction: field, Network: "meadow"}, nil
}

func (stile) Withhold(h http.Header) { h.Del("Stile") }

func (stile) Secrets() []string { return []string{"stile-pass"} }

// farm sells eggs for stiles.
type farm struct {
	*httptest.Server
	meadow  *meadow
	account string
	passes  atomic.Int32
	next    atomic.Value  // what becomes of the next pass: "", "lose" its answer, "drop" it
	more    atomic.Uint64 // that eggs cost
}

func newFarm(t *testing.T, m *meadow) *farm {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f := &farm{meadow: m, account: hex.EncodeToString(public)}
	f.next.Store("")
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *farm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pass, err := base64.StdEncoding.DecodeString(r.Header.Get("Stile-Pass"))
	var signed [2]string
	if err != nil || json.Unmarshal(pass, &signed) != nil {
		w.Header().Set("Stile", fmt.Sprint(10_000+f.more.Load(), " ", f.account, " 60"))
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	f.passes.Add(1)
	now := f.next.Swap("")
	if now == "drop" {
		proxytest.HangUp(w)
		return
	}
	tx, err := f.meadow.settle(signed[0], signed[1])
	switch {
	case err != nil:
		w.Header().Set("Stile", "10000 "+f.account+" 60 "+err.Error())
		w.WriteHeader(http.StatusPaymentRequired)
	case now == "lose":
		proxytest.HangUp(w)
	default:
		w.Header().Set("Stile-Receipt", tx)
		_, _ = io.WriteString(w, "a dozen eggs")
	}
}

// pasture is a purser that pays by clover.
type pasture struct {
	t      *testing.T
	skew   atomic.Int64
	meadow *meadow
	farm   *farm
	payer  *pay.Payer
	store  pay.Store
	books  *books.Books
	key    pay.Key
	wallet string
	door   *proxy.Transport
	bound  *money.Amount // that requests set
	dry    bool          // requests ask for a quote
}

func (p *pasture) now() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) }

// stores opens one of each kind.
var stores = map[string]func(t *testing.T, clock pay.Clock) pay.Store{
	"memory": func(_ *testing.T, clock pay.Clock) pay.Store { return memory.New(memory.Options{Clock: clock}) },
	"boltstore": func(t *testing.T, clock pay.Clock) pay.Store {
		db, err := boltstore.Open(t.Context(), boltstore.Options{Path: filepath.Join(t.TempDir(), "purser.db"), MasterKey: vault.Given(vault.MasterKey{1}), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, db) })
		return db
	},
	"pgstore": func(t *testing.T, clock pay.Clock) pay.Store {
		db, err := pgstore.Open(t.Context(), pgstore.Options{URL: pgtest.Start(t).URL, MasterKey: vault.Given(vault.MasterKey{1}), Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, db) })
		return db
	},
}

func closed(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func newPasture(t *testing.T, open func(*testing.T, pay.Clock) pay.Store) *pasture {
	t.Helper()
	return newPastureOf(t, open, nil, func(m *meadow) pay.Rail { return clover{m} })
}

// newPastureOf is newPasture with a rail, and with limits of the key.
func newPastureOf(t *testing.T, open func(*testing.T, pay.Clock) pay.Store, limits *policy.Policy, rail func(*meadow) pay.Rail) *pasture {
	t.Helper()
	p := &pasture{t: t}
	p.meadow = newMeadow(p.now)
	p.farm = newFarm(t, p.meadow)
	store := open(t, p.now)
	o := proxytest.PayOptions()
	o.Telling.On, p.store = true, store
	o.Store, o.Wallets, o.Clock, o.Chain, o.Rails = store, keyring{signer.NewLocal(store), store}, p.now, p.meadow, []pay.Rail{rail(p.meadow)}
	var err error
	if p.payer, err = pay.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := p.payer.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if p.books, err = books.New(books.Options{Store: store, Wallets: o.Wallets, Networks: []x402.Network{clover{}.Network()}, Clock: p.now}); err != nil {
		t.Fatal(err)
	}
	if p.key, _, err = p.books.CreateKey(t.Context(), books.KeyRequest{Label: "agent", Policy: limits}); err != nil {
		t.Fatal(err)
	}
	w, err := p.books.CreateWallet(t.Context(), p.key, "meadow")
	if err != nil {
		t.Fatal(err)
	}
	p.wallet = w.Address.String()
	p.meadow.funds[p.wallet] = 1_000_000
	next := &http.Transport{}
	t.Cleanup(next.CloseIdleConnections)
	p.door, err = proxy.NewTransport(proxy.TransportOptions{
		PayOptions: proxy.PayOptions{Protocols: append(protocol.Spoken(), stile{})}, Payer: p.payer, Next: next, Door: policy.DoorTransport,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get sends one request of a client of its own.
func (p *pasture) get() (proxytest.Answer, error) {
	p.t.Helper()
	call := proxy.NewCall(p.key, "", "")
	r := proxytest.Request(p.t, http.MethodGet, p.farm.URL+"/eggs", nil)
	call.MaxAmount, call.Dry = p.bound, p.dry
	resp, err := p.door.RoundTrip(r.WithContext(proxy.WithCall(p.t.Context(), call)))
	answer, err := proxytest.Read(resp, err)
	call.Finish(err == nil && answer.StatusCode == http.StatusOK)
	return answer, err
}

// looked returns the only payment, once recovery has looked at what is due after a time.
func (p *pasture) looked(after time.Duration) *pay.Payment {
	p.t.Helper()
	p.skew.Add(int64(after))
	for {
		n, err := p.payer.RecoverOnce(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	list, err := p.books.Payments(p.t.Context(), p.key, "", 10, "")
	if err != nil || len(list) != 1 {
		p.t.Fatalf("%d payments, %v", len(list), err)
	}
	return list[0]
}

// released waits until no call has the payment any more.
func (p *pasture) released() {
	p.t.Helper()
	proxytest.Eventually(p.t, "the call is over", func() bool {
		list, err := p.books.Payments(p.t.Context(), p.key, "", 10, "")
		return err == nil && len(list) == 1 && list[0].Lease.Owner == ""
	})
}

// A rail of play pays through the proxy and every store: another key, another curve, a height in place of a time.
// That is the proof of the seam: no package but this test knows of it.
func TestRailOfPlay(t *testing.T) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, test := range map[string]func(*pasture){"pays once": (*pasture).paysOnce, "dies by its height": (*pasture).diesByHeight} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(newPasture(t, open))
				})
			}
		})
	}
}

// An answer is lost: the repeat gets the same payment, and the money moves once. The chain confirms it by its height.
func (p *pasture) paysOnce() {
	p.farm.next.Store("lose")
	if a, err := p.get(); err == nil {
		p.t.Fatalf("an answer that was lost: %v", a)
	}
	p.meadow.down.Store(true)
	a, err := p.get() // the repeat needs no new authorization
	if err != nil || a.Text != "a dozen eggs" || p.farm.passes.Load() != 2 {
		p.t.Fatalf("%v %v, %d passes", a, err, p.farm.passes.Load())
	}
	p.released()
	if a, err := p.get(); err != nil || a.Header.Get("Purser-Declined") != proxy.DeclinedUnready || a.Header.Get("Retry-After") == "" || a.Header.Get("Stile") == "" {
		p.t.Errorf("bought while nothing can be authorized: %v %v", a, err)
	}
	row := p.looked(0)
	if row.State != pay.Settled || row.Confirmed || !strings.HasPrefix(row.Transaction, "Leaf") || row.Terms.PayTo.String() != p.farm.account {
		p.t.Errorf("%+v", row)
	}
	if row = p.looked(24 * time.Hour); row.Confirmed {
		p.t.Errorf("confirmed by a time: %+v", row)
	}
	p.meadow.grow(cloverLasts)
	if row = p.looked(time.Hour); !row.Confirmed || row.Disputed {
		p.t.Errorf("%+v", row)
	}
	if have, left := p.meadow.has(p.farm.account), p.meadow.has(p.wallet); have != 10_000 || left != 990_000 {
		p.t.Errorf("the farm has %d, the wallet %d", have, left)
	}
	if events, err := p.books.Payments(p.t.Context(), p.key, "settled", 10, ""); err != nil || len(events) != 1 {
		p.t.Errorf("%d settled, %v", len(events), err)
	}
}

// A pass is lost on its way: while its height can come the payment stays open, whatever the clock says, and after it
// the money is free again. An RPC that is behind proves nothing.
func (p *pasture) diesByHeight() {
	p.farm.next.Store("drop")
	if a, err := p.get(); err == nil {
		p.t.Fatalf("an answer that was lost: %v", a)
	}
	p.released()
	if row := p.looked(24 * time.Hour); row.State != pay.Open {
		p.t.Errorf("closed by a time: %+v", row)
	}
	p.meadow.mu.Lock()
	p.meadow.height, p.meadow.behind = p.meadow.height+cloverLasts, 2
	p.meadow.mu.Unlock()
	if row := p.looked(24 * time.Hour); row.State != pay.Open {
		p.t.Errorf("closed before its height is safe: %+v", row)
	}
	p.meadow.grow(2)
	p.meadow.stale = true
	if row := p.looked(24 * time.Hour); row.State != pay.Open {
		p.t.Errorf("closed by an RPC that is stale: %+v", row)
	}
	p.meadow.stale = false
	row := p.looked(24 * time.Hour)
	if row.State != pay.Void || row.Doubted || p.meadow.has(p.wallet) != 1_000_000 {
		p.t.Errorf("%+v", row)
	}
	again := row.Clone()
	if text, err := json.Marshal(again); err != nil || json.Unmarshal(text, again) != nil || again.Authorization != row.Authorization || !bytes.Contains(text, []byte(row.Authorization.Message)) {
		p.t.Errorf("%s %v", text, err)
	}
}

// While the RPC is for another chain, nothing is paid. Once it is for this one, payments find that out by themselves.
func TestRailOfPlayWaitsForItsRPC(t *testing.T) {
	t.Parallel()
	p := newPasture(t, stores["memory"])
	p.meadow.elsewhere.Store(true)
	for _, want := range []string{proxy.DeclinedUnready, proxy.DeclinedUnsupported} {
		if a, err := p.get(); err != nil || a.Header.Get("Purser-Declined") != want {
			t.Errorf("%v, %v", a, err)
		}
	}
	p.meadow.elsewhere.Store(false)
	p.skew.Add(int64(2 * time.Minute))
	if a, err := p.get(); err != nil || a.Text != "a dozen eggs" {
		t.Errorf("%v, %v", a, err)
	}
}

// A facilitator knows the payments of x402 only. It never sees another one.
func TestRailOfPlayNeedsItsSeller(t *testing.T) {
	t.Parallel()
	p := newPasture(t, stores["memory"])
	c, err := stile{}.Decode("10000 " + p.farm.account + " 60")
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.payer.Pay(t.Context(), pay.Request{Key: p.key, Door: policy.DoorAPI, URL: p.farm.URL + "/eggs", Challenge: c, Settlement: pay.SettlePayer})
	if _, refused := errors.AsType[*x402.UnsupportedError](err); !refused {
		t.Errorf("%v", err)
	}
	if list, err := p.books.Payments(t.Context(), p.key, "", 10, ""); err != nil || len(list) != 0 {
		t.Errorf("%d payments, %v", len(list), err)
	}
}
