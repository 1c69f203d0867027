package pgstore_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/internal/notices"
	"github.com/purserpay/purser/internal/pgtest"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pgstore"
)

// looks tells that a sender has looked at an outbox with notices for it.
type looks chan struct{}

func (looks) Delivered(string, string) {}

func (l looks) Waiting(_ string, n uint64) {
	if n == 0 {
		return
	}
	select {
	case l <- struct{}{}:
	default:
	}
}

// senderOn makes the sender of a node.
func senderOn(t *testing.T, d *pgstore.DB, to string) (*notices.Sender, looks) {
	t.Helper()
	hook, err := notices.ParseWebhook(to)
	if err != nil {
		t.Fatal(err)
	}
	l := make(looks, 1)
	s := notices.New(notices.Options{
		Store: d, Destinations: []notices.Destination{hook}, Observer: l, Clock: d.Now, Guard: guard.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	if err := s.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, l
}

// Two nodes send from one outbox. While a dead node's claim holds, both wait. Then each notice leaves once:
// one node looks while the other one sends.
func TestNoticesLeaveOnce(t *testing.T) {
	t.Parallel()
	url := fresh(t, pgtest.Start(t))
	one, two := node(t, pgstore.Options{URL: url}), node(t, pgstore.Options{URL: url})
	const count = 10
	bodies, sending, look := make(chan string, 10*count), make(chan struct{}), make(chan struct{})
	var begun sync.Once
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		begun.Do(func() { close(sending) })
		<-look
	}))
	t.Cleanup(receiver.Close)
	first, firstLooks := senderOn(t, one, receiver.URL)
	second, secondLooks := senderOn(t, two, receiver.URL)
	for range count {
		if err := two.AddNotices(t.Context(), []pay.Notice{{At: time.Now(), Kind: pay.NoticePaused}}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := one.Deliveries(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if mine, err := two.ClaimDelivery(t.Context(), list[0]); err != nil || !mine {
		t.Fatal("not claimed", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { first.Run(ctx) })
	running.Go(func() { second.Run(ctx) })
	for range 2 { // the second look comes after the try to claim
		<-firstLooks
		<-secondLooks
	}
	if n := len(bodies); n != 0 {
		t.Errorf("%d notices left while a dead node's claim holds", n)
	}
	passClaims(t, url)
	<-sending
	for _, l := range []looks{firstLooks, secondLooks} {
		select {
		case <-l: // an old one
		default:
		}
	}
	select { // the node that does not send
	case <-firstLooks:
	case <-secondLooks:
	}
	close(look)
	wait(t, "deliveries", func() bool {
		states, err := first.States(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return states[0].Waiting == 0
	})
	cancel()
	running.Wait()
	if n := len(bodies); n != count {
		t.Errorf("%d notices left %d times", count, n)
	}
	for seen := map[string]bool{}; len(bodies) > 0; {
		body := <-bodies
		if seen[body] {
			t.Errorf("%s left twice", body)
		}
		seen[body] = true
	}
}

// passClaims lets the time of all claims pass.
func passClaims(t *testing.T, url string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), strings.Replace(url, "&pool_max_conns=4", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), `UPDATE deliveries SET claimed = claimed - $1`, int64(pay.NoticeClaimTime)); err != nil {
		t.Fatal(err)
	}
}
