package pgstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/testing/histories"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
	"github.com/purserpay/purser/policy"
)

var historiesFor = flag.Duration("histories", 4*time.Second, "how long TestHistories begins new histories")

// calls makes the calls of one of a history's callers to a node.
type calls func(caller int, d *pgstore.DB)

// Callers at three nodes, whose clocks are minutes apart, contend for budgets, leases and approvals. Meanwhile the
// database ends connections, and is read-only at times. All that the callers are told fits one order of their calls.
func TestHistories(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url, lost := fresh(t, server), int64(0)
	var nodes []*pgstore.DB
	for _, ahead := range []time.Duration{-2 * time.Minute, 0, 2 * time.Minute} {
		nodes = append(nodes, node(t, pgstore.Options{URL: url, Dir: t.TempDir(), Clock: func() time.Time { return time.Now().Add(ahead) }}))
	}
	var all []*histories.History
	for end := time.Now().Add(*historiesFor); time.Now().Before(end); {
		var under sync.WaitGroup
		begin := func(h *histories.History, call calls) {
			all = append(all, h)
			for caller := range 6 {
				under.Go(func() { call(caller, nodes[caller%len(nodes)]) })
			}
		}
		begin(budgetOf(t, false))
		begin(budgetOf(t, true))
		begin(leaseOf(t, nodes))
		begin(leaseOf(t, nodes))
		begin(approvalsOf(t))
		round, over := context.WithCancel(t.Context())
		go func() { under.Wait(); over() }()
		for round.Err() == nil {
			time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
			if lost += server.EndConnections(t); rand.IntN(4) == 0 {
				server.ReadOnly(t, true)
				server.ReadOnly(t, false)
			}
		}
	}
	histories.Check(t, all...)
	if _, err := insist(t.Context(), func() (any, error) { return nil, nodes[0].Check(t.Context()) }); err != nil || lost == 0 {
		t.Errorf("%d connections were lost, %v", lost, err)
	}
}

// told returns what a caller was told. If its answer was lost, its call is over once the node writes.
func told(t *testing.T, d *pgstore.DB, err, refusal error) histories.Outcome {
	switch {
	case err == nil:
		return histories.Outcome{Said: histories.Done}
	case errors.Is(err, refusal):
		return histories.Outcome{Said: histories.Refused}
	case errors.Is(err, pay.ErrUnavailable), errors.Is(err, pay.ErrQueued):
		wait(t, "writing again", func() bool { return d.Stats().Down == "" })
	default:
		t.Error(err)
	}
	return histories.Outcome{Said: histories.Unknown}
}

// budgetOf plays with the budget of a key, or with one that two keys share. Payments are made, and most become void.
func budgetOf(t *testing.T, shared bool) (*histories.History, calls) {
	keys, most := []pay.Key{{ID: uuid.NewString()}}, money.New(20)
	counter := pay.DailyCounter(keys[0].ID, "USDC", time.Now())
	if shared {
		keys, counter = append(keys, pay.Key{ID: uuid.NewString()}), pay.PlaceCounter("org/"+keys[0].ID, time.Now())
	}
	h := histories.New("budget "+keys[0].ID, histories.Budget(20))
	return h, func(caller int, d *pgstore.DB) {
		ctx := context.Background()
		for range 10 {
			b := callOf(keys[rand.IntN(len(keys))], d.Now())
			r := histories.Reserve{ID: b.New.ID, Amount: 1 + rand.Uint64N(5)}
			b.Place = pay.Limit{Reservation: pay.Reservation{Counter: counter, Amount: money.New(r.Amount), Release: pay.ReleaseBudget}, Max: &most, Refusal: errBudget}
			b.Limits, b.MaxUnanswered = nil, 0
			out := h.Do(caller, r, func() histories.Outcome {
				begun, err := d.Begin(ctx, b)
				if err == nil && begun.How != pay.Created {
					err = fmt.Errorf("a payment of its own got %d", begun.How)
				}
				return told(t, d, err, errBudget)
			})
			switch {
			case out.Said != histories.Done:
			case rand.IntN(6) == 0:
				b.New.Lease.Fence = 1
				_, _, err := d.Record(ctx, settledOf(b.New))
				told(t, d, err, nil)
			default:
				h.Do(caller, histories.Release(r), func() histories.Outcome {
					_, _, err := d.Record(ctx, pay.Outcome{PaymentID: r.ID, Fence: 1, At: d.Now(), Verdict: pay.VerdictVoid, Release: true})
					return told(t, d, err, nil)
				})
			}
			h.Do(caller, histories.Sum{}, func() histories.Outcome {
				n, err := d.Counter(ctx, counter)
				out := told(t, d, err, nil)
				out.N = n.Big().Uint64()
				return out
			})
		}
	}
}

