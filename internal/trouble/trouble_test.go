package trouble_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// well returns the sight of a purser without any trouble.
func well() trouble.Sight {
	up := pay.Probe{Configured: true, OK: true}
	return trouble.Sight{Health: pay.Health{OK: true, Store: up, Facilitator: up, RPC: up, SecondRPC: up, Clock: pay.ClockState{OK: true, Whose: "purser"}}}
}

func network(name string) x402.Network {
	n, _ := x402.NetworkByWire(name)
	return n
}

// The words name the network that stops, and the setting to look at.
func TestFindNamesNetworks(t *testing.T) {
	t.Parallel()
	s, down := well(), pay.Probe{Configured: true, Err: errors.New("no route to host")}
	s.Health.RPC = pay.Probe{Configured: true, Err: pay.ErrUnwatched}
	s.Health.Networks = []pay.NetworkHealth{{Network: network("base"), RPC: s.Health.RPC, RPCSetting: "PURSER_RPC_URL"}}
	if list := trouble.Find(s); len(list) != 1 || !strings.Contains(list[0].Says, "has no RPC") || !strings.Contains(list[0].Do, "Set one (PURSER_RPC_URL)") {
		t.Errorf("%+v", list)
	}
	s.Health.RPC, s.Health.SecondRPC = down, down
	s.Health.Networks = []pay.NetworkHealth{{Network: network("base")}, {
		Network: network("tempo"), RPC: down, RPCSetting: "PURSER_RPC_URL_TEMPO", Unready: true, SecondRPC: down, SecondRPCSetting: "PURSER_RPC_URL_TEMPO_2",
	}}
	list := trouble.Find(s)
	if len(list) != 2 || !strings.Contains(list[0].Means, "paid on Tempo") || !strings.Contains(list[0].Do, "(PURSER_RPC_URL_TEMPO)") ||
		!strings.Contains(list[1].Do, "(PURSER_RPC_URL_TEMPO_2)") {
		t.Errorf("%+v", list)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	down := pay.Probe{Configured: true, Err: errors.New("no route to host")}
	at := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	bytes := func(n uint64) *uint64 { return &n }
	for _, c := range []struct {
		what string
		with func(*trouble.Sight)
		want string // codes with effects
		says string
		exit int
	}{
		{"nothing", func(*trouble.Sight) {}, "", "", 0},
		{"nothing is configured", func(s *trouble.Sight) {
			s.Health.RPC, s.Health.SecondRPC, s.Health.Facilitator = pay.Probe{}, pay.Probe{}, pay.Probe{}
		}, "", "", 0},
		{"store", func(s *trouble.Sight) { s.Health.Store = down }, "store stops", "no route to host", 1},
		{"restored", func(s *trouble.Sight) { s.Health.Reconciling = &pay.ReconcileStatus{Restore: pay.Restore{At: at}} }, "reconciling stops", "restored", 1},
		{"copied", func(s *trouble.Sight) {
			s.Health.Reconciling = &pay.ReconcileStatus{Restore: pay.Restore{At: at, Copied: true}}
		}, "reconciling stops", "copied or moved", 1},
		{"paused", func(s *trouble.Sight) {
			s.Health.Paused = &pay.Pause{At: at, Reason: "moving", By: pay.Operator("ann")}
		}, "paused stops", "by the operator ann: moving", 1},
		{"clock", func(s *trouble.Sight) {
			s.Health.Clock = pay.ClockState{Whose: "purser", Sources: []pay.SourceTime{{Source: pay.SourceRPC, Known: true, Ahead: time.Minute}}}
		}, "clock soon", "ahead of rpc by 1m0s", 2},
		{"clock that stops", func(s *trouble.Sight) { s.Health.Clock = pay.ClockState{Stopped: true, Whose: "purser"} }, "clock stops", "no new payments", 1},
		{"signer", func(s *trouble.Sight) { s.Health.Signer = down }, "signer stops", "no route", 1},
		{"facilitator", func(s *trouble.Sight) { s.Health.Facilitator = down }, "facilitator stops", "no route", 1},
		{"facilitator that rests", func(s *trouble.Sight) { s.FacilitatorRests = errors.New("failed 5 times") }, "facilitator stops", "failed 5 times", 1},
		{"RPC", func(s *trouble.Sight) { s.Health.RPC = down }, "rpc soon", "no route", 2},
		{"RPC of a network that needs it", func(s *trouble.Sight) {
			s.Health.RPC = down
			s.Health.Networks = []pay.NetworkHealth{
				{Network: network("base"), RPC: pay.Probe{Configured: true, OK: true}, RPCSetting: "PURSER_RPC_URL"},
				{Network: network("tempo"), RPC: down, RPCSetting: "PURSER_RPC_URL_TEMPO", Unready: true},
			}
		}, "rpc stops", "no route", 1},
		{"RPC that is behind", func(s *trouble.Sight) {
			s.Health.Clock = pay.ClockState{Whose: "purser", Sources: []pay.SourceTime{{Source: pay.SourceRPC, Known: true, BlockKnown: true, BlockAhead: 4 * time.Minute}}}
		}, "clock soon", "the clock of purser is right", 2},
		{"RPC that is behind, or the clock", func(s *trouble.Sight) {
			s.Health.Clock = pay.ClockState{Whose: "purser", Sources: []pay.SourceTime{{Source: pay.SourceRPC, BlockKnown: true, BlockAhead: 4 * time.Minute}}}
		}, "clock soon", "is wrong", 2},
		{"both RPCs and a payment", func(s *trouble.Sight) { s.Health.RPC, s.Health.SecondRPC, s.Unresolved = down, down, 2 }, "rpc soon, second-rpc soon, unresolved look", "no route", 2},
		{"disk", func(s *trouble.Sight) { s.DiskFree, s.DiskLeast = bytes(150<<20), bytes(64<<20) }, "disk soon", "150 MiB", 2},
		{"disk with room", func(s *trouble.Sight) { s.DiskFree, s.DiskLeast = bytes(1<<30), bytes(64<<20) }, "", "", 0},
		{"wallets", func(s *trouble.Sight) {
			s.Empty = []trouble.Wallet{{Name: "that of key a", Network: "Base", Address: "0x1"}, {Name: "b"}}
			s.Low = []trouble.Wallet{{Name: "c", Balance: money.New(10_000)}}
		}, "wallet-empty soon, wallet-low soon", "that of key a, 0x1 on Base and 1 other wallet", 2},
		{"payments", func(s *trouble.Sight) { s.Disputed, s.Unresolved, s.Held = 1, 2, 3 }, "disputed look, unresolved look, approvals look", "1 payment is disputed", 0},
		{"hosts", func(s *trouble.Sight) { s.PausedHosts = []string{"api.example.com for a: 5 payments", "b"} }, "hosts-paused look", "api.example.com for a: 5 payments and 1 other", 0},
		{"notices", func(s *trouble.Sight) { s.Notices = []string{"chat: 404", "mail: x"} }, "notices look", "chat: 404 and 1 other destination", 0},
		{"the worst first", func(s *trouble.Sight) { s.Held, s.Health.RPC, s.Health.Signer = 1, down, down }, "signer stops, rpc soon, approvals look", "", 1},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := well()
			c.with(&s)
			found := trouble.Find(s)
			var codes []string
			for _, one := range found {
				codes = append(codes, one.Code+" "+string(one.Effect))
				if one.Says == "" || one.Means == "" || one.Do == "" || one.Page == "" || strings.HasSuffix(one.Says, ".") {
					t.Errorf("%+v", one)
				}
			}
			if got := strings.Join(codes, ", "); got != c.want || len(found) > 0 && !strings.Contains(found[0].Says, c.says) {
				t.Errorf("%s: %+v", got, found)
			}
			if got := trouble.Exit(found); got != c.exit {
				t.Errorf("exit %d", got)
			}
		})
	}
}

