package pay_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/x402"
)

// ears hear whose word counted for nothing, and why.
type ears struct {
	watcher
	mu    sync.Mutex
	heard map[string]int
}

func newEars() *ears { return &ears{watcher: watcher{}, heard: map[string]int{}} }

func (e *ears) Changed(*pay.Payment, pay.State, pay.Verdict) {}

func (e *ears) Undelivered(*pay.Payment) { e.mu.Lock(); defer e.mu.Unlock(); e.heard["undelivered"]++ }

func (e *ears) Ignored(rpc pay.TimeSource, _, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard[string(rpc)+" "+reason]++
}

func (e *ears) count(what string) int { e.mu.Lock(); defer e.mu.Unlock(); return e.heard[what] }

// rpc is an RPC that changes what the chain says.
type rpc struct {
	*truth
	change func(q pay.TraceQuery, t pay.Trace, err error) (pay.Trace, error)
}

func (r *rpc) Trace(ctx context.Context, q pay.TraceQuery) (pay.Trace, error) {
	t, err := r.truth.Trace(ctx, q)
	if r.change != nil {
		return r.change(q, t, err)
	}
	return t, err
}

// says makes an RPC say that nothing was used.
func saysUnused(_ pay.TraceQuery, t pay.Trace, err error) (pay.Trace, error) {
	t.Used, t.SafeUsed, t.SafeLogs, t.Transaction = false, false, false, ""
	return t, err
}

// lost makes a payment whose answer is lost, after or before the money moved.
func (w *world) lost(moves bool) *pay.Payment {
	w.t.Helper()
	w.fac.mode("", "fail")
	if moves {
		w.fac.mode("", "fail-moved")
	}
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	if _, err := w.payer.Pay(context.Background(), r); err == nil {
		w.t.Fatal("paid")
	}
	w.idle()
	rows, err := w.books.Payments(context.Background(), w.key, "", 10, "")
	if err != nil || len(rows) == 0 {
		w.t.Fatal(err)
	}
	return rows[0]
}

// What the safe block of an RPC says counts only with the block that the store has seen as safe, from neither the future
// nor the past. A transfer that was found counts without it, unless the RPC is on a fork.
func TestWhatAnRPCProves(t *testing.T) {
	t.Parallel()
	const fork = "0x00000000000000000000000000000000000000000000000000000000000f0f0f"
	for name, c := range map[string]struct {
		change func(w *world, t *pay.Trace)
		reason string
		used   bool // a transfer that it shows is believed
	}{
		"well":            {func(*world, *pay.Trace) {}, "", true},
		"from the future": {func(w *world, t *pay.Trace) { t.SafeTime = w.chain.clock().Add(3 * time.Minute) }, "block-ahead", true},
		"a latest block from the future": {
			func(w *world, t *pay.Trace) { t.Latest = w.chain.clock().Add(3 * time.Minute) }, "block-ahead", true,
		},
		"a minute ahead": {func(w *world, t *pay.Trace) { t.SafeTime = w.chain.clock().Add(time.Minute) }, "", true},
		"stale":          {func(w *world, t *pay.Trace) { t.Latest = w.chain.clock().Add(-3 * time.Minute) }, "stale", true},
		"on a fork":      {func(_ *world, t *pay.Trace) { t.KeptHash = fork }, "fork", false},
		"behind the kept block": {
			func(_ *world, t *pay.Trace) { t.KeptHash = "" }, "no-kept-block", true,
		},
	} {
		for _, moves := range []bool{false, true} {
			heard, chain := newEars(), &rpc{}
			w := newWorld(t, func(o *pay.Options) { o.Observer, o.Chain, chain.truth = heard, chain, o.Chain.(*truth) })
			p := w.lost(moves)
			chain.change = func(_ pay.TraceQuery, t pay.Trace, err error) (pay.Trace, error) {
				c.change(w, &t)
				return t, err
			}
			w.chain.advance(2 * time.Minute)
			for range 3 {
				w.chain.advance(2 * time.Minute)
				w.recoverOnce()
			}
			got, want := w.payment(p.ID), pay.Open
			switch {
			case moves && c.used:
				want = pay.Settled
			case !moves && c.reason == "":
				want = pay.Void
			}
			if got.State != want || got.Confirmed != (want == pay.Settled && c.reason == "") {
				t.Errorf("%s, moves %t: %s %v, want %s", name, moves, got.State, got.Flags(), want)
			}
			if told := c.reason != ""; told != (heard.count("rpc "+c.reason) > 0) {
				t.Errorf("%s: %v", name, heard.heard)
			}
			chain.change = nil
			w.recoverAll()
			if got := w.payment(p.ID); got.State == pay.Open || got.State == pay.Settled && !got.Confirmed {
				t.Errorf("%s, moves %t: in the end %s %v", name, moves, got.State, got.Flags())
			}
		}
	}
}

