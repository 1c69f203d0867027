// Package storetest holds the suite that every pay.Store passes: each method and error of the
// interface, limits under concurrency, leases, repeats, reopening, and random histories. It tests
// promises only, and nothing of the way in which a store keeps them.
//
// Some tests need more rows than one bounded read takes. A store with bounded reads sets its
// bounds to 100 rows and 25 keys before it runs the suite.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Opener opens one and the same store, one opening at a time.
type Opener interface {
	// Open opens the store, or opens it again after Close or Kill.
	Open(t testing.TB) pay.Store
	// Close closes the store in an orderly way; a closed store may be closed again.
	Close(t testing.TB)
	// Kill ends the store as a crash would, as far as one process can.
	Kill(t testing.TB)
}

// Checker is a store that can compare its indexes and counters with its rows. The suite calls
// Check at the end of every test.
type Checker interface{ Check(context.Context) error }

// Run runs the suite. fresh makes the opener of a new, empty store.
func Run(t *testing.T, fresh func(t testing.TB) Opener) {
	for name, tests := range map[string]map[string]func(*fixture){
		"Keys": keyTests, "Wallets": walletTests, "Begin": beginTests, "Bound": boundTests, "Failures": failureTests, "Repeats": repeatTests,
		"Leases": leaseTests, "Outcomes": outcomeTests, "Deliveries": deliveryTests, "Lists": listTests, "Store": storeTests,
		"Policies": policyTests, "Reconciling": reconcileTests, "Summaries": summaryTests, "Spend": spendTests, "Accounts": accountTests, "Organizations": organizationTests,
		"Stops": stopTests, "Reissues": reissueTests, "Shares": shareTests, "Audit": auditTests, "Retention": retentionTests, "Declines": declineTests, "Filters": filterTests, "Notices": noticeTests, "Redirects": redirectTests,
		"Approvals": approvalTests, "Texts": textTests, "Families": familyTests,
	} {
		runAll(t, name, tests, fresh)
	}
	t.Run("Histories", func(t *testing.T) {
		t.Parallel()
		histories(t, fresh)
	})
}

// RunReconciling runs the tests of restored stores only.
func RunReconciling(t *testing.T, fresh func(t testing.TB) Opener) {
	runAll(t, "Reconciling", reconcileTests, fresh)
}

func runAll(t *testing.T, name string, tests map[string]func(*fixture), fresh func(t testing.TB) Opener) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, fresh(t))
				t.Cleanup(f.close)
				defer caught(t)
				test(f)
			})
		}
	})
}

// noon is the time of the tests, far from the edges of a day and a month.
var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// crowd is the number of callers that act at once in tests of limits.
const crowd = 64

// fixture holds a store under test.
type fixture struct {
	testing.TB
	ctx  context.Context
	open Opener
	pay.Store
}

func newFixture(t testing.TB, o Opener) *fixture {
	return &fixture{TB: t, ctx: context.Background(), open: o, Store: o.Open(t)}
}

func (f *fixture) close() {
	f.check()
	f.open.Close(f)
}

func (f *fixture) check() {
	f.Helper()
	if c, ok := f.Store.(Checker); ok {
		if err := c.Check(f.ctx); err != nil {
			f.Errorf("the store does not agree with itself: %v", err)
		}
	}
}

// must fails the test on an error.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// failure holds an error that ends a test.
type failure struct{ error }

// must returns a value, or ends the test with the error: see Run.
func must[T any](value T, err error) T {
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		panic(failure{fmt.Errorf("%s:%d: %w", filepath.Base(file), line, err)})
	}
	return value
}

// caught fails a test that must has ended.
func caught(t testing.TB) {
	switch end := recover().(type) {
	case nil:
	case failure:
		t.Error(end.error)
	default:
		panic(end)
	}
}

// fails demands an error.
func (f *fixture) fails(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("error is %v, want %v", err, want)
	}
}

// same compares two values by their JSON, as callers see them.
func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if g, w := text(got), text(want); g != w {
		f.Fatalf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// newID makes ids that sort by time.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// key makes an unclaimed key.
func (f *fixture) key() pay.Key {
	f.Helper()
	return must(f.CreateKey(f.ctx, newKey("")))
}

// newKey prepares a key; it is claimed if org is not empty.
func newKey(org string) pay.NewKey {
	return pay.NewKey{
		Key:    pay.Key{ID: newID(), Label: "test", OrganizationID: org, Created: noon},
		Secret: "pk_" + newID(),
	}
}

// owner holds the leases of the tests.
const owner = "node-1"

// want makes a call that wants to pay 5 units for something of its own, without limits. Tests
// change the parts that they are about.
func want(k pay.Key, now time.Time) *pay.Begin {
	id := newID()
	n, sum := pay.PendingCounters(k.ID)
	five := money.New(5)
	row := &pay.Payment{
		ID: id, KeyID: k.ID, OrganizationID: k.OrganizationID, Door: policy.DoorProxy, Task: "crawl",
		RequestURL: "https://api.example.com/" + id, Host: "api.example.com",
		Terms: pay.Terms{
			Settlement: pay.SettleSeller, Network: "base", Scheme: "exact",
			Asset: x402.EVMAddress([20]byte{0xa5}), PayTo: x402.EVMAddress([20]byte{0x70}), Amount: five,
		},
		Currency: "USDC", WalletID: "wallet-of-" + k.ID, Created: now,
		Fingerprint: pay.HashOf("fingerprint", id), Identity: pay.HashOf("identity", id),
		Offer: x402.Offer{Version: 2, Accepted: json.RawMessage(`{"scheme": "exact"}`)},
		Authorization: x402.Authorization{
			From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{0x70}), Value: five,
			ValidBefore: uint64(now.Add(time.Minute).Unix()), Nonce: x402.Nonce(pay.HashOf(id)),
		},
		State: pay.Open,
	}
	limit := func(c pay.Counter, amount money.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}}
	}
	return &pay.Begin{
		Now: now, Owner: owner,
		CallIdentity: pay.CallIdentity{KeyID: k.ID, Fingerprint: row.Fingerprint, Identity: row.Identity},
		Judgement:    pay.Judgement{Place: limit(pay.PlaceCounter(k.Owner(), now), money.New(1), pay.ReleasePlace)},
		Proposal: pay.Proposal{New: row, Limits: []pay.Limit{
			limit(n, money.New(1), pay.ReleasePending), limit(sum, five, pay.ReleasePending),
			limit(budgetOf(k), five, pay.ReleaseBudget), limit(holdOf(k), five, pay.ReleaseHold),
			limit(rateOf(k), money.New(1), pay.ReleaseNever),
		}},
	}
}

