package pay

import (
	"sync"
	"time"
)

// mergeWait is the time that a settlement without a waiting caller may wait for the end of its
// attempt. Most answers end at once, and one write then holds both.
const mergeWait = 25 * time.Millisecond

// delayedSettlement holds a settlement until the end of its attempt.
type delayedSettlement struct {
	mu      sync.Mutex
	outcome *Outcome
	row     *Payment // as it was before the outcome
	timer   *time.Timer
}

// keep holds an outcome until withdraw or, after mergeWait, write. It reports false if it holds one
// already.
func (d *delayedSettlement) keep(row *Payment, o Outcome, write func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.outcome != nil {
		return false
	}
	d.outcome, d.row = &o, row
	d.timer = time.AfterFunc(mergeWait, write)
	return true
}

// withdraw gives the outcome away, once. stopped reports that its timer will not run.
func (d *delayedSettlement) withdraw() (row *Payment, o *Outcome, stopped bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	row, o = d.row, d.outcome
	d.row, d.outcome = nil, nil
	return row, o, o != nil && d.timer.Stop()
}
