package faults

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

// Times to let go by between the parts of the test.
const (
	// untilExpired is longer than any authorization lives, and a refused payment is kept.
	untilExpired = 10 * time.Minute
	// untilDue is longer than recovery ever waits for its next look.
	untilDue = 11 * time.Minute
)

// stage is a scenario at a door, in an installation of its own; its players come one after another.
type stage struct {
	name     string
	in       *installation
	scenario hostile.Scenario
	door     hostile.Door
	players  []*player
}

// player is a customer's part in a scenario.
type player struct {
	custom   hostile.Custom
	customer *hostile.Customer
	played   hostile.Played
	before   hostile.Books // as the RPC's fault has found them
}

// hangs reports whether its seller hangs.
func (s *stage) hangs() bool {
	return slices.ContainsFunc(s.scenario.Seller, func(f hostile.SellerFault) bool { return f.Hangs })
}

// stages are all scenarios at all doors.
func stages() []*stage {
	var all []*stage
	for _, s := range hostile.Scenarios() {
		for _, door := range hostile.Doors() {
			one := &stage{name: s.Name + "/" + string(door), scenario: s, door: door}
			for _, custom := range hostile.Customs() {
				if s.Fits(door, custom) && (*everybody || chosen(s, door, custom)) {
					one.players = append(one.players, &player{custom: custom})
				}
			}
			if len(one.players) > 0 {
				all = append(all, one)
			}
		}
	}
	return all
}

// chosen halves the number of customers, so that each kind meets each scenario at one door at least.
func chosen(s hostile.Scenario, door hostile.Door, c hostile.Custom) bool {
	return len(s.Doors) == 1 || (door == hostile.ProxyDoor) == (c.Twins || !c.Keyed && !c.HangsUp)
}

// each does something at all stages at once.
func each(t *testing.T, part string, all []*stage, do func(*testing.T, *stage)) {
	t.Helper()
	began := time.Now()
	t.Run(part, func(t *testing.T) {
		for _, s := range all {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				do(t, s)
			})
		}
	})
	t.Logf("%s took %v", part, time.Since(began).Round(time.Millisecond))
}

// Every scenario at every door, with every kind of customer: the customers come and go, then what was put off happens,
// then everything expires and recovery looks, with the RPC's faults if it has some and then without.
func TestScenarios(t *testing.T) {
	t.Parallel()
	g := realGround(t)
	all := stages()
	for _, s := range all {
		var change []func(*installation)
		if s.hangs() {
			change = append(change, impatientWithSellers)
		}
		s.in = install(t, g, change...)
	}
	each(t, "enrolment", all, func(t *testing.T, s *stage) {
		for _, p := range s.players {
			if p.customer = s.in.enroll(t); s.hangs() {
				p.customer.Patience = 2 * hostile.Patience
			}
		}
	})
	each(t, "customers", all, func(t *testing.T, s *stage) {
		for i, p := range s.players {
			p.played = s.scenario.Play(bounded(t), s.in.world, p.customer, s.door, p.custom, uint64(100+10*i))
			s.in.quiet(t, p.customer)
		}
		if !s.scenario.Expired {
			s.in.world.Late(bounded(t))
		}
	})
	g.pass(t, untilExpired)
	for n := range 2 {
		each(t, "recovery", all, func(t *testing.T, s *stage) {
			s.in.world.Late(bounded(t))
			rpc := s.scenario.RPC
			if rpc == nil || n >= len(rpc.Views) {
				return
			}
			s.in.world.RPC.Show(rpc.Views[n])
			for _, p := range s.players {
				p.before, _ = s.in.account(t, p.customer)
			}
			s.in.recover(t)
			for _, p := range s.players {
				now, ledger := s.in.account(t, p.customer)
				report(t, p.played.Meanwhile(p.before, now, ledger))
			}
		})
		g.pass(t, untilDue)
	}
	for n, open := 0, int64(1); n < rounds && open > 0; n++ {
		var left atomic.Int64
		each(t, "recovery with a good RPC", all, func(t *testing.T, s *stage) {
			s.in.world.Calm()
			s.in.recover(t)
			left.Add(int64(s.in.unfinished(t)))
		})
		g.pass(t, untilDue)
		open = left.Load()
	}
	each(t, "audit", all, func(t *testing.T, s *stage) {
		for _, p := range s.players {
			t.Run(p.custom.Name, func(t *testing.T) {
				books, ledger := s.in.account(t, p.customer)
				if report(t, p.played.Judge(s.in.world, books, ledger)); t.Failed() {
					tell(t, p.played, books, ledger)
				}
			})
		}
		if err := s.in.store.Check(bounded(t)); err != nil {
			t.Error(err)
		}
	})
}

// tell shows what a failed test is about.
func tell(t *testing.T, p hostile.Played, b hostile.Books, l hostile.Ledger) {
	t.Helper()
	t.Logf("the customer saw: %s", p.Story())
	for _, one := range b.Payments {
		t.Logf("payment %+v", one)
	}
	for _, one := range l.Transfers {
		t.Logf("transfer %+v", one)
	}
}