// source is a purser whose health a test sets.
type source struct {
	health  pay.Health
	held    int
	notices []pay.Notice
	lost    error
}

func (s *source) Health(context.Context) pay.Health { return s.health }

func (s *source) CountOpen(context.Context, string) (int, error) { return 0, nil }

func (s *source) Approvals(context.Context, pay.ApprovalQuery) ([]pay.Approval, error) {
	return make([]pay.Approval, s.held), nil
}

func (s *source) AddNotices(_ context.Context, list []pay.Notice) error {
	if s.lost != nil {
		return s.lost
	}
	s.notices = append(s.notices, list...)
	return nil
}

// People are told of a trouble that lasts, once, and of its end, also across a reload.
func TestWatchTells(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
	s := &source{health: well().Health}
	o := trouble.Source{Payer: s, Store: s, Tells: true, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)}
	w := trouble.NewWatch(o)
	told := func(d time.Duration, want int) {
		t.Helper()
		now = now.Add(d)
		w.Once(t.Context())
		if len(s.notices) != want {
			t.Fatalf("%+v", s.notices)
		}
	}
	told(0, 0)
	s.health.RPC, s.held = pay.Probe{Configured: true, Err: errors.New("no route")}, 1
	told(15*time.Second, 0)
	since := now
	if list := w.Now(t.Context()); len(list) != 2 || !list[0].Since.Equal(since) {
		t.Errorf("%+v", list)
	}
	told(30*time.Second, 0)
	next := trouble.NewWatch(o) // a reload
	next.Inherit(w)
	w = next
	s.lost = errors.New("the disk is full")
	told(40*time.Second, 0)
	s.lost = nil
	told(15*time.Second, 1)
	if n := s.notices[0]; n.Kind != pay.NoticeTrouble || n.Figures["trouble"] != "rpc" || !strings.Contains(n.Text, "no route") || n.Figures["since"] != "2026-11-29T03:00:15Z" {
		t.Errorf("%+v", n)
	}
	told(15*time.Minute, 1)
	s.health.RPC = pay.Probe{Configured: true, OK: true}
	told(15*time.Second, 2)
	if n := s.notices[1]; n.Figures["over"] != "true" || !strings.HasPrefix(n.Title, "Over: ") {
		t.Errorf("%+v", n)
	}
	told(time.Minute, 2)
	if list := w.Now(t.Context()); len(list) != 1 || list[0].Code != "approvals" {
		t.Errorf("%+v", list)
	}
}

// A wallet that was refilled is no trouble ten seconds later.
func TestWatchLooksAtWallets(t *testing.T) {
	t.Parallel()
	now, asked := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC), 0
	s, have, low := &source{health: well().Health}, money.New(0), money.New(100)
	w := trouble.NewWatch(trouble.Source{
		Payer: s, Store: s, Low: &low, Clock: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
		Wallets: func(context.Context) ([]trouble.Wallet, error) {
			asked++
			return []trouble.Wallet{{Name: "a", Balance: have}}, nil
		},
	})
	for _, step := range []struct {
		after time.Duration
		have  uint64
		want  string
		asked int
	}{
		{0, 0, "wallet-empty", 1},
		{3 * time.Second, 0, "wallet-empty", 1},
		{10 * time.Second, 99, "wallet-low", 2},
		{10 * time.Second, 100, "", 3},
		{time.Minute, 0, "", 3},
		{5 * time.Minute, 0, "wallet-empty", 4},
	} {
		now, have = now.Add(step.after), money.New(step.have)
		code := ""
		for _, one := range w.Now(t.Context()) {
			code += one.Code
		}
		if code != step.want || asked != step.asked {
			t.Errorf("%+v: %q, asked %d times", step, code, asked)
		}
	}
}
