package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/purserpay/purser/internal/failpoint"
)

// surely bounds the part of each request body that finds room in memory whatever other requests
// keep, unless MaxReplay is less. It holds for sureRequests requests of a key at a time;
// more of them share the common rooms.
const (
	surely       = 64 << 10
	sureRequests = 1024
)

// room is a number of bytes that the requests of all keys share. One key has no more than
// its share of it, so that no key's uploads take the room of others.
type room struct {
	limit   int64
	share   int64 // of one key
	used    atomic.Int64
	changed func(by int64)

	mu sync.Mutex
	by map[string]int64 // key id -> what it has taken; keys without anything are not there
}

// newRoom makes a room of which a key gets a quarter, and at least what is kept of one body.
func newRoom(limit, body int64, changed func(by int64)) *room {
	return &room{limit: limit, share: min(limit, max(limit/4, body)), changed: changed, by: make(map[string]int64)}
}

func (r *room) take(keyID string, n int64) bool {
	r.mu.Lock()
	fits := (r.by[keyID]+n <= r.share || failpoint.Off(failpoint.Rooms)) && r.used.Load()+n <= r.limit
	if fits {
		r.by[keyID] += n
		r.used.Add(n)
	}
	r.mu.Unlock()
	if fits {
		r.changed(n)
	}
	return fits
}

func (r *room) give(keyID string, n int64) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	r.used.Add(-n)
	if r.by[keyID] -= n; r.by[keyID] == 0 {
		delete(r.by, keyID)
	}
	r.mu.Unlock()
	r.changed(-n)
}
