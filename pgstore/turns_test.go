package pgstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storetest"
	"github.com/purserpay/purser/policy"
)

// turns is a store of several nodes on one database. Each of the calls that decide about money goes to
// another node; the rest goes to the first one.
type turns struct {
	pay.Store
	nodes []*opener
	next  atomic.Uint32
}

func (s *turns) node() pay.Store { return s.nodes[int(s.next.Add(1))%len(s.nodes)].db }

func (s *turns) Check(ctx context.Context) error { return s.nodes[0].db.Check(ctx) }

func (s *turns) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	return s.node().Begin(ctx, b)
}

func (s *turns) Acquire(ctx context.Context, id, owner string, now, until time.Time) (*pay.Payment, error) {
	return s.node().Acquire(ctx, id, owner, now, until)
}

func (s *turns) Renew(ctx context.Context, id string, fence uint64, until time.Time) error {
	return s.node().Renew(ctx, id, fence, until)
}

func (s *turns) Record(ctx context.Context, o pay.Outcome) (*pay.Payment, pay.Effects, error) {
	return s.node().Record(ctx, o)
}

func (s *turns) Lapse(ctx context.Context, now time.Time, held func(string) bool) (int, error) {
	return s.node().Lapse(ctx, now, held)
}

func (s *turns) Payment(ctx context.Context, id string) (*pay.Payment, error) {
	return s.node().Payment(ctx, id)
}

func (s *turns) Counter(ctx context.Context, c pay.Counter) (money.Amount, error) {
	return s.node().Counter(ctx, c)
}

func (s *turns) Key(ctx context.Context, id string) (pay.Key, error) { return s.node().Key(ctx, id) }

func (s *turns) SetPolicy(ctx context.Context, id string, p *policy.Policy) (pay.Key, error) {
	return s.node().SetPolicy(ctx, id, p)
}

func (s *turns) StopKey(ctx context.Context, id string, stop pay.KeyStop) (pay.Key, error) {
	return s.node().StopKey(ctx, id, stop)
}

func (s *turns) CreateKey(ctx context.Context, k pay.NewKey) (pay.Key, error) {
	return s.node().CreateKey(ctx, k)
}

func (s *turns) CreateWallet(ctx context.Context, w pay.NewWallet, limit int) error {
	return s.node().CreateWallet(ctx, w, limit)
}

func (s *turns) AnswerApproval(ctx context.Context, q pay.ApprovalAnswering) (pay.Approval, error) {
	return s.node().AnswerApproval(ctx, q)
}

func (s *turns) SetPause(ctx context.Context, p *pay.Pause) error { return s.node().SetPause(ctx, p) }

// crowd opens several nodes on one database.
type crowd struct{ nodes []*opener }

func (c *crowd) Open(t testing.TB) pay.Store {
	t.Helper()
	s := &turns{nodes: c.nodes}
	for i, o := range c.nodes {
		if db := o.Open(t); i == 0 {
			s.Store = db
		}
	}
	return s
}

func (c *crowd) Close(t testing.TB) {
	t.Helper()
	for _, o := range c.nodes {
		o.Close(t)
	}
}

func (c *crowd) Kill(t testing.TB) { c.Close(t) }

func TestConformanceOfSeveralNodes(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	storetest.Run(t, func(t testing.TB) storetest.Opener {
		url := fresh(t, server)
		return &crowd{nodes: []*opener{{url: url}, {url: url}, {url: url}}}
	})
}
