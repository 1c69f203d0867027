package pay_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
)

// shutBook is a store that cannot write declines for a while.
type shutBook struct {
	*memory.Store
	shut   atomic.Bool
	writes atomic.Int32
}

func (s *shutBook) AddDeclines(ctx context.Context, list []pay.Declined) error {
	s.writes.Add(1)
	if s.shut.Load() {
		return pay.ErrUnavailable
	}
	return s.Store.AddDeclines(ctx, list)
}

// Declines are written together after a while, again after a failure, and at Close.
func TestDeclinesAreWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shutBook{Store: memory.New(memory.Options{})}
		p, err := pay.New(pay.Options{Store: s, Wallets: struct{ pay.Wallets }{}, Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		counted := func() (n int) {
			list, err := s.Declines(t.Context(), []string{""}, time.Now().Add(-time.Hour), time.Now())
			for _, d := range list {
				n += d.Count
			}
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		d := pay.Decline{Reason: "daily-budget", Host: "a.example", Detail: strings.Repeat("é", 1000)}
		for range 1000 {
			p.NoteDecline(d)
		}
		synctest.Wait()
		if counted() != 0 || s.writes.Load() != 0 {
			t.Errorf("%d counted at once", counted())
		}
		time.Sleep(4 * time.Second)
		if counted() != 1000 || s.writes.Load() != 1 {
			t.Errorf("%d counted by %d writes", counted(), s.writes.Load())
		}
		s.shut.Store(true)
		p.NoteDecline(d)
		time.Sleep(10 * time.Second)
		if counted() != 1000 || s.writes.Load() < 3 {
			t.Errorf("%d counted by %d writes while the store is shut", counted(), s.writes.Load())
		}
		s.shut.Store(false)
		p.NoteDecline(d)
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if counted() != 1002 {
			t.Errorf("%d counted at the end", counted())
		}
		p.NoteDecline(d) // too late
		if err := errors.Join(p.Close(t.Context())); err != nil || counted() != 1002 {
			t.Error(counted(), err)
		}
	})
}
