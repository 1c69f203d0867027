package notices

import (
	"context"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
)

// beside makes the sender of another node: on the same store, with the same clock and destination.
func (w *world) beside(r *receiver) *world {
	w.Helper()
	other := newWorld(w.T, func(o *Options) { o.Store, o.Clock = w.store, w.clock }, r.URL)
	other.store = w.store
	return other
}

// nodes makes two nodes and their receiver. during runs while the receiver has the first request.
func nodes(t *testing.T, during func(one, two *world)) (one, two *world, r *receiver) {
	t.Helper()
	r = receive(t, func(n int) int {
		if n == 1 {
			during(one, two)
		}
		return 200
	})
	one = newWorld(t, nil, r.URL)
	return one, one.beside(r), r
}

// While one node sends, another one does not, and goes on where the first one is.
func TestOneNodeSends(t *testing.T) {
	t.Parallel()
	one, two, r := nodes(t, func(one, two *world) {
		two.steps(0)
		one.pass(sendTime)
		two.steps(0)
	})
	for range 4 {
		one.add(paused())
		one.steps(0)
		two.steps(0)
	}
	two.add(paused())
	two.steps(0)
	one.steps(0)
	if n := len(r.taken()); n != 5 {
		t.Errorf("5 notices left %d times", n)
	}
	if s := one.state(0); s.Cursor != 5 || s.Waiting != 0 || s.Failing() {
		t.Errorf("state %+v", s)
	}
}

// A node that is too slow does not write over what its successor has done.
func TestSlowNode(t *testing.T) {
	t.Parallel()
	one, two, r := nodes(t, func(one, two *world) {
		one.pass(pay.NoticeClaimTime)
		two.steps(0)
	})
	one.add(paused(), paused(), paused())
	if _, err := one.step(t.Context(), one.queues[0]); err == nil {
		t.Error("the slow node wrote its cursor")
	}
	if s := two.state(0); s.Cursor != 3 {
		t.Errorf("state %+v", s)
	}
	one.steps(0)
	one.beside(r).steps(0)
	if n := len(r.taken()); n != 4 { // both had the first one
		t.Errorf("sent %d times", n)
	}
}

// An operator's change at one node holds for all nodes, also while another one sends.
func TestOperatorsAtAnotherNode(t *testing.T) {
	t.Parallel()
	gone := true
	r := receive(t, func(int) int {
		if gone {
			return 410
		}
		return 200
	})
	one := newWorld(t, nil, r.URL)
	two := one.beside(r)
	one.add(paused(), paused())
	two.steps(0)
	one.steps(0)
	one.pass(time.Hour)
	one.steps(0)
	if s := one.state(0); len(r.taken()) != 1 || !s.Stopped {
		t.Fatalf("%d tries, state %+v", len(r.taken()), s)
	}
	gone = false
	name := one.queues[0].Name
	if _, err := one.Test(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	two.steps(0)
	if s := one.state(0); len(r.taken()) != 4 || s.Stopped || s.Cursor != 2 {
		t.Fatalf("%d requests, state %+v", len(r.taken()), s)
	}
	r.status = func(n int) int {
		if n == 5 {
			if waiting, err := one.Replay(t.Context(), name, Replay{From: 1}); err != nil || waiting != 3 {
				t.Errorf("%d to send, %v", waiting, err)
			}
		}
		return 200
	}
	two.add(paused())
	if _, err := two.step(t.Context(), two.queues[0]); err == nil {
		t.Error("the node that sent has written over the replay")
	}
	two.steps(0)
	if s := one.state(0); len(r.taken()) != 8 || s.Cursor != 3 {
		t.Errorf("%d requests, state %+v", len(r.taken()), s)
	}
}

// A node that stops while it sends leaves its claim to the next one.
func TestStoppedNodeLeavesItsClaim(t *testing.T) {
	t.Parallel()
	begun, stuck := make(chan struct{}), make(chan struct{})
	r := receive(t, func(n int) int {
		if n == 1 {
			close(begun)
			<-stuck
		}
		return 200
	})
	one := newWorld(t, nil, r.URL)
	two := one.beside(r)
	one.add(paused())
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		one.Sender.Run(ctx)
	}()
	<-begun
	cancel()
	<-ended
	two.steps(0)
	close(stuck)
	if s := two.state(0); s.Cursor != 1 {
		t.Errorf("state %+v", s)
	}
}
