package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// ledger is a chain with a block every two seconds. All networks have it.
type ledger struct {
	now func() time.Time

	mu   sync.Mutex
	used []pay.UsedAuthorization
}

const genesis = "0x1111111111111111111111111111111111111111111111111111111111111111"

func (l *ledger) block(at time.Time) pay.ChainBlock {
	n := uint64(at.Unix()) / 2                                                                              //nolint:gosec // after 1970
	return pay.ChainBlock{Number: n, Hash: fmt.Sprintf("0x%064x", n), Time: time.Unix(int64(2*n), 0).UTC()} //nolint:gosec // before 2100
}

// move settles a payment in the block of this moment.
func (l *ledger) move(p *pay.Payment) (transaction string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	transaction = fmt.Sprintf("0x%x", pay.HashOf(p.ID))
	l.used = append(l.used, pay.UsedAuthorization{
		From: p.Authorization.From, Nonce: p.Authorization.Nonce, Rail: p.Authorization.Rail, Transaction: transaction,
		Block: l.block(l.now()), Matched: true, To: p.Authorization.To, Value: p.Authorization.Value,
	})
	return transaction
}

func (l *ledger) Identify(_ context.Context, n x402.Network, _ x402.Asset) (pay.ChainIdentity, error) {
	return pay.ChainIdentity{ChainID: n.ChainID, Genesis: genesis}, nil
}

func (l *ledger) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	return money.New(1_000_000), nil
}

func (l *ledger) Trace(_ context.Context, q pay.TraceQuery) (pay.Trace, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	safe := l.block(l.now())
	t := pay.Trace{Chain: pay.ChainIdentity{ChainID: q.Network.ChainID, Genesis: genesis}, SafeTime: safe.Time, SafeNumber: safe.Number, SafeHash: safe.Hash, Latest: safe.Time}
	if q.Kept != nil {
		t.KeptHash = fmt.Sprintf("0x%064x", q.Kept.Number)
	}
	for _, u := range l.used {
		if u.From == q.Authorization.From && u.Nonce == q.Authorization.Nonce {
			t.Used, t.SafeUsed, t.SafeLogs, t.Moved, t.Transaction = true, true, true, u.Value, u.Transaction
		}
	}
	return t, nil
}

func (l *ledger) Safe(context.Context, x402.Network) (pay.ChainBlock, error) {
	return l.block(l.now()), nil
}

func (l *ledger) Before(_ context.Context, _ x402.Network, moment time.Time) (pay.ChainBlock, error) {
	return l.block(moment), nil
}

func (l *ledger) Used(_ context.Context, q pay.UsedQuery) (pay.UsedAnswer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := pay.UsedAnswer{Through: q.To, Size: 2000, Chain: pay.ChainIdentity{ChainID: q.Network.ChainID, Genesis: genesis}}
	for _, u := range l.used {
		if u.Block.Number >= q.From && u.Block.Number <= q.To && q.Asset.Symbol == "USDC" {
			answer.Used = append(answer.Used, u)
		}
	}
	return answer, nil
}

// A budget has room for three payments. Two are paid, and one is under way, when an asynchronous standby takes over that
// knows one of them. Nothing is paid until the chain has told of the others. Then the books equal the chain, and the budget
// is used up: no request is paid again, and no fourth one is paid.
func TestBudgetThroughAnAsynchronousFailover(t *testing.T) {
	t.Parallel()
	first := pgtest.Start(t)
	url := fresh(t, first)
	second := first.AsyncStandby(t)
	d := node(t, pgstore.Options{URL: strings.Replace(url, first.URL, first.With(second), 1), Dir: t.TempDir()})
	var ahead atomic.Int64
	clock := func() time.Time { return d.Now().Add(time.Duration(ahead.Load())) }
	chain := &ledger{now: clock}
	w := paytest.NewWorld(t, pay.Options{Store: d, Clock: clock, Chain: chain, RepeatWait: time.Second})
	recovering, stop := context.WithCancel(t.Context())
	var recovery sync.WaitGroup
	recovery.Go(func() { w.Payer.Recover(recovering) })
	defer recovery.Wait()
	defer stop()
	key, _ := w.NewKey(books.KeyRequest{Policy: &policy.Policy{DailyBudget: policy.CapOf(money.New(15))}})
	buy := func(page string) (*pay.Attempt, error) {
		return w.Payer.Open(t.Context(), paytest.Proxied(t, key, "https://api.example.com/"+page, "5"))
	}
	begin := func(page string) *pay.Attempt {
		t.Helper()
		a, err := buy(page)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	settle := func(a *pay.Attempt) {
		a.Receipt(x402.Receipt{Success: true, Transaction: chain.move(a.Payment()), Network: "eip155:8453"})
		a.Finish(true)
	}
	settled := func(n int) func() bool {
		return func() bool {
			is, err := d.CountOpen(t.Context(), string(pay.Settled))
			return err == nil && is == n
		}
	}
	settle(begin("known"))
	wait(t, "the first payment", settled(1))
	first.Behind(t, second)
	settle(begin("lost"))
	wait(t, "the second payment", settled(2))
	underWay := begin("under-way")
	second.TakesOver(t, first)
	settle(underWay)
	reconciles(t, d)
	wait(t, "the payment under way", settled(2))

	for _, page := range []string{"lost", "another"} {
		if _, err := buy(page); pay.Code(err) != pay.CodeReconciling {
			t.Errorf("%s, while the chain has not told: %v", page, err)
		}
	}
	if h := w.Payer.Health(t.Context()); h.OK || h.Reconciling == nil || !h.Reconciling.Lost {
		t.Errorf("health: %+v", h)
	}
	ahead.Store(int64(10 * time.Minute))
	wait(t, "reconciled", func() bool {
		r, err := d.Restored(t.Context())
		return err == nil && r == nil
	})
	if _, err := buy("another"); pay.Code(err) != pay.CodePolicy {
		t.Errorf("a fourth payment: %v", err)
	}
	rows, err := d.AllPayments(t.Context(), pay.LabelQuery{Label: string(pay.Settled), Limit: 10})
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d payments are settled, %v", len(rows), err)
	}
	hosts := 0
	for _, p := range rows {
		if p.Host != "" {
			hosts++
		}
	}
	if hosts != 2 {
		t.Errorf("%d payments have their hosts; only the one that had ended is known by the chain alone", hosts)
	}
	if h := w.Payer.Health(t.Context()); !h.OK {
		t.Errorf("health: %+v", h)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