// The kept block follows the chain, and never goes back. Where it is another chain's, only an operator gets out.
func TestTheKeptBlock(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	chain := &rpc{}
	w := newWorld(t, func(o *pay.Options) { o.Chain, chain.truth = chain, o.Chain.(*truth) })
	safe := func(_ pay.TraceQuery, t pay.Trace, err error) (pay.Trace, error) {
		b := w.chain.block(w.chain.blockAt(t.SafeTime))
		t.SafeNumber, t.SafeHash = b.Number, b.Hash
		return t, err
	}
	kept := func() pay.ChainBlock {
		t.Helper()
		b, err := w.store.SafeBlock(ctx, "base")
		if err != nil || b == nil {
			t.Fatalf("%v, %v", b, err)
		}
		return *b
	}
	p := w.lost(false)
	first := kept() // from the first contact, before anything was looked for
	chain.change = safe
	w.chain.rpc(false, false)
	w.chain.advance(30 * time.Second)
	w.recoverOnce()
	if got := kept(); got != first {
		t.Errorf("kept %+v after half a minute", got)
	}
	w.chain.advance(time.Minute)
	w.recoverOnce()
	second := kept()
	if second.Number <= first.Number || w.payment(p.ID).State != pay.Void {
		t.Errorf("kept %+v after %+v, payment %s", second, first, w.payment(p.ID).State)
	}

	// The chain was another one all the time.
	w.chain.mu.Lock()
	w.chain.past = map[uint64]string{second.Number: strings.Replace(second.Hash, "0x0", "0xf", 1)}
	w.chain.mu.Unlock()
	q := w.lost(false)
	w.chain.advance(10 * time.Minute)
	w.recoverOnce()
	if got := w.payment(q.ID); got.State != pay.Open || kept() != second {
		t.Errorf("%s, kept %+v", got.State, kept())
	}
	if h := w.payer.Health(ctx); h.RPC.OK || !strings.Contains(h.RPC.Err.Error(), "rpc: the RPC has another block") {
		t.Errorf("health %+v", h.RPC)
	}
	if _, err := w.payer.ForgetSafeBlock(ctx, "mainnet"); err == nil {
		t.Error("a network that is not paid on")
	}
	if was, err := w.payer.ForgetSafeBlock(ctx, "base"); err != nil || was.Number != second.Number {
		t.Fatalf("%v, %v", was, err)
	}
	w.recoverAll()
	if got := w.payment(q.ID); got.State != pay.Void || kept().Number <= second.Number {
		t.Errorf("%s, kept %+v", got.State, kept())
	}
	w.chain.advance(time.Minute)
	if h := w.payer.Health(ctx); !h.RPC.OK {
		t.Errorf("health %+v", h.RPC)
	}
}

// The sandbox's chain is a new one each time: its store keeps no block.
func TestTheSandboxKeepsNoBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *pay.Options) {
		o.Store.(*memStore).Store = memory.New(memory.Options{World: pay.SandboxWorld})
	})
	p := w.lost(false)
	w.recoverAll()
	b, err := w.store.SafeBlock(context.Background(), "base")
	if b != nil || err != nil || w.payment(p.ID).State != pay.Void {
		t.Errorf("%v, %v, %s", b, err, w.payment(p.ID).State)
	}
}

