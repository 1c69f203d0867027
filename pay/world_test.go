package pay_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// truth is the chain as it really is: which authorizations moved money, at a clock that tests turn.
type truth struct {
	plain map[string]bool // transactions without an authorization
	mu    sync.Mutex
	now   time.Time
	moved map[x402.Nonce]string // nonce -> transaction
	sums  money.Amount
	lag   time.Duration // how far the RPC's safe block is behind
	down  bool          // the RPC does not answer
	mute  bool          // it answers, but not what became of an authorization
	id    uint64        // the only chain that it serves; 0: any
	asked int           // traces that were asked for
	gen   string
	log   []moved
	past  map[uint64]string // hashes of blocks that are not what they usually are
	other string            // genesis of the machine that answers what was used; "": gen
	asks  []pay.UsedQuery
	// allowance bounds what Permit2 may move, of any wallet.
	allowance uint64
	charged   map[x402.Nonce]money.Amount // what moved, where it is not the authorization's value
}

// moved is an authorization that was used.
type moved struct {
	auth x402.Authorization
	at   time.Time
	tx   string
}

func newTruth() *truth {
	return &truth{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), moved: map[x402.Nonce]string{}, gen: "0x" + fmt.Sprintf("%064d", 1)}
}

// rpc sets how the RPC is.
func (c *truth) rpc(down, mute bool) { c.mu.Lock(); defer c.mu.Unlock(); c.down, c.mute = down, mute }

// traces returns the number of traces that the RPC was asked for.
func (c *truth) traces() int { c.mu.Lock(); defer c.mu.Unlock(); return c.asked }

func (c *truth) clock() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *truth) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// move executes an authorization as the token would.
func (c *truth) move(a x402.Authorization) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, used := c.moved[a.Nonce]; used {
		return "", errors.New("invalid_exact_evm_nonce_already_used")
	}
	if !c.now.Before(time.Unix(int64(a.ValidBefore), 0)) {
		return "", errors.New("invalid_exact_evm_payload_authorization_valid_before")
	}
	tx := x402.Nonce(crypto.Keccak256Hash(a.Nonce[:])).String()
	c.moved[a.Nonce] = tx
	c.log = append(c.log, moved{a, c.now, tx})
	c.sums, _ = c.sums.Add(a.Value)
	return tx, nil
}

func (c *truth) transaction(n x402.Nonce) string { c.mu.Lock(); defer c.mu.Unlock(); return c.moved[n] }

func (c *truth) moves() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.moved) }

func (c *truth) Identify(_ context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity(n)
}

// identity is called with mu held.
func (c *truth) identity(n x402.Network) (pay.ChainIdentity, error) {
	if c.down {
		return pay.ChainIdentity{}, errors.New("rpc down")
	}
	if c.id != 0 && c.id != n.ChainID {
		return pay.ChainIdentity{ChainID: c.id}, errors.New("another chain")
	}
	return pay.ChainIdentity{ChainID: n.ChainID, Genesis: c.gen}, nil
}

func (c *truth) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	return money.New(1_000_000_000), nil
}

// Allowance tells what Permit2 may move.
func (c *truth) Allowance(context.Context, x402.Network, x402.Asset, x402.Address, x402.Address) (money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return money.Amount{}, errors.New("rpc down")
	}
	return money.New(c.allowance), nil
}

// charge executes an authorization of scheme upto as its facilitator would.
func (c *truth) charge(a x402.Authorization, amount uint64) (string, error) {
	c.mu.Lock()
	if c.charged == nil {
		c.charged = map[x402.Nonce]money.Amount{}
	}
	c.charged[a.Nonce] = money.New(amount)
	c.mu.Unlock()
	return c.move(a)
}

