package dashboard

import (
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
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
	now   pay.Clock
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

func (o *onceShown) put(f onceFor, s onceSecret) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep()
	if o.waits == nil {
		o.waits = map[onceFor]onceSecret{}
	}
	if len(o.waits) < onceMost {
		s.until = o.now().Add(onceTime)
		o.waits[f] = s
	}
}

func (o *onceShown) take(f onceFor) (onceSecret, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep()
	s, ok := o.waits[f]
	delete(o.waits, f)
	return s, ok
}

func (o *onceShown) sweep() {
	now := o.now()
	for f, s := range o.waits {
		if !now.Before(s.until) {
			delete(o.waits, f)
		}
	}
}
