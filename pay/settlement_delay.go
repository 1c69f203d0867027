package pay

import (
	"sync"
	"time"
)

// mergeWait is how long a settlement that nobody waits for may wait for the end of its
// attempt. Most answers end at once, and one write then holds both.
const mergeWait = 25 * time.Millisecond

// late is a settlement that waits for the end of its attempt.
type late struct {
	mu      sync.Mutex
	outcome *Outcome
	row     *Payment // as it was before the outcome
	timer   *time.Timer
}

// hold keeps an outcome until take or, after mergeWait, write. It reports false when
// there is one already.
func (l *late) hold(row *Payment, o Outcome, write func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.outcome != nil {
		return false
	}
	l.outcome, l.row = &o, row
	l.timer = time.AfterFunc(mergeWait, write)
	return true
}

// take gives the outcome away, to one taker. stopped reports that its timer will not run.
func (l *late) take() (row *Payment, o *Outcome, stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	row, o = l.row, l.outcome
	l.row, l.outcome = nil, nil
	return row, o, o != nil && l.timer.Stop()
}
