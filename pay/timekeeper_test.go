package pay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// answer has a source answer with a Date, after a request that took some time.
func (c *truth) answer(d pay.Dates, took, wrong time.Duration) {
	answered := d()
	c.advance(took)
	answered(c.clock().Add(wrong).Truncate(time.Second))
}

func TestTimekeeper(t *testing.T) {
	t.Parallel()
	c := newTruth()
	keeper := pay.NewTimekeeper(c.clock)
	rpc, fac := keeper.Dates(pay.SourceRPC), keeper.Dates(pay.SourceFacilitator)
	state := func(ok, stopped bool) pay.ClockState {
		t.Helper()
		s := keeper.State()
		if s.OK != ok || s.Stopped != stopped || len(s.Sources) != 2 {
			t.Fatalf("%+v", s)
		}
		return s
	}
	if s := state(true, false); s.Sources[0].Known || s.Sources[1].Known {
		t.Fatalf("something is known: %+v", s)
	}
	c.answer(fac, 0, 999*time.Millisecond) // a Date is cut to a second
	c.answer(rpc, 90*time.Second, 0)       // and may be of any moment of a long request
	c.answer(rpc, 90*time.Second, -89*time.Second)
	if s := state(true, false); s.Sources[0].Ahead != 0 || !s.Sources[0].Known || s.Sources[1].Known {
		t.Fatalf("%+v: an observation counts for two minutes", s)
	}
	c.answer(rpc, 0, -40*time.Second)
	if s := state(false, false); s.Sources[0].Ahead != 39*time.Second {
		t.Fatalf("%+v", s)
	}
	c.answer(rpc, 0, time.Hour) // a single one
	state(false, false)
	c.answer(rpc, 0, -time.Hour) // and another one that contradicts it
	state(false, false)
	c.answer(fac, 0, 0)
	c.answer(rpc, 0, -time.Hour)
	state(false, true)
	c.advance(3 * time.Minute) // without questions, what was known expires
	state(true, false)
	c.answer(rpc, 0, -time.Hour)
	state(false, true)
	c.answer(rpc, 0, 0)
	state(true, false)
	c.advance(-10 * time.Minute) // what was seen is from the future
	if s := state(true, false); s.Sources[0].Known {
		t.Fatalf("%+v", s)
	}
}

// A difference is logged when it begins and when it ends, not with every answer.
func TestAWrongClockIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var fac pay.Dates
	w := newWorld(t, func(o *pay.Options) {
		o.Time = pay.NewTimekeeper(o.Clock)
		fac = o.Time.Dates(pay.SourceFacilitator)
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, wrong := range []time.Duration{0, 35, 29, 31, 40, 3600, 3600, 3600, 3600, 0, 0} {
		w.chain.answer(fac, 0, wrong*time.Second)
	}
	text := log.String()
	for line, want := range map[string]int{"our clock and a source's differ": 1, "no new payments": 1, "agree again": 1} {
		if n := strings.Count(text, line); n != want {
			t.Errorf("%d times %q, want %d:\n%s", n, line, want, text)
		}
	}
}

// The clock is read a month ahead for one tick of recovery, or was a month behind when a payment was closed. Its
// idempotency key is not forgotten: the repeat gets that payment. With sources of time, not even a clock that stays
// wrong forgets it.
func TestAWrongClockForgetsNoIdempotencyKey(t *testing.T) {
	t.Parallel()
	for name, tell := range map[string]bool{"without sources": false, "with sources": true} {
		for tick, jump := range map[string]time.Duration{"ahead": pay.RetainPayload + 24*time.Hour, "behind": -pay.RetainPayload - time.Hour} {
			t.Run(name+"/"+tick, func(t *testing.T) {
				t.Parallel()
				var dates pay.Dates
				w := newWorld(t, func(o *pay.Options) {
					o.Time = pay.NewTimekeeper(o.Clock)
					if tell {
						dates = o.Time.Dates(pay.SourceFacilitator)
					}
				})
				truthful := func(wrong time.Duration) {
					if tell {
						w.chain.answer(dates, 0, wrong)
						w.chain.answer(dates, 0, wrong)
					}
				}
				truthful(0)
				r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
				p := w.mustPay(r)
				w.recoverAll()
				w.chain.advance(jump)
				w.recoverOnce()
				if tell { // it stays wrong
					for range 3 {
						w.chain.advance(2 * time.Hour)
						truthful(-jump)
						w.recoverOnce()
					}
					w.chain.advance(-6 * time.Hour)
				}
				w.chain.advance(-jump)
				truthful(0)
				w.recoverOnce()
				if again := w.mustPay(r); again.ID != p.ID {
					t.Fatal("the idempotency key was forgotten")
				}
				if got := w.payment(p.ID); got.Retired {
					t.Fatal("retired")
				}
				w.chain.advance(2*pay.RetainPayload + 3*24*time.Hour)
				for range 3 {
					truthful(0)
					w.recoverOnce()
					w.chain.advance(2 * time.Hour)
				}
				if got := w.payment(p.ID); !got.Retired {
					t.Fatalf("never retired: check %v", got.Check)
				}
			})
		}
	}
}

// The clock is a month behind while a payment is closed, and right again: it was closed a month ago by the books, and is
// kept from when it was made.
func TestClosedByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.lost(true)
	w.chain.mu.Lock()
	w.chain.now = w.chain.now.Add(-pay.RetainPayload - 2*time.Hour)
	w.chain.mu.Unlock()
	tx := w.chain.transaction(p.Authorization.Nonce)
	if tx == "" {
		t.Fatal("the money did not move")
	}
	_, _, err := w.store.Record(context.Background(), pay.Outcome{
		PaymentID: p.ID, At: w.chain.clock(), Verdict: pay.VerdictSettled, Transaction: tx, EventID: "e",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.chain.advance(pay.RetainPayload + 2*time.Hour)
	w.recoverAll()
	w.chain.advance(2 * time.Hour)
	w.recoverAll()
	if got := w.payment(p.ID); got.Retired || !got.Confirmed {
		t.Errorf("%v, retired %t", got.Flags(), got.Retired)
	}
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	if again := w.mustPay(r); again.ID != p.ID {
		t.Error("the idempotency key was forgotten")
	}
}

// A block that is far ahead of our clock, twice, stops new payments, until a good one is seen.
func TestABlockAheadStopsPayments(t *testing.T) {
	t.Parallel()
	chain := &rpc{}
	w := newWorld(t, func(o *pay.Options) { o.Chain, chain.truth = chain, o.Chain.(*truth) })
	w.lost(false)
	chain.change = func(_ pay.TraceQuery, t pay.Trace, err error) (pay.Trace, error) {
		t.Latest = w.chain.clock().Add(time.Hour)
		return t, err
	}
	w.fac.mode("", "")
	pays := func() bool {
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, "https://a.example/y", "100", ""))
		return err == nil
	}
	w.chain.advance(30 * time.Second)
	w.recoverOnce()
	if !pays() {
		t.Error("one block stops payments")
	}
	w.chain.advance(time.Minute)
	w.recoverOnce()
	if pays() {
		t.Error("paid by a clock that is behind the chain")
	}
	if h := w.payer.Health(context.Background()); !h.Clock.Stopped {
		t.Errorf("%+v", h.Clock)
	}
	chain.change = nil
	w.chain.advance(3 * time.Minute)
	w.recoverOnce()
	if !pays() {
		t.Error("not paid with a good block")
	}
}

