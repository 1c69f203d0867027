package faults

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/sandbox/hostile"
)

// The tests of this file break purser on purpose: what the others rely on must notice.

// forgetful is a store that recognizes no repeats.
type forgetful struct{ pay.Store }

func (s forgetful) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	changed := *b
	changed.IdempotencyKey = ""
	_, _ = rand.Read(changed.Identity[:])
	if b.New != nil {
		changed.New = b.New.Clone()
		changed.New.IdempotencyKey, changed.New.Identity = "", changed.Identity
	}
	return s.Store.Begin(ctx, &changed)
}

// lossy is a store that loses settlements and says that it wrote them.
type lossy struct{ pay.Store }

func (s lossy) Record(ctx context.Context, o pay.Outcome) (*pay.Payment, pay.Effects, error) {
	if o.Verdict != pay.VerdictSettled {
		return s.Store.Record(ctx, o)
	}
	o.Verdict, o.Transaction, o.EventID, o.ClaimedTransaction = pay.Unclear, "", "", false
	row, fx, err := s.Store.Record(ctx, o)
	if row != nil {
		row.State = pay.Settled
	}
	return row, fx, err
}

// hasty is a facilitator client that takes silence for a refusal, as payers have done.
type hasty struct{ pay.Facilitator }

func (f hasty) Settle(ctx context.Context, x pay.Exchange) (pay.SettleAnswer, error) {
	a, err := f.Facilitator.Settle(ctx, x)
	if err != nil {
		return pay.SettleAnswer{Reason: "insufficient_funds"}, nil
	}
	return a, nil
}

func TestABrokenPurserIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scenario string
		door     hostile.Door
		breaking func(*installation)
		rules    []hostile.Rule // that must be found broken
	}{
		"repeats are not recognized at the proxy": {
			"seller settles and answers 500", hostile.ProxyDoor,
			func(in *installation) { in.wrapStore = func(s pay.Store) pay.Store { return forgetful{s} } },
			[]hostile.Rule{hostile.RuleOnce},
		},
		"repeats are not recognized at the API": {
			"facilitator is reset after the transfer", hostile.PayerDoor,
			func(in *installation) { in.wrapStore = func(s pay.Store) pay.Store { return forgetful{s} } },
			[]hostile.Rule{hostile.RuleOnce},
		},
		"settlements are lost": {
			"nothing fails", hostile.PayerDoor,
			func(in *installation) { in.wrapStore = func(s pay.Store) pay.Store { return lossy{s} } },
			[]hostile.Rule{hostile.RuleBooked, hostile.RuleSum, hostile.RuleClosed, hostile.RuleEnd},
		},
		"silence is taken for a refusal": {
			"facilitator is reset after the transfer", hostile.PayerDoor,
			func(in *installation) {
				in.noRPC = true // it would know better
				in.wrapFacilitator = func(f pay.Facilitator) pay.Facilitator { return hasty{f} }
			},
			[]hostile.Rule{hostile.RuleBooked}, // the order is not paid twice, but its payment is unknown
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGround(t)
			in := install(t, g, c.breaking)
			list := hostile.Scenarios()
			at := slices.IndexFunc(list, func(s hostile.Scenario) bool { return s.Name == c.scenario })
			if at < 0 {
				t.Fatalf("no scenario %q", c.scenario)
			}
			customer := in.enroll(t)
			played := list[at].Play(bounded(t), in.world, customer, c.door, hostile.Custom{Keyed: true}, 100)
			in.settle(t, customer)
			books, ledger := in.account(t, customer)
			found := played.Judge(in.world, books, ledger)
			for _, rule := range c.rules {
				if !slices.ContainsFunc(found, func(f hostile.Finding) bool { return f.Rule == rule }) {
					t.Errorf("%q was not found among %v", rule, found)
				}
			}
			if t.Failed() {
				tell(t, played, books, ledger)
			}
		})
	}
}
