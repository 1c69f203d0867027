package pay

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/x402"
)

// TimeSource names a service that our clock is compared with.
type TimeSource string

// The sources.
const (
	SourceRPC         TimeSource = "rpc"
	SourceSecondRPC   TimeSource = "rpc_2"
	SourceFacilitator TimeSource = "facilitator"
)

// On names an RPC of another network than the first one that is configured.
func (s TimeSource) On(network string) TimeSource { return s + " of " + TimeSource(network) }

// sourceOn names an RPC of a network: the plain source for the first network.
func (p *Payer) sourceOn(s TimeSource, n x402.Network) TimeSource {
	if n.Name == p.opts.Networks[0].Name {
		return s
	}
	return s.On(n.Name)
}

// Bounds of the comparison of our clock with that of others.
const (
	// clockAlarm is from where a difference is told. It is over again below clockCalm.
	clockAlarm = 30 * time.Second
	clockCalm  = 20 * time.Second
	// clockStop is from where a difference stops new payments, and a block is no evidence.
	clockStop = 2 * time.Minute
	// clockSpare bounds what is left of an authorization by the clock of a source: facilitators refuse
	// one that ends within 6 s.
	clockSpare = 6 * time.Second
	// clockKept bounds the age of a sighting, so that a clock that jumps leaves all behind.
	clockKept = clockStop
)

// Dates is called before a request. What it returns is called with the Date of the answer.
type Dates func() (answered func(date time.Time))

// Timekeeper compares our clock with Dates and blocks. It is safe for concurrent use.
type Timekeeper struct {
	now   Clock
	whose string // the machine whose clock now is

	mu      sync.Mutex
	log     *slog.Logger
	sources []TimeSource // those that report dates
	seen    map[TimeSource]*seenTimes
	told    map[string]clockLevel
	asked   time.Time // when all sources were asked last

	asking chan struct{} // of one: the sources are asked once at a time
}

// seenTimes are the newest sightings of a source.
type seenTimes struct{ dates, blocks trail }

// trail holds the two newest sightings.
type trail struct{ last, before sighting }

// sighting is one comparison: ahead is our clock less the other's, as far as is certain.
type sighting struct {
	at    time.Time
	ahead time.Duration
}

// clockLevel says how bad a difference is.
type clockLevel int

const (
	clockFine clockLevel = iota
	clockOff
	clockFar
)

// NewTimekeeper makes a Timekeeper by a clock. Default: time.Now.
func NewTimekeeper(now Clock) *Timekeeper {
	if now == nil {
		now = failpoint.Now
	}
	return &Timekeeper{
		now: now, whose: "purser", log: slog.New(slog.DiscardHandler), told: map[string]clockLevel{}, asking: make(chan struct{}, 1),
		seen: map[TimeSource]*seenTimes{},
	}
}

// CountsBy names the machine whose clock it is, where that is not purser's own, such as "the database".
func (k *Timekeeper) CountsBy(machine string) *Timekeeper {
	k.whose = machine
	return k
}

// Dates returns the observer of a source. Without a call of it the source's dates are not expected.
func (k *Timekeeper) Dates(s TimeSource) Dates {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.sources, s) {
		k.sources = append(k.sources, s)
	}
	return func() func(time.Time) {
		sent := k.wall()
		return func(date time.Time) { k.sawDate(s, sent, k.wall(), date) }
	}
}

// wall reads our clock without its monotonic reading, which does not follow when the clock is set.
func (k *Timekeeper) wall() time.Time { return k.now().Round(0) }

// sawDate compares the Date of an answer, cut to a second, with the time of the request.
func (k *Timekeeper) sawDate(s TimeSource, sent, received, date time.Time) {
	if received.Before(sent) {
		return // the clock was set back meanwhile
	}
	ahead := lead(sent, received, date, date.Add(time.Second))
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &k.of(s).dates
	t.add(sighting{at: received, ahead: ahead})
	k.tell(s, "date", ahead, t.far(received))
}

// sawBlock compares the time of an RPC's newest block with the time of the question.
func (k *Timekeeper) sawBlock(s TimeSource, sent, received, block time.Time) {
	sent, received = sent.Round(0), received.Round(0)
	if received.Before(sent) || block.IsZero() {
		return
	}
	ahead := lead(sent, received, block, block)
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &k.of(s).blocks
	t.add(sighting{at: received, ahead: ahead})
	k.tell(s, "block", ahead, ahead < 0 && t.far(received))
}

