package pgstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// node opens a node on a database. It ends with the test.
func node(t *testing.T, o pgstore.Options) *pgstore.DB {
	t.Helper()
	d, err := pgstore.Open(t.Context(), withKey(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func withKey(o pgstore.Options) pgstore.Options {
	o.MasterKey = vault.Given(testMaster)
	return o
}

// keyOn makes a key.
func keyOn(t testing.TB, d *pgstore.DB) pay.Key {
	t.Helper()
	k, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: uuid.Must(uuid.NewV7()).String(), Created: time.Now()}, Secret: "pk_" + uuid.NewString()})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The clocks of two nodes are four minutes apart, and their leases do not overlap.
func TestLeasesByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	skewed := func(by time.Duration) *pgstore.DB {
		return node(t, pgstore.Options{URL: url, Clock: func() time.Time { return time.Now().Add(by) }})
	}
	slow, fast := skewed(-2*time.Minute), skewed(2*time.Minute)
	for _, d := range []*pgstore.DB{slow, fast} {
		if s := d.Stats(); time.Until(d.Now()).Abs() > time.Second || s.ClockAhead.Abs() < time.Minute || s.ClockBound > time.Second { // one machine
			t.Errorf("a node takes the database's time for %s: %+v", d.Now(), s)
		}
	}
	k := keyOn(t, slow)
	for i, by := range [][2]*pgstore.DB{{slow, fast}, {fast, slow}} {
		holder, other := by[0], by[1]
		begun, err := holder.Begin(t.Context(), callOf(k, holder.Now()))
		if err != nil {
			t.Fatal(err)
		}
		p := begun.Payment
		if _, err := other.Acquire(t.Context(), p.ID, "other", other.Now(), other.Now().Add(pay.LeaseTime)); !errors.Is(err, pay.ErrLeaseHeld) {
			t.Errorf("%d: another node takes a live lease: %v", i, err)
		}
		if n, err := other.Lapse(t.Context(), other.Now(), nil); err != nil || n != 0 {
			t.Errorf("%d: another node ends %d live leases, %v", i, n, err)
		}
		until := holder.Now().Add(50 * time.Millisecond)
		if err := holder.Renew(t.Context(), p.ID, p.Lease.Fence, until); err != nil {
			t.Fatal(err)
		}
		for {
			now := other.Now()
			_, err := other.Acquire(t.Context(), p.ID, "other", now, now.Add(pay.LeaseTime))
			if errors.Is(err, pay.ErrLeaseHeld) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			// The holder's clock cannot be behind the lease's end by more than both may be wrong.
			if bound := holder.Stats().ClockBound + other.Stats().ClockBound; holder.Now().Before(until.Add(-bound)) {
				t.Errorf("%d: another node has the lease before its end", i)
			}
			break
		}
	}
}
