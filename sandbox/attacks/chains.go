package attacks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/purserpay/purser/sandbox/hostile"
)

const (
	chainTries    = "each paid answer leads the client on, to where the seller wants money again, in other words than the client uses"
	halfOpenTries = "the way between client and purser dies without a word; the client asks again on another one"
	aheadTries    = "the client has sent more than its request and leaves in the middle; it asks again"
)

func lostClientAttacks() []attack {
	return []attack{
		{group: neverTwice, name: "redirect-chain", tries: chainTries, run: redirectChain, proxied: true},
		{group: neverTwice, name: "half-open", tries: halfOpenTries, run: halfOpen, proxied: true},
		{group: neverTwice, name: "sent-ahead", tries: aheadTries, run: sentAhead, proxied: true},
	}
}

// links bounds the redirects that a client follows.
const links = 12

// redirectChain follows a seller that leads on from each paid answer, as Python's requests does: it
// normalizes the address before it asks.
func redirectChain(ctx context.Context, e *examination) (outcome, error) {
	var story []string
	for _, way := range []struct {
		status int
		to     string
	}{{302, "/buy?id=%d"}, {302, "/%%62uy?id=%d"}, {300, "/buy?id=%d"}, {308, "/x/../buy?id=%d"}} {
		one, err := e.enroll(ctx, e.main, e.neutral)
		if err != nil {
			return outcome{}, err
		}
		one.world.Seller.Meet(hostile.SellerFault{Name: "leads on", On: hostile.Paid, Always: true, Do: func(v *hostile.Visit) {
			tx, _ := v.Settle()
			v.LeadOn(way.status, tx, fmt.Sprintf(way.to, v.Order+1))
		}})
		target, err := url.Parse(one.world.SellerURL + fmt.Sprintf("/buy?id=%d", firstOrder))
		if err != nil {
			return outcome{}, err
		}
		for range links {
			got, err := e.through(ctx, url.User(one.proxied.Key), target.String(), nil)
			if err != nil {
				return outcome{}, err
			}
			next, err := target.Parse(got.header.Get("Location"))
			if err != nil || got.code < 300 || got.code > 399 || got.header.Get("Location") == "" {
				break
			}
			next.RawPath = "" // its escapes are undone where they need not be
			target = next
		}
		wrong, err := e.paidTwice(ctx, one, fmt.Sprintf("%d to "+way.to, way.status, firstOrder+1))
		if err != nil {
			return outcome{}, err
		}
		story = append(story, wrong...)
	}
	return verdict(story, chainTries, "one request is paid once"), nil
}

// paidTwice says that a customer has paid more than once.
func (e *examination) paidTwice(ctx context.Context, one *player, what string) ([]string, error) {
	b, l, err := e.account(ctx, one)
	if err != nil || len(b.Payments) <= 1 && len(l.Transfers) <= 1 {
		return nil, err
	}
	story := storyOf(nil, b, l)
	return append([]string{fmt.Sprintf("%s: one request was paid %d times", what, max(len(b.Payments), len(l.Transfers)))}, story[:min(len(story), 2)]...), nil
}

// keepsWaiting is a seller that takes the money and keeps its answer until it is let go.
func keepsWaiting(one *player) (came <-chan struct{}, goOn func()) {
	asked, end := make(chan struct{}, links), make(chan struct{})
	one.world.Seller.Meet(hostile.SellerFault{Name: "keeps its answer", On: hostile.Paid, Always: true, Do: func(v *hostile.Visit) {
		tx, reason := v.Settle()
		asked <- struct{}{}
		<-end
		if reason != "" {
			v.Serve()
			return
		}
		v.Deliver(v.Receipt(tx))
	}})
	return asked, sync.OnceFunc(func() { close(end) })
}

// apart is the time after which an equal call is no call of its own that began beside the first one.
const apart = 2 * time.Second

// again has a customer ask again, when the first try is lost, and lets the seller go on once purser has the second
// try: a call that begins behind the first one's answer is a purchase of its own.
func (e *examination) again(ctx context.Context, one *player, goOn func(), tries string) (outcome, error) {
	if err := sleep(ctx, apart); err != nil {
		return outcome{}, err
	}
	asked := make(chan struct{})
	one.world.Seller.Meet(hostile.SellerFault{Name: "is asked again", On: hostile.Unpaid, Do: func(v *hostile.Visit) {
		close(asked)
		v.Serve()
	}})
	trying, tried := context.WithCancel(ctx)
	defer tried()
	var release sync.WaitGroup
	release.Go(func() {
		select {
		case <-asked:
		case <-trying.Done():
		case <-time.After(patience / 2): // the second try may wait before it goes out
		}
		_ = sleep(trying, apart) // it ends early when there is nothing to wait for
		goOn()
	})
	got := one.proxied.Buy(ctx, one.world.SellerURL, hostile.ProxyDoor, hostile.Order{ID: firstOrder})
	tried()
	release.Wait()
	wrong, err := e.paidTwice(ctx, one, "the second try got "+got.String())
	return verdict(wrong, tries, "paid once (the second try: %s)", got), err
}

// halfOpen loses the way to purser without an end of the connection that purser could see.
func halfOpen(ctx context.Context, e *examination) (outcome, error) {
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	came, goOn := keepsWaiting(one)
	defer goOn()
	up, err := e.ask(ctx, one)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = up.Close() }() // for purser the client waits until the attack is over
	if err := await(ctx, came); err != nil {
		return outcome{}, err
	}
	return e.again(ctx, one, goOn, halfOpenTries)
}

// sentAhead has a client send three bytes too many, and leave.
func sentAhead(ctx context.Context, e *examination) (outcome, error) {
	one, err := e.enroll(ctx, e.main, e.neutral)
	if err != nil {
		return outcome{}, err
	}
	came, goOn := keepsWaiting(one)
	defer goOn()
	conn, err := e.ask(ctx, one)
	if err != nil {
		return outcome{}, err
	}
	if err = await(ctx, came); err == nil {
		_, err = io.WriteString(conn, "GET") // a server that reads on for the client's end gets this instead
	}
	if err == nil {
		err = sleep(ctx, time.Second)
	}
	_ = conn.Close()
	if err != nil {
		return outcome{}, err
	}
	return e.again(ctx, one, goOn, aheadTries)
}

// ask sends a request for the first order through the proxy, and leaves its answer unread.
func (e *examination) ask(ctx context.Context, one *player) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", e.main.proxy)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/buy?id=%d", one.world.SellerURL, firstOrder), nil)
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(one.proxied.Key, "")
	r.Header.Set("Proxy-Authorization", r.Header.Get("Authorization"))
	r.Header.Del("Authorization")
	return conn, r.WriteProxy(conn)
}

// await waits until the seller has been asked.
func await(ctx context.Context, came <-chan struct{}) error {
	select {
	case <-came:
		return nil
	case <-time.After(patience):
		return errors.New("the request did not get to the seller")
	case <-ctx.Done():
		return ctx.Err()
	}
}