// Without an RPC, a refused payment counts as unused once its time is over. A clock that is an hour ahead for one tick of
// recovery does not end it: the repeat gets the same authorization, which is still valid.
func TestAWrongClockEndsNoDoubt(t *testing.T) {
	t.Parallel()
	var dates pay.Dates
	w := newWorld(t, func(o *pay.Options) {
		o.Chain = nil
		o.Time = pay.NewTimekeeper(o.Clock)
		dates = o.Time.Dates(pay.SourceFacilitator)
	})
	truthful := func(wrong time.Duration) {
		w.chain.answer(dates, 0, wrong)
		w.chain.answer(dates, 0, wrong)
	}
	truthful(0)
	w.fac.mode("refuse", "")
	r := w.rest(pay.SettlePayer, "https://a.example/x", "100", "k")
	if _, err := w.payer.Pay(context.Background(), r); err == nil {
		t.Fatal("paid")
	}
	w.idle()
	for _, told := range []bool{true, false} {
		w.chain.advance(time.Hour)
		if told {
			truthful(-time.Hour)
		}
		w.recoverOnce()
		w.chain.advance(-time.Hour)
	}
	truthful(0)
	w.fac.mode("", "")
	first, err := w.books.Payments(context.Background(), w.key, "", 10, "")
	if err != nil || len(first) != 1 {
		t.Fatal(first, err)
	}
	if p := w.mustPay(r); p.ID != first[0].ID {
		t.Error("a new authorization while the first one is valid")
	}
}

// By a clock that is late an authorization may have ended when it is signed. It is declined by its validity, at a
// difference that stops no others, once two answers agree.
func TestALateClockSignsNothingDead(t *testing.T) {
	t.Parallel()
	var dates pay.Dates
	w := newWorld(t, func(o *pay.Options) {
		o.Time = pay.NewTimekeeper(o.Clock)
		dates = o.Time.Dates(pay.SourceFacilitator)
	})
	calls := 0
	pays := func() error {
		calls++
		_, err := w.payer.Pay(context.Background(), w.rest(pay.SettlePayer, fmt.Sprintf("https://a.example/%d", calls), "100", ""))
		return err
	}
	for _, c := range []struct {
		late time.Duration
		dead bool
	}{{0, false}, {50, false}, {58, true}, {100, true}, {-100, false}, {0, false}} {
		w.chain.answer(dates, 0, c.late*time.Second)
		w.chain.answer(dates, 0, c.late*time.Second)
		err := pays()
		clock, is := errors.AsType[*pay.ClockError](err)
		if is != c.dead || !c.dead && err != nil || is && clock.Validity != time.Minute {
			t.Errorf("%d s late: %v", c.late, err)
		}
	}
	w.chain.answer(dates, 0, 0)
	w.chain.answer(dates, 0, 90*time.Second) // a single one, which the next look need not confirm
	if err := pays(); err != nil {
		t.Error(err)
	}
}
