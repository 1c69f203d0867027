package dashboard

import (
	"sync"
	"time"

	"github.com/purserpay/purser/pay"
)

const (
	// onceTime is how long a key waits for the page that shows it.
	onceTime = time.Minute
	onceMost = 1000
)

// onceShown carries a key from the post that makes or reveals it to the page that the redirect leads to, which shows it
// once. It stays in memory: with several nodes the page may have to ask for revealing it again.
type onceShown struct {
	now   pay.Clock
	mu    sync.Mutex
	waits map[onceFor]onceSecret
}

// onceFor is who may see which key: the session that asked for it, and no older one of the same account, which somebody
// may have stolen and which could not reveal a key by itself.
type onceFor struct{ session, account, key string }

type onceSecret struct {
	secret string
	made   bool // just created, not revealed
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
