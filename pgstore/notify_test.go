package pgstore_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// A node answers a late announcement of a lease that it has ended, but not for long and not often.
func TestLateAnnouncements(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		times []time.Duration
		want  int
	}{
		{"at once", []time.Duration{0}, 1},
		{"within a second", []time.Duration{400 * time.Millisecond, 999 * time.Millisecond}, 2},
		{"often", []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond, 990 * time.Millisecond}, 3},
		{"after two seconds", []time.Duration{2 * time.Second}, 0},
		{"after two busy seconds", []time.Duration{time.Second, 2 * time.Second, 2100 * time.Millisecond}, 1},
		{"after a silent minute", []time.Duration{time.Minute}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if n, err := pgstore.LateAnswers(c.times...); n != c.want || err != nil {
					t.Errorf("%d answers, %v; want %d", n, err, c.want)
				}
			})
		})
	}
}

// Two nodes get one idempotency key at once. The second caller has its turn as soon as the first one's is
// over: the nodes tell each other. Without their listening connections, the second caller looks for itself.
func TestSecondCallerOnAnotherNode(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	for _, c := range []struct {
		name    string
		poll    time.Duration
		listens bool
	}{{"told", time.Minute, true}, {"deaf", 20 * time.Millisecond, false}} {
		t.Run(c.name, func(t *testing.T) {
			url := fresh(t, server)
			one, two := node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})
			on := func(d *pgstore.DB) *paytest.World {
				return paytest.NewWorld(t, pay.Options{Store: d, Clock: d.Now, RepeatPoll: c.poll, RepeatWait: time.Minute})
			}
			w, second := on(one), on(two).Payer
			wait(t, "listening", func() bool { return one.Stats().Listening && two.Stats().Listening })
			key, _ := w.NewKey(books.KeyRequest{Label: "test"})
			r := paytest.Proxied(t, key, "https://api.example.com/r", "5")
			for i := range 5 {
				r.IdempotencyKey = fmt.Sprintf("order %d", i)
				a, err := w.Payer.Open(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				type answer struct {
					a   *pay.Attempt
					err error
					at  time.Time
				}
				got := make(chan answer, 1)
				go func() {
					a, err := second.Open(t.Context(), r)
					got <- answer{a, err, time.Now()}
				}()
				if c.listens {
					wait(t, "waiting", func() bool { return two.Waiting() == 1 })
				} else {
					server.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`)
					wait(t, "deafness", func() bool { return !one.Stats().Listening && !two.Stats().Listening })
				}
				ended := time.Now()
				a.Finish(false)
				is := <-got
				if is.err != nil || !is.a.Repeats() || is.a.Payment().ID != a.Payment().ID {
					t.Fatalf("the second caller got %+v, %v", is.a, is.err)
				}
				if took := is.at.Sub(ended); took > 5*time.Second {
					t.Errorf("the second caller had its turn after %s", took)
				} else {
					t.Logf("the second caller had its turn after %s", took)
				}
				is.a.Finish(true)
				if !c.listens {
					break
				}
			}
		})
	}
}
