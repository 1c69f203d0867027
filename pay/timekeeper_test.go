package pay_test

import (
	"bytes"
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
