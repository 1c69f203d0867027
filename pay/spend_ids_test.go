package pay

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/x402"
)

// Names of events are in the order in which they were given at one time, whatever the clock does, and are never far from
// their time: listings by date look for them there.
func TestEventIDs(t *testing.T) {
	t.Parallel()
	var n eventIDs
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	seen := map[string]bool{}
	var last string
	name := func(at time.Time) string {
		t.Helper()
		id, err := n.at(at)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := uuid.Parse(id)
		if err != nil || parsed.Version() != 7 || parsed.Variant() != uuid.RFC4122 || seen[id] {
			t.Fatalf("%s is no new UUIDv7: %v", id, err)
		}
		seen[id] = true
		sec, nsec := parsed.Time().UnixTime()
		if off := time.Unix(sec, nsec).Sub(at).Abs(); off > 2*time.Second {
			t.Fatalf("%s is %s off", id, off)
		}
		return id
	}
	for range 20_000 { // more than a millisecond has names for
		id := name(start)
		if id <= last {
			t.Fatalf("%s comes after %s", id, last)
		}
		last = id
	}
	for _, back := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} { // corrected by little
		if id := name(start.Add(-back)); id <= last {
			t.Errorf("%s before: %s comes after %s", back, id, last)
		} else {
			last = id
		}
	}
	// Put back by much, it counts on from there, and again when it is put right.
	var list []string
	for _, at := range []time.Duration{-time.Hour, -time.Hour, -59 * time.Minute, time.Minute, time.Minute, 365 * 24 * time.Hour, 2 * time.Minute} {
		list = append(list, name(start.Add(at)))
	}
	if !slices.IsSorted(list[:6]) || list[6] >= list[5] || list[6] <= list[4] {
		t.Errorf("out of order: %q", list)
	}
}

// Reading a block again must find the rows that reading it first has booked.
func TestReconciledIdentity(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	asset, used := x402.Asset{Address: x402.EVMAddress([20]byte{0xa5})}, UsedAuthorization{From: x402.EVMAddress([20]byte{0xf0}), Nonce: x402.Nonce{0x0c}}
	for what, want := range map[string]string{"payment": "01a1f8d3-ea00-78b4-9d74-d750413b0744", "event": "01a1f8d3-ea00-70ad-b3fb-85820067f6ae"} {
		if got := idOf(what, at, asset, used); got != want {
			t.Errorf("%s is %s, want %s", what, got, want)
		}
	}
}