func (c *truth) Trace(_ context.Context, q pay.TraceQuery) (pay.Trace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked++; c.down || c.mute {
		return pay.Trace{}, errors.New("rpc down")
	}
	id, err := c.identity(q.Network)
	if err != nil {
		return pay.Trace{}, err
	}
	kept := ""
	if q.Kept != nil {
		kept = cmp.Or(c.past[q.Kept.Number], q.Kept.Hash)
	}
	tx, used := c.moved[q.Authorization.Nonce]
	// A lagging RPC knows nothing newer than its safe block; with a lag nothing used is
	// shown before the window is over, which is as little as it can know.
	safe := c.now.Add(-c.lag)
	if used && c.lag > 0 && safe.Before(time.Unix(int64(q.Authorization.ValidBefore), 0)) {
		return pay.Trace{Chain: id, SafeTime: safe, KeptHash: kept}, nil
	}
	var amount money.Amount
	if used {
		amount = q.Authorization.Value
		if less, upto := c.charged[q.Authorization.Nonce]; upto {
			amount = less
		}
	}
	return pay.Trace{
		Chain: id, Used: used, Moved: amount, Transaction: tx, SafeUsed: used, SafeLogs: used, SafeTime: safe, KeptHash: kept,
	}, nil
}

// facilitator answers as its mode says.
type facilitator struct {
	mu      sync.Mutex
	chain   *truth
	verify  string // "", "refuse", "refuse-moved", "fail", "unreachable"
	settle  string // "", "refuse", "refuse-moved", "fail", "fail-moved", "moved-unclear", "lie", "pending"
	calls   map[string]int
	release chan struct{} // when set, /settle waits for it
	entered chan struct{}
}

func (f *facilitator) mode(verify, settle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verify, f.settle = verify, settle
}

func (f *facilitator) count(what string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[what]++
	if what == "verify" {
		return f.verify
	}
	return f.settle
}

func (f *facilitator) called(what string) int { f.mu.Lock(); defer f.mu.Unlock(); return f.calls[what] }

func (f *facilitator) Probe(context.Context) error { return nil }

func (f *facilitator) Verify(_ context.Context, x pay.Exchange) (pay.VerifyAnswer, error) {
	mode := f.count("verify")
	a, _, err := x.Payload.Authorization()
	if err != nil {
		return pay.VerifyAnswer{}, err
	}
	switch mode {
	case "refuse-moved":
		_, _ = f.chain.move(a) // refused when it was moved already
		return pay.VerifyAnswer{Reason: "insufficient_funds"}, nil
	case "refuse":
		return pay.VerifyAnswer{Reason: "insufficient_funds", Raw: json.RawMessage(`{"isValid":false}`)}, nil
	case "fail":
		return pay.VerifyAnswer{}, errors.New("timeout")
	case "unreachable":
		return pay.VerifyAnswer{}, fmt.Errorf("dial: %w", pay.ErrNotSent)
	}
	if f.chain.transaction(a.Nonce) != "" {
		return pay.VerifyAnswer{Reason: "invalid_exact_evm_nonce_already_used"}, nil
	}
	return pay.VerifyAnswer{Valid: true}, nil
}

func (f *facilitator) Settle(ctx context.Context, x pay.Exchange) (pay.SettleAnswer, error) {
	mode := f.count("settle")
	if f.entered != nil {
		f.entered <- struct{}{}
	}
	if f.release != nil {
		select {
		case <-f.release:
		case <-ctx.Done():
			return pay.SettleAnswer{}, ctx.Err()
		}
	}
	a, _, err := x.Payload.Authorization()
	if err != nil {
		return pay.SettleAnswer{}, err
	}
	switch mode {
	case "refuse":
		return pay.SettleAnswer{Reason: "insufficient_funds"}, nil
	case "fail":
		return pay.SettleAnswer{}, errors.New("timeout before sending")
	case "lie":
		return pay.SettleAnswer{Success: true, Transaction: x402.Nonce(crypto.Keccak256Hash([]byte("lie"), a.Nonce[:])).String()}, nil
	}
	tx, merr := f.chain.move(a)
	switch {
	case mode == "fail-moved":
		return pay.SettleAnswer{}, errors.New("timeout after sending")
	case mode == "refuse-moved":
		return pay.SettleAnswer{Reason: "insufficient_funds"}, nil
	case mode == "moved-unclear":
		return pay.SettleAnswer{Reason: "unexpected_settle_error"}, nil
	case mode == "pending":
		return pay.SettleAnswer{Reason: "settlement_pending", Transaction: tx}, nil
	case merr != nil:
		return pay.SettleAnswer{Reason: merr.Error()}, nil
	}
	return pay.SettleAnswer{Success: true, Transaction: tx, Network: "eip155:8453"}, nil
}

// keyring signs with keys that it keeps.
type keyring struct {
	mu   sync.Mutex
	keys map[string]*ecdsa.PrivateKey
	fail bool
	// silent makes it sign, and lose the signature on the way.
	silent bool
	// wrong makes it sign with a key that is not the wallet's.
	wrong bool
	// slow, when set, happens while it signs.
	slow func()
}