// Counters of the tests, one for every kind of reservation.
func placeOf(k pay.Key) pay.Counter   { return pay.PlaceCounter(k.Owner(), noon) }
func pendingOf(k pay.Key) pay.Counter { n, _ := pay.PendingCounters(k.ID); return n }
func budgetOf(k pay.Key) pay.Counter  { return pay.Counter("budget/" + k.ID + "/2026-11-15") }
func holdOf(k pay.Key) pay.Counter    { return pay.Counter("hold/" + k.ID) }
func rateOf(k pay.Key) pay.Counter    { return pay.Counter("rate/" + k.ID + "/2026-11-15T12:00") }

// under gives a call an idempotency key.
func under(b *pay.Begin, idempotencyKey string) *pay.Begin {
	b.IdempotencyKey, b.New.IdempotencyKey = idempotencyKey, idempotencyKey
	return b
}

// again makes the same call once more, with a new row.
func again(b *pay.Begin, now time.Time) *pay.Begin {
	c := *b
	c.Now = now
	c.New = b.New.Clone()
	c.New.ID, c.New.Created = newID(), now
	c.New.Authorization.ValidBefore = uint64(now.Add(time.Minute).Unix())
	return &c
}

// bound limits the sum of a counter that the call reserves.
func bound(b *pay.Begin, c pay.Counter, limit uint64, refusal error) *pay.Begin {
	most := money.New(limit)
	if b.Place.Counter == c {
		b.Place.Max, b.Place.Refusal = &most, refusal
	}
	for i := range b.Limits {
		if b.Limits[i].Counter == c {
			b.Limits[i].Max, b.Limits[i].Refusal = &most, refusal
		}
	}
	return b
}

// begin begins a call and demands the way in which it is served.
func (f *fixture) begin(b *pay.Begin, how pay.How) *pay.Payment {
	f.Helper()
	begun := must(f.Begin(f.ctx, b))
	if begun.How != how {
		f.Fatalf("begin: got %d, want %d, with payment %s", begun.How, how, text(begun.Payment))
	}
	return begun.Payment
}

// outcome makes a change of a payment under its current lease.
func outcome(p *pay.Payment, v pay.Verdict) pay.Outcome {
	return pay.Outcome{PaymentID: p.ID, Fence: p.Lease.Fence, At: noon.Add(time.Second), Verdict: v, EventID: newID()}
}

// record records an outcome and demands success.
func (f *fixture) record(o pay.Outcome) *pay.Payment {
	f.Helper()
	p, _, err := f.Record(f.ctx, o)
	f.must(err)
	return p
}

// release ends a payment's lease.
func (f *fixture) release(p *pay.Payment, answered bool) *pay.Payment {
	f.Helper()
	o := outcome(p, pay.Unclear)
	o.Release, o.Answered = true, answered
	return f.record(o)
}

// settle settles a payment and ends its lease.
func (f *fixture) settle(p *pay.Payment, answered bool) *pay.Payment {
	f.Helper()
	o := outcome(p, pay.VerdictSettled)
	o.Transaction, o.Release, o.Answered = transaction(p.ID), true, answered
	return f.record(o)
}

// transaction makes a transaction hash.
func transaction(seed string) string { return fmt.Sprintf("0x%x", pay.HashOf("transaction", seed)) }

// counts demands the value of a counter.
func (f *fixture) counts(what string, c pay.Counter, n uint64) {
	f.Helper()
	got := must(f.Counter(f.ctx, c))
	if got != money.New(n) {
		f.Fatalf("%s is %s, want %d", what, got, n)
	}
}

// find reads a payment.
func (f *fixture) find(id string) *pay.Payment {
	f.Helper()
	return must(f.Payment(f.ctx, id))
}

// together runs n calls at once and collects their errors.
func together(n int, call func(i int) error) []error {
	var all sync.WaitGroup
	start, errs := make(chan struct{}), make([]error, n)
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// succeeded counts the calls without error and demands one error of the others.
func (f *fixture) succeeded(errs []error, refusal error) (n int) {
	f.Helper()
	for _, err := range errs {
		if err == nil {
			n++
		} else {
			f.fails(err, refusal)
		}
	}
	return n
}