// With two RPCs, both must say that the money did not move. One that lies, is behind or down keeps a payment open, and a
// repeat gets that payment.
func TestTwoRPCs(t *testing.T) {
	t.Parallel()
	down := func(pay.TraceQuery, pay.Trace, error) (pay.Trace, error) {
		return pay.Trace{}, context.DeadlineExceeded
	}
	behind := func(_ pay.TraceQuery, t pay.Trace, err error) (pay.Trace, error) {
		t.SafeTime = t.SafeTime.Add(-time.Hour)
		return t, err
	}
	for name, c := range map[string]struct {
		first, second func(pay.TraceQuery, pay.Trace, error) (pay.Trace, error)
		moves         bool
		want          pay.State
		heard         string
	}{
		"both say unused":           {nil, nil, false, pay.Void, ""},
		"both say used":             {nil, nil, true, pay.Settled, ""},
		"the first one lies":        {saysUnused, nil, true, pay.Open, "rpc_2 disagree"},
		"the second one lies":       {nil, saysUnused, true, pay.Settled, ""},
		"the second one is down":    {nil, down, false, pay.Open, "rpc_2 second-silent"},
		"down, and the money moved": {nil, down, true, pay.Settled, ""},
		"the second one is behind":  {nil, behind, false, pay.Open, ""},
	} {
		heard, first, second := newEars(), &rpc{change: c.first}, &rpc{change: c.second}
		w := newWorld(t, func(o *pay.Options) {
			first.truth = o.Chain.(*truth)
			second.truth = first.truth
			o.Chain, o.Second, o.Observer = first, second, heard
		})
		p := w.lost(c.moves)
		w.chain.advance(5 * time.Minute)
		w.recoverOnce()
		got := w.payment(p.ID)
		if got.State != c.want {
			t.Errorf("%s: %s, want %s", name, got.State, c.want)
		}
		if c.heard != "" && heard.count(c.heard) == 0 || c.heard == "" && len(heard.heard) > 0 {
			t.Errorf("%s: heard %v", name, heard.heard)
		}
		if c.want == pay.Open {
			r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
			if _, err := w.payer.Pay(context.Background(), r); err == nil {
				t.Errorf("%s: the repeat was paid anew", name)
			}
		}
		first.change, second.change = nil, nil
		w.recoverAll()
		if got := w.payment(p.ID); (got.State == pay.Settled) != c.moves || got.State == pay.Open {
			t.Errorf("%s: in the end %s", name, got.State)
		}
		if n := w.chain.moves(); n > 1 {
			t.Errorf("%s: %d transfers", name, n)
		}
	}
}

// A settlement is disputed only if both RPCs say so.
func TestTwoRPCsDispute(t *testing.T) {
	t.Parallel()
	first, second := &rpc{change: saysUnused}, &rpc{}
	w := newWorld(t, func(o *pay.Options) {
		first.truth = o.Chain.(*truth)
		second.truth = first.truth
		o.Chain, o.Second = first, second
	})
	honest := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/x", "100", "k"))
	w.fac.mode("", "lie")
	claimed := w.mustPay(w.rest(pay.SettlePayer, "https://a.example/y", "100", "l"))
	w.recoverAll()
	if got := w.payment(honest.ID); got.Disputed || got.Confirmed {
		t.Errorf("one RPC lies: %v", got.Flags())
	}
	if got := w.payment(claimed.ID); !got.Disputed {
		t.Errorf("both say that it never was: %v", got.Flags())
	}
}

// elsewhere is an RPC of other networks.
type elsewhere struct{}

func (elsewhere) Identify(context.Context, x402.Network, x402.Asset) (pay.ChainIdentity, error) {
	return pay.ChainIdentity{}, pay.ErrUnwatched
}

func (elsewhere) Balance(context.Context, x402.Network, x402.Asset, x402.Address) (money.Amount, error) {
	return money.Amount{}, pay.ErrUnwatched
}

func (elsewhere) Trace(context.Context, pay.TraceQuery) (pay.Trace, error) {
	return pay.Trace{}, pay.ErrUnwatched
}

// On a network without a second RPC the first one's word is enough. On one without any RPC a payment
// ends as without one.
func TestRPCsOfOtherNetworks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(o *pay.Options)
		want func(p *pay.Payment) bool
	}{
		"second": {func(o *pay.Options) { o.Second = elsewhere{} }, func(p *pay.Payment) bool { return p.State == pay.Void }},
		"both":   {func(o *pay.Options) { o.Chain, o.Second = elsewhere{}, elsewhere{} }, func(p *pay.Payment) bool { return p.Unresolved }},
	} {
		w := newWorld(t, c.set)
		p := w.lost(false)
		w.chain.advance(5 * time.Minute)
		w.recoverAll()
		if got := w.payment(p.ID); !c.want(got) {
			t.Errorf("%s: %s %v", name, got.State, got.Flags())
		}
		h := w.payer.Health(t.Context())
		if h.SecondRPC.Configured && !h.SecondRPC.OK || h.RPC.OK != (name == "second") {
			t.Errorf("%s: %+v", name, h)
		}
	}
}