// of returns the sightings of a source. It is called with mu held.
func (k *Timekeeper) of(s TimeSource) *seenTimes {
	t := k.seen[s]
	if t == nil {
		t = &seenTimes{}
		k.seen[s] = t
	}
	return t
}

// all lists the sources that were seen or that report dates, the facilitator last. It is called with
// mu held.
func (k *Timekeeper) all() []TimeSource {
	list := slices.AppendSeq(slices.Clone(k.sources), maps.Keys(k.seen))
	slices.Sort(list)
	list = slices.Compact(list)
	if i := slices.Index(list, SourceFacilitator); i >= 0 {
		list = append(slices.Delete(list, i, i+1), SourceFacilitator)
	}
	return list
}

// lead returns our clock, between sent and received, less another one between first and last, or 0.
func lead(sent, received, first, last time.Time) time.Duration {
	switch {
	case sent.After(last):
		return sent.Sub(last)
	case received.Before(first):
		return received.Sub(first)
	}
	return 0
}

func (t *trail) add(s sighting) { t.last, t.before = s, t.last }

// fresh reports whether the newest sighting counts. One from the future does not.
func (t *trail) fresh(now time.Time) bool {
	return !t.last.at.IsZero() && now.Sub(t.last.at).Abs() <= clockKept
}

// far reports whether the two newest sightings, and not just one machine, are far off alike.
func (t *trail) far(now time.Time) bool {
	return t.fresh(now) && t.last.far() && t.before.far() && (t.last.ahead > 0) == (t.before.ahead > 0)
}

// behind returns by how much the two newest sightings agree that our clock is late, at least 0.
func (t *trail) behind(now time.Time) time.Duration {
	if !t.fresh(now) || t.before.at.IsZero() {
		return 0
	}
	return max(0, min(-t.last.ahead, -t.before.ahead))
}

func (s sighting) far() bool { return s.ahead.Abs() > clockStop }

// tell logs a change of how far the clocks are apart, not every sighting. It is called with mu held.
func (k *Timekeeper) tell(s TimeSource, what string, ahead time.Duration, stops bool) {
	key := string(s) + " " + what
	was, level := k.told[key], clockFine
	switch {
	case stops:
		level = clockFar
	case ahead.Abs() > clockAlarm, was != clockFine && ahead.Abs() > clockCalm:
		level = clockOff
	}
	if level == was {
		return
	}
	k.told[key] = level
	with := []any{"source", string(s), "compared", what, "our_clock_ahead", ahead.String(), "our_clock", k.whose}
	switch {
	case level == clockFar:
		k.log.Error("no new payments: our clock and a source's are far apart", with...)
	case level == clockFine:
		k.log.Info("our clock and a source's agree again", with...)
	case what == "block" && ahead > 0:
		k.log.Warn("the RPC's latest block is old", with...)
	default:
		k.log.Warn("our clock and a source's differ", with...)
	}
}

// ClockState sums up the comparisons as of now.
type ClockState struct {
	OK      bool // no difference is above 30 s
	Stopped bool // no new payments are made
	// Whose names the machine whose clock is compared: "purser" or "the database".
	Whose   string
	Sources []SourceTime
}

// SourceTime holds the word of one source. Ahead is positive where our clock is ahead of the source.
type SourceTime struct {
	Source TimeSource
	// Known: an answer had a Date within the last two minutes, and Ahead is ours less that.
	Known bool
	Ahead time.Duration
	// BlockKnown and BlockAhead say the same of the RPC's latest block.
	BlockKnown bool
	BlockAhead time.Duration
	// Stops: no new payments are made because of it.
	Stops bool
}

// State tells what is known.
func (k *Timekeeper) State() ClockState {
	now := k.wall()
	k.mu.Lock()
	defer k.mu.Unlock()
	state := ClockState{OK: true, Whose: k.whose}
	for _, s := range k.all() {
		t := k.of(s)
		one := SourceTime{Source: s, Known: t.dates.fresh(now), BlockKnown: t.blocks.fresh(now), Stops: t.stops(now)}
		if one.Known {
			one.Ahead = t.dates.last.ahead
		}
		if one.BlockKnown {
			one.BlockAhead = t.blocks.last.ahead
		}
		state.OK = state.OK && one.Ahead.Abs() <= clockAlarm && one.BlockAhead.Abs() <= clockAlarm && !one.Stops
		state.Stopped = state.Stopped || one.Stops
		state.Sources = append(state.Sources, one)
	}
	return state
}

