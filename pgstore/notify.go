package pgstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/purserpay/purser/pay"
)

// Nodes tell each other what their callers wait for, and when it has come. The database serializes commits
// that notify, so that outcomes never do: a node notifies apart, and only of what was announced.
const (
	channelWaits = "purser_waits" // a caller of some node waits for an id
	channelEnds  = "purser_ends"  // what is waited for has come
)

const (
	// listenAgain is the pause before the listening connection is made again.
	listenAgain = time.Second
	// listenPing is the interval at which a silent listening connection is tried.
	listenPing = 15 * time.Second
	// maxNews bounds what waits to be sent. Callers whose news are dropped look for themselves.
	maxNews = 1024
	// lateNews is the time from the end of a lease in which an announcement of it is answered. Within twice that time, it
	// still may be. lateAnswers bounds the answers, because another node may have the lease by then.
	lateNews    = time.Second
	lateAnswers = 3
)

var _ pay.Waking = (*DB)(nil)

// bell wakes the callers of this node, and tells those of others.
type bell struct {
	send chan [2]string // channel, id

	mu        sync.Mutex
	listening bool
	waiting   map[string]*waiter
	announced *lru.Cache[string, struct{}]
	// ended and endedBefore count the late answers of leases that this node had: those that ended since turned, and those
	// that ended in the lateNews before.
	ended, endedBefore map[string]int
	turned             time.Time
}

// waiter is shared by the calls that wait for one id.
type waiter struct {
	calls int
	come  chan struct{}
}

func (b *bell) start() (err error) {
	b.send, b.waiting = make(chan [2]string, maxNews), map[string]*waiter{}
	b.ended, b.endedBefore = map[string]int{}, map[string]int{}
	b.announced, err = lru.New[string, struct{}](memoryRows)
	return err
}

// Await announces that a call of this node waits: see [pay.Waking].
func (d *DB) Await(id string) (come <-chan struct{}, forget func()) {
	b := &d.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.listening {
		return nil, func() {}
	}
	w := b.waiting[id]
	if w == nil {
		w = &waiter{come: make(chan struct{})}
		b.waiting[id] = w
	}
	w.calls++
	b.tell(channelWaits, id)
	return w.come, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if w.calls--; w.calls == 0 && b.waiting[id] == w {
			delete(b.waiting, id)
		}
	}
}

// tell has a notification sent.
func (b *bell) tell(channel, id string) {
	select {
	case b.send <- [2]string{channel, id}:
	default:
	}
}

// leaseEnded notifies those who have announced that they wait for it.
func (b *bell) leaseEnded(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.announced.Remove(id) {
		b.tell(channelEnds, id)
		return
	}
	b.turn(time.Now())
	b.ended[id] = 0
}

// turn forgets the leases that ended long ago.
func (b *bell) turn(now time.Time) {
	age := now.Sub(b.turned)
	if age < lateNews {
		return
	}
	b.ended, b.endedBefore = b.endedBefore, b.ended
	clear(b.ended)
	if age >= 2*lateNews {
		clear(b.endedBefore)
	}
	b.turned = now
}

// answered notifies of an answer, which persons give seldom.
func (b *bell) answered(id string) { b.tell(channelEnds, id) }

// hear takes a notification.
func (b *bell) hear(channel, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if channel == channelEnds {
		b.wake(id)
		return
	}
	b.announced.Add(id, struct{}{})
	b.turn(time.Now())
	for _, ended := range [...]map[string]int{b.ended, b.endedBefore} {
		if answers, has := ended[id]; has && answers < lateAnswers { // it came too late
			ended[id]++
			b.tell(channelEnds, id)
			return
		}
	}
}

// wake is called with mu held.
func (b *bell) wake(id string) {
	if w := b.waiting[id]; w != nil {
		close(w.come)
		delete(b.waiting, id)
	}
}

// listens says whether notifications arrive. All callers look once then, because some may have been lost.
func (b *bell) listens(is bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listening = is
	for id := range b.waiting {
		b.wake(id)
	}
}

func (b *bell) isListening() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listening
}

// listen hears notifications until the store is closed, or the database turns out to know none.
func (d *DB) listen(ctx context.Context) {
	defer d.background.Done()
	for {
		err := d.listenOnce(ctx)
		d.bell.listens(false)
		if refused, is := errors.AsType[*pgconn.PgError](err); is && (refused.Code == "42601" || strings.HasPrefix(refused.Code, "0A")) {
			d.log.InfoContext(ctx, "store: the database has no LISTEN, so that callers of one payment on several nodes ask again and again")
			return
		}
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
			return
		}
	}
}

// listenOnce listens on a connection of its own until that ends.
func (d *DB) listenOnce(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, d.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
		defer cancel()
		_ = c.Close(ended) // it is lost, or the store is closed
	}()
	try := func(call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		return call(ctx)
	}
	for _, channel := range []string{channelWaits, channelEnds} {
		err := try(func(ctx context.Context) error {
			_, err := c.Exec(ctx, "LISTEN "+channel)
			return err
		})
		if err != nil {
			return err
		}
	}
	d.bell.listens(true)
	for {
		silence, cancel := context.WithTimeout(ctx, listenPing)
		n, err := c.WaitForNotification(silence)
		cancel()
		switch {
		case err == nil:
			d.bell.hear(n.Channel, n.Payload)
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
			return err
		default:
			if err := try(c.Ping); err != nil {
				return err
			}
		}
	}
}

// notify sends notifications, those that wait together at once.
func (d *DB) notify(ctx context.Context) {
	defer d.background.Done()
	for {
		var channels, ids []string
		select {
		case one := <-d.bell.send:
			channels, ids = append(channels, one[0]), append(ids, one[1])
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			select {
			case one := <-d.bell.send:
				channels, ids = append(channels, one[0]), append(ids, one[1])
			default:
				more = false
			}
		}
		bounded, cancel := context.WithTimeout(ctx, lookupTime)
		_, err := d.pool.Exec(bounded, `SELECT pg_notify(c, i) FROM unnest($1::text[], $2::text[]) n (c, i)`, channels, ids)
		cancel()
		if err != nil && ctx.Err() == nil {
			d.log.DebugContext(ctx, "store: other nodes were not notified", "error", err)
		}
	}
}