// leaseOf plays with the lease of a payment. Callers take it for some milliseconds, rely on it, extend it, and end it or
// not.
func leaseOf(t *testing.T, nodes []*pgstore.DB) (*histories.History, calls) {
	begun, err := insist(t.Context(), func() (pay.Begun, error) { // its lease is over
		return nodes[0].Begin(t.Context(), callOf(pay.Key{ID: uuid.NewString()}, nodes[0].Now().Add(-pay.LeaseTime)))
	})
	if err != nil {
		t.Fatal(err)
	}
	id := begun.Payment.ID
	h := histories.New("lease "+id, histories.Lease(1))
	return h, func(caller int, d *pgstore.DB) {
		ctx, fence, until := context.Background(), uint64(0), time.Time{} // fence 0: it has no lease
		do := func(in any, refusal error, call func() error) (done bool) {
			return h.Do(caller, in, func() histories.Outcome {
				out := told(t, d, call(), refusal)
				if _, takes := in.(histories.Acquire); takes && out.Said == histories.Done {
					out.N = fence
				}
				return out
			}).Said == histories.Done
		}
		for n := range 12 {
			now := d.Now()
			end := now.Add(time.Duration(5+rand.IntN(60)) * time.Millisecond)
			switch what := rand.IntN(8); {
			case fence == 0 && what == 0:
				do(histories.Lapse{Now: now.UnixNano()}, nil, func() error {
					_, err := d.Lapse(ctx, now, func(other string) bool { return other != id })
					return err
				})
			case fence == 0:
				owner := fmt.Sprint(caller, "/", n)
				do(histories.Acquire{Owner: owner, Now: now.UnixNano(), Until: end.UnixNano()}, pay.ErrLeaseHeld, func() error {
					p, err := d.Acquire(ctx, id, owner, now, end)
					if err == nil {
						fence, until = p.Lease.Fence, end
					}
					return err
				})
			case what < 2:
				if until = end; !do(histories.Renew{Fence: fence, Until: end.UnixNano()}, pay.ErrLeaseLost, func() error { return d.Renew(ctx, id, fence, end) }) {
					fence = 0
				}
			case what < 4:
				do(histories.End{Fence: fence}, pay.ErrLeaseLost, func() error {
					_, _, err := d.Record(ctx, pay.Outcome{PaymentID: id, Fence: fence, At: now, Release: true})
					return err
				})
				fence = 0
			default:
				h.Do(caller, histories.Holds{Fence: fence}, func() histories.Outcome {
					wrong := time.Duration(0) // by so much may nodes differ
					for _, other := range nodes {
						wrong += other.Stats().ClockBound
					}
					if d.Now().Add(wrong).Before(until) {
						return histories.Outcome{Said: histories.Done}
					}
					return histories.Outcome{Said: histories.Unknown}
				})
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		}
	}
}

// approvalsOf plays with the approvals of a key. Callers ask for payments that need one, and people answer.
func approvalsOf(t *testing.T) (*histories.History, calls) {
	k := pay.Key{ID: uuid.NewString()}
	h := histories.New("approvals "+k.ID, histories.Approvals())
	var asked [histories.Terms]sync.Map // ids
	return h, func(caller int, d *pgstore.DB) {
		for range 12 {
			terms, id := rand.IntN(histories.Terms), ""
			asked[terms].Range(func(one, _ any) bool { id = one.(string); return rand.IntN(2) == 0 })
			if id != "" && rand.IntN(2) == 0 {
				a := histories.Answer{Terms: terms, ID: id, Yes: rand.IntN(8) > 0}
				h.Do(caller, a, func() histories.Outcome {
					ctx := pay.WithActor(t.Context(), pay.Actor{Kind: pay.ActorAccount, ID: uuid.NewString()})
					_, err := insist(ctx, func() (pay.Approval, error) {
						return d.AnswerApproval(ctx, pay.ApprovalAnswering{ID: id, Answer: map[bool]pay.ApprovalAnswer{true: pay.Approved, false: pay.Denied}[a.Yes], At: d.Now()})
					})
					return told(t, d, err, pay.ErrApprovalClosed)
				})
				continue
			}
			b := callOf(k, d.Now())
			b.MaxUnanswered, b.Policy = 0, &policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(4))}
			b.New.Terms.Amount = money.New(uint64(5 + terms))
			b.New.Authorization.Value = b.New.Terms.Amount
			b.Approval = &pay.Approval{
				ID: uuid.Must(uuid.NewV7()).String(), KeyID: k.ID, Door: b.New.Door, Host: b.New.Host, URL: b.New.RequestURL, Terms: b.New.Terms, Currency: "USDC",
				Purchase: pay.HashOf(b.New.Terms.String()), Created: b.Now, Expires: b.Now.Add(time.Hour),
			}
			h.Do(caller, histories.Pay{Terms: terms, ID: b.Approval.ID}, func() histories.Outcome {
				begun, err := d.Begin(context.Background(), b)
				if denied, is := errors.AsType[*pay.ApprovalError](err); is {
					return histories.Outcome{Said: histories.Refused, ID: denied.Approval.ID}
				}
				if err == nil && begun.Approval == nil {
					err = fmt.Errorf("a payment that needs an approval got %d", begun.How)
				}
				out := told(t, d, err, nil)
				if err == nil {
					out.ID = begun.Approval.ID
				}
				if begun.How == pay.Unapproved {
					out.Said = histories.Waits
					asked[terms].Store(out.ID, true)
				}
				return out
			})
		}
	}
}
