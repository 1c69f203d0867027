package feed

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

func decline(i int) Event { return OfDecline(policy.DoorProxy, pay.Decline{Reason: strconv.Itoa(i)}) }

// A reader gets each event once and in order, while it is written.
func TestFeedInOrder(t *testing.T) {
	t.Parallel()
	f := New(nil)
	const n = 500
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range n {
			f.Add(decline(i))
		}
	})
	var after uint64
	for got := 0; got < n; {
		page := f.After(t.Context(), after)
		if page.Missed != 0 || page.Ended || len(page.Events) == 0 {
			t.Fatalf("%+v", page)
		}
		for _, e := range page.Events {
			if e.Number != after+1 || e.Reason != strconv.Itoa(got) || e.State != Declined || e.At.IsZero() {
				t.Fatalf("%d: %+v", got, e)
			}
			after, got = e.Number, got+1
		}
	}
	writing.Wait()
	if f.Last() != n {
		t.Error(f.Last())
	}
}

// A slow reader is told what it has missed; the feed does not grow.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	f := New(nil)
	for i := range Kept + 10 {
		f.Add(decline(i))
	}
	page := f.After(t.Context(), 3)
	if page.Missed != 7 || len(page.Events) != Kept || page.Events[0].Number != 11 || page.Events[Kept-1].Number != Kept+10 {
		t.Errorf("%d missed, %d events from %d", page.Missed, len(page.Events), page.Events[0].Number)
	}
	if page = f.After(t.Context(), 10); page.Missed != 0 || len(page.Events) != Kept {
		t.Errorf("%d missed, %d events", page.Missed, len(page.Events))
	}
}

// Readers stop to wait when the feed ends, and when their caller leaves.
func TestFeedEnds(t *testing.T) {
	t.Parallel()
	f := New(nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if page := f.After(gone, 0); page.Ended || page.Events != nil {
		t.Errorf("%+v", page)
	}
	var reading sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			if page := f.After(t.Context(), 0); !page.Ended {
				t.Errorf("%+v", page)
			}
		})
	}
	f.Close()
	reading.Wait()
	f.Add(decline(1))
	if page := f.After(t.Context(), 0); len(page.Events) != 1 || !page.Ended {
		t.Errorf("%+v", page)
	}
}
