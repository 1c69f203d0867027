package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/purserpay/purser/internal/failpoint"
)

// guaranteedBytes bounds the part of each request body that is kept in memory whatever other
// requests keep, unless MaxReplay is less. It holds for guaranteedRequests requests of a key at a
// time; more of them share the common quotas.
const (
	guaranteedBytes    = 64 << 10
	guaranteedRequests = 1024
)

// quota is a number of bytes that the requests of all keys share. A key has no more than its share
// of it, so that no key's uploads crowd out those of others.
type quota struct {
	limit   int64
	share   int64 // of one key
	used    atomic.Int64
	changed func(by int64)

	mu sync.Mutex
	by map[string]int64 // bytes by key id; keys without any are absent
}

// newQuota makes a quota of which a key gets a quarter, and at least enough for one body.
func newQuota(limit, body int64, changed func(by int64)) *quota {
	return &quota{limit: limit, share: min(limit, max(limit/4, body)), changed: changed, by: make(map[string]int64)}
}

func (q *quota) take(keyID string, n int64) bool {
	q.mu.Lock()
	fits := (q.by[keyID]+n <= q.share || failpoint.Off(failpoint.Rooms)) && q.used.Load()+n <= q.limit
	if fits {
		q.by[keyID] += n
		q.used.Add(n)
	}
	q.mu.Unlock()
	if fits {
		q.changed(n)
	}
	return fits
}

func (q *quota) give(keyID string, n int64) {
	if n == 0 {
		return
	}
	q.mu.Lock()
	q.used.Add(-n)
	if q.by[keyID] -= n; q.by[keyID] == 0 {
		delete(q.by, keyID)
	}
	q.mu.Unlock()
	q.changed(-n)
}