// stops reports whether a source stops new payments. A block far behind is a stale RPC.
func (t *seenTimes) stops(now time.Time) bool {
	return t.dates.far(now) || t.blocks.far(now) && t.blocks.last.ahead < 0
}

// wrong returns why no new payments may be made, or nil.
func (k *Timekeeper) wrong() error {
	now := k.wall()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all() {
		t := k.of(s)
		switch {
		case !t.stops(now):
		case t.dates.far(now):
			return &ClockError{Whose: k.whose, Source: s, Ahead: t.dates.last.ahead}
		default:
			return &ClockError{Whose: k.whose, Source: s, Block: true, Ahead: t.blocks.last.ahead}
		}
	}
	return nil
}

// refuses returns why no new payment of this validity may be made, or nil: an authorization by a clock
// that is late by as much would have ended when it is signed.
func (k *Timekeeper) refuses(validity time.Duration) error {
	if err := k.wrong(); err != nil {
		return err
	}
	now := k.wall()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.all() {
		t := k.of(s)
		dates, blocks := t.dates.behind(now), t.blocks.behind(now)
		if late := max(dates, blocks); late > validity-clockSpare && late > 0 {
			return &ClockError{Whose: k.whose, Source: s, Block: blocks > dates, Ahead: -late, Validity: validity}
		}
	}
	return nil
}

// known reports whether a source has told its time of late.
func (k *Timekeeper) known() bool {
	return k.any(func(t *seenTimes, now time.Time) bool { return t.dates.fresh(now) })
}

// agreed reports whether our clock can be right: there is nothing to compare it with, or a source
// agrees, and none stops payments.
func (k *Timekeeper) agreed() bool {
	if k.wrong() != nil {
		return false
	}
	return !k.compares() || k.any(func(t *seenTimes, now time.Time) bool { return t.dates.fresh(now) && !t.dates.last.far() })
}

// compares reports whether there are sources of dates at all.
func (k *Timekeeper) compares() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.sources) > 0
}

// unsure reports whether one more answer could stop payments.
func (k *Timekeeper) unsure() bool {
	return k.any(func(t *seenTimes, now time.Time) bool {
		return t.dates.fresh(now) && (t.dates.last.far() && !t.dates.far(now) || t.dates.last.ahead < -clockAlarm && t.dates.behind(now) == 0) ||
			t.blocks.fresh(now) && t.blocks.last.ahead < -clockAlarm && t.blocks.behind(now) == 0 ||
			t.blocks.fresh(now) && t.blocks.last.ahead < -clockStop && !t.blocks.far(now)
	})
}

func (k *Timekeeper) any(has func(*seenTimes, time.Time) bool) bool {
	now := k.wall()
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.ContainsFunc(k.sources, func(s TimeSource) bool { return has(k.of(s), now) })
}

// ClockError: our clock and a source's are so far apart that no new payment is made. It is an
// ErrUnavailable. Nothing was begun.
type ClockError struct {
	// Whose names the machine of our clock: "purser", or "the database" whose time all nodes count by.
	Whose  string
	Source TimeSource
	// Block: it is the time of the RPC's latest block that is far ahead.
	Block bool
	// Ahead is our clock less the other one.
	Ahead time.Duration
	// Validity is that of an authorization which would have ended when it is signed; 0: the difference alone
	// stops payments.
	Validity time.Duration
}

func (e *ClockError) Error() string {
	source, network, _ := strings.Cut(string(e.Source), " of ")
	what, side := map[TimeSource]string{
		SourceRPC: "the RPC's", SourceSecondRPC: "the second RPC's", SourceFacilitator: "the facilitator's",
	}[TimeSource(source)], "ahead of"
	if network != "" {
		what = strings.Replace(what, "the ", "the "+network+" ", 1)
	}
	if e.Block {
		what += " latest block"
	}
	if e.Ahead < 0 {
		side = "behind"
	}
	if e.Validity > 0 {
		return fmt.Sprintf("clock: %s's clock is %s behind %s, and the seller allows a payment that is valid for %s: it would have ended before it arrives",
			cmp.Or(e.Whose, "purser"), e.Ahead.Abs().Round(time.Second), what, e.Validity.Round(time.Second))
	}
	return fmt.Sprintf("clock: %s's clock is %s %s %s: no new payments until they agree", cmp.Or(e.Whose, "purser"), e.Ahead.Abs().Round(time.Second), side, what)
}

// Unwrap makes it an ErrUnavailable.
func (e *ClockError) Unwrap() error { return ErrUnavailable }