func (k *keyring) Name() string { return "test" }

func (k *keyring) Create(_ context.Context, id, _ string) (pay.ProvidedWallet, error) {
	sk, err := crypto.GenerateKey()
	if err != nil {
		return pay.ProvidedWallet{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[id] = sk
	addr := x402.EVMAddress(crypto.PubkeyToAddress(sk.PublicKey))
	return pay.ProvidedWallet{ProviderID: "local_" + id, Address: &addr}, nil
}

func (k *keyring) Sign(_ context.Context, w pay.Wallet, m pay.Message) (x402.Signature, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sk := k.keys[w.ID]
	if k.slow != nil {
		k.slow()
	}
	if k.fail {
		return x402.Signature{}, &pay.SignerError{Provider: "test", Fault: pay.SignerUnreachable, Detail: "is down", Unsigned: true}
	}
	if k.silent {
		return x402.Signature{}, &pay.SignerError{Provider: "test", Fault: pay.SignerSlow, Detail: "gave no answer in time"}
	}
	if k.wrong {
		sk, _ = crypto.GenerateKey()
	}
	return x402test.Sign(m.Digest, sk)
}

// world is a payer with everything around it under the test's control.
type world struct {
	t     testing.TB
	chain *truth
	fac   *facilitator
	ring  *keyring
	store *memStore
	payer *pay.Payer
	books *books.Books
	key   pay.Key
	opts  pay.Options
}

func newWorld(t testing.TB, change func(*pay.Options)) *world {
	w := &world{t: t, chain: newTruth(), ring: &keyring{keys: map[string]*ecdsa.PrivateKey{}}}
	w.store = newMemStore(w.chain.clock)
	w.fac = &facilitator{chain: w.chain}
	w.opts = pay.Options{
		Store: w.store, Wallets: w.ring, Facilitator: w.fac, Chain: w.chain, Clock: w.chain.clock,
		RepeatWait: 50 * time.Millisecond,
	}
	if change != nil {
		change(&w.opts)
	}
	w.restart()
	var err error
	if w.key, _, err = w.books.CreateKey(context.Background(), books.KeyRequest{Label: "test"}); err != nil {
		t.Fatal(err)
	}
	must(w.books.CreateWallet(context.Background(), w.key, "base"))
	return w
}

// restart replaces the payer as a new process would, over the same store.
func (w *world) restart() {
	if w.payer != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.payer.Close(ctx); err != nil {
			w.t.Fatal(err)
		}
		w.store.Reopen()
	}
	var err error
	if w.payer, err = pay.New(w.opts); err != nil {
		w.t.Fatal(err)
	}
	if w.books, err = books.New(books.Options{Store: w.opts.Store, Wallets: w.opts.Wallets, Clock: w.opts.Clock, Networks: w.opts.Networks, Plans: w.opts.Plans, NoPlans: w.opts.NoPlans}); err != nil {
		w.t.Fatal(err)
	}
}

const testSeller = "0x1111111111111111111111111111111111111111"

// challenge is a v2 challenge for an amount.
func challenge(t testing.TB, amount string) x402.Challenge {
	t.Helper()
	return challengeFor(t, "https://api.example.com/r", amount)
}

// challengeFor is one that names a resource.
func challengeFor(t testing.TB, resource, amount string) x402.Challenge {
	t.Helper()
	c, err := x402.DecodeHeader(fmt.Sprintf(`{"x402Version":2,"error":"Payment required","resource":{"url":%q},
		"accepts":[{"scheme":"exact","network":"eip155:8453","amount":%q,"asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
		"payTo":%q,"maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}]}`, resource, amount, testSeller))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) rest(settlement pay.Settlement, url, amount, idem string) pay.Request {
	return pay.Request{
		Key: w.key, Door: policy.DoorAPI, Settlement: settlement, Challenge: challenge(w.t, amount), URL: url, IdempotencyKey: idem,
	}
}

func (w *world) proxied(url, amount, idem string) pay.Request {
	r := w.rest(pay.SettleSeller, url, amount, idem)
	if u, err := neturl.Parse(url); err == nil && !strings.HasSuffix(u.Hostname(), ".example.com") {
		r.Challenge = challengeFor(w.t, url, amount)
	}
	r.Door, r.HTTP = policy.DoorProxy, &pay.HTTPRequest{Method: "GET", URL: url}
	return r
}

// sellerMoves settles a payload as a seller's facilitator would.
func (w *world) sellerMoves(p x402.Payload) string {
	a, _, err := p.Authorization()
	if err != nil {
		w.t.Fatal(err)
	}
	tx, err := w.chain.move(a)
	if err != nil {
		return ""
	}
	return tx
}

// mustOpen opens an attempt at the proxy's door.
func (w *world) mustOpen(r pay.Request) *pay.Attempt {
	w.t.Helper()
	a := must(w.payer.Open(context.Background(), r))
	return a
}

// mustBegin opens an attempt on REST.
func (w *world) mustBegin(r pay.Request) *pay.Attempt {
	w.t.Helper()
	a := must(w.payer.Pay(context.Background(), r))
	return a
}

// mustFail demands that a call on REST fails after its payment was journaled.
func (w *world) mustFail(r pay.Request) *pay.Payment {
	w.t.Helper()
	_, err := w.payer.Pay(context.Background(), r)
	return failedState(w.t, err)
}

func (w *world) recoverOnce() {
	w.t.Helper()
	must(w.payer.RecoverOnce(context.Background()))
}

// checkBooks compares counters and events with the payments.
func (w *world) checkBooks() {
	w.t.Helper()
	if err := w.store.check(); err != nil {
		w.t.Error(err)
	}
}

// recoverAll runs recovery with time passing until it has nothing left that is due.
func (w *world) recoverAll() {
	for range 40 {
		w.recoverOnce()
		w.chain.advance(30 * time.Second)
	}
}

func (w *world) payment(id string) *pay.Payment {
	p := must(w.store.Payment(context.Background(), id))
	return p
}

// memStore is a store in memory with readings for tests.
type memStore struct {
	*memory.Store
	mostFound int          // the most payments that one step of reconciling brought
	told      atomic.Int64 // writes of notices
}

func (m *memStore) AddNotices(ctx context.Context, list []pay.Notice) error {
	m.told.Add(1)
	return m.Store.AddNotices(ctx, list)
}

func newMemStore(clock pay.Clock) *memStore {
	return &memStore{Store: memory.New(memory.Options{Clock: clock})}
}

func (m *memStore) Reconcile(ctx context.Context, s pay.ReconcileStep) ([]*pay.Payment, error) {
	m.mostFound = max(m.mostFound, len(s.Found))
	return m.Store.Reconcile(ctx, s)
}

// check compares counters and events with the payments.
func (m *memStore) check() error { return m.Check(context.Background()) }

// snapshot copies the store as it is.
func (m *memStore) snapshot() *memStore { return &memStore{Store: m.Snapshot()} }

// payments lists all payments, newest first.
func (m *memStore) payments() []*pay.Payment {
	return must(m.AllPayments(context.Background(), pay.LabelQuery{Limit: math.MaxInt}))
}

// events lists all spend events, newest first.
func (m *memStore) events() (list []pay.SpendEvent) {
	var ids []string
	for _, k := range must(m.ListKeys(context.Background(), "", math.MaxInt)) {
		ids = append(ids, k.ID)
	}
	page := must(m.ListSpend(context.Background(), ids, pay.OrganizationSpendQuery{Limit: math.MaxInt}))
	for _, e := range page.Entries {
		list = append(list, e.SpendEvent)
	}
	return list
}

// leases counts the payments that are held.
func (m *memStore) leases() (n int) {
	for _, p := range m.payments() {
		if p.Lease.Owner != "" {
			n++
		}
	}
	return n
}

// restored returns what is to be reconciled.
func (m *memStore) restored() pay.Restore { return *must(m.Restored(context.Background())) }

// wallet returns the oldest wallet.
func (m *memStore) wallet() pay.Wallet { return must(m.AllWallets(context.Background(), "", 1))[0] }

// count sets a counter, as if much had been counted already.
func (m *memStore) count(c pay.Counter, n uint64) { m.SetCounter(c, money.New(n)) }

// payloadOf builds the payload of a payment as the pay core does.
func payloadOf(p *pay.Payment) (x402.Payload, error) {
	return p.Offer.Payload(p.Authorization, *p.Signature)
}
