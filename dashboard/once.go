package dashboard

import (
	"maps"
	"sync"
	"time"
)

const (
	// onceTime bounds the wait of a key for the page that shows it.
	onceTime = time.Minute
	onceMost = 1000
)

// onceShown passes a key from the POST that makes or reveals it to the page after the redirect,
// which shows it once. It is kept in memory. With several nodes, the visitor may have to reveal the
// key again.
type onceShown struct {
	mu    sync.Mutex
	waits map[onceFor]onceSecret
}

// onceFor names the session that may see a key. An older session of the same account may be stolen,
// and could not reveal a key by itself. It must not see the key.
type onceFor struct{ session, account, key string }

type onceSecret struct {
	secret string
	made   bool // created, not revealed
	until  time.Time
}

func (o *onceShown) put(f onceFor, s onceSecret, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	if len(o.waits) < onceMost {
		s.until = now.Add(onceTime)
		o.waits[f] = s
	}
}

func (o *onceShown) take(f onceFor, now time.Time) (onceSecret, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	s, ok := o.waits[f]
	delete(o.waits, f)
	return s, ok
}

func (o *onceShown) sweep(now time.Time) {
	maps.DeleteFunc(o.waits, func(_ onceFor, s onceSecret) bool { return !now.Before(s.until) })
}
