package leases_test

import (
	"errors"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/leases"
)

func TestExpire(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name    string
		retired time.Time
		open    int
		want    bool
	}{
		{"serving", time.Time{}, 0, false},
		{"just replaced", now, 0, false},
		{"with a request", now.Add(-time.Hour), 1, false},
		{"idle", now.Add(-time.Minute), 0, true},
	} {
		var l leases.Leases
		l.Retire(c.retired)
		for range c.open {
			if err := l.Enter(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := l.Expire(now, time.Minute), l.Enter()
		if got != c.want || errors.Is(err, leases.ErrClosed) != c.want {
			t.Errorf("%s: %t, %v", c.name, got, err)
		}
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	var l leases.Leases
	for range 2 {
		if err := l.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	idle := l.Close()
	if again := l.Close(); l.Open() != 2 || again != idle || !errors.Is(l.Enter(), leases.ErrClosed) {
		t.Error("closed with two leases")
	}
	l.Leave()
	select {
	case <-idle:
		t.Error("one is open")
	default:
	}
	l.Leave()
	<-idle
	if l.Close() != nil {
		t.Error("there is none to wait for")
	}
}
