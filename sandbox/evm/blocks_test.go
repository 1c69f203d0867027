package evm

import (
	"math/big"
	"testing"
	"time"
)

func TestUntilNextBlock(t *testing.T) {
	t.Parallel()
	const head = 1_800_000_000
	for _, test := range []struct {
		name   string
		now    time.Time
		wanted bool
		want   time.Duration
	}{
		{"wanted, chain behind", time.Unix(head+5, 0), true, -5 * time.Second},
		{"wanted, same second", time.Unix(head, 3e8), true, -300 * time.Millisecond},
		{"wanted, second begins", time.Unix(head, 0), true, 0},
		{"wanted, chain ahead", time.Unix(head-1, 2e8), true, 800 * time.Millisecond},
		{"idle, same second", time.Unix(head, 3e8), false, 700 * time.Millisecond},
		{"idle, next second", time.Unix(head+1, 0), false, 0},
		{"idle, chain ahead", time.Unix(head-1, 2e8), false, 1800 * time.Millisecond},
	} {
		if got := untilNextBlock(head, test.now, test.wanted); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestChainTimeFollowsWallTime(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	client, ctx := dial(t, c), bounded(t)
	// This asks for more blocks than there is time for.
	for range 4 {
		if err := c.Mine(ctx); err != nil {
			t.Fatal(err)
		}
	}
	last, err := client.HeaderByNumber(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lead := time.Until(time.Unix(int64(last.Time), 0)); lead > time.Second {
		t.Errorf("the chain is %s ahead", lead)
	}
	// An idle chain goes on, and keeps up with the clock.
	busy := last.Number.Uint64()
	eventually(t, "an idle chain makes blocks with the current time", func() bool {
		last, err = client.HeaderByNumber(ctx, nil)
		return err == nil && last.Number.Uint64() >= busy+2 && time.Since(time.Unix(int64(last.Time), 0)) < 1500*time.Millisecond
	})
	previous := uint64(0)
	for n := range last.Number.Int64() + 1 {
		header, err := client.HeaderByNumber(ctx, big.NewInt(n))
		if err != nil {
			t.Fatal(err)
		}
		if header.Time <= previous {
			t.Errorf("block %d has time %d, its parent %d", n, header.Time, previous)
		}
		previous = header.Time
	}
}

func TestChainFollowsAnotherClock(t *testing.T) {
	t.Parallel()
	for name, offset := range map[string]time.Duration{"tomorrow": 24 * time.Hour, "yesterday": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := func() time.Time { return time.Now().Add(offset) }
			c := start(t, Options{Now: clock})
			payer, seller := funded(t, c, 10), newAccount(t)
			auth := authorize(t, payer.address, seller.address, 10)
			auth.ValidAfter, auth.ValidBefore = unix(clock().Add(-time.Minute)), unix(clock().Add(time.Minute))
			if _, err := c.TransferWithAuthorization(bounded(t), auth, payer.sign(t, auth)); err != nil {
				t.Fatal(err)
			}
			wantBalance(t, c, seller.address, 10)
			head, err := dial(t, c).HeaderByNumber(bounded(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			if lead := time.Unix(int64(head.Time), 0).Sub(clock()); lead > time.Second || lead < -patience {
				t.Errorf("the chain is %s ahead of its clock", lead)
			}
		})
	}
}
