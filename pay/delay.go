package pay

import (
	"sync"
	"time"
)

// mergeWait bounds the time that a settlement without a waiting caller waits for the end of its
// attempt. Most answers end at once, and one write then holds both.
const mergeWait = 25 * time.Millisecond

// delayedSettlement holds a settlement until the end of its attempt.
type delayedSettlement struct {
	mu      sync.Mutex
	outcome *Outcome
	row     *Payment // as it was before the outcome
}

// keep holds an outcome until withdraw. It reports false if it holds one.
func (d *delayedSettlement) keep(row *Payment, o Outcome) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.outcome != nil {
		return false
	}
	d.outcome, d.row = &o, row
	return true
}

// withdraw gives the outcome away, once. Its taker writes it.
func (d *delayedSettlement) withdraw() (row *Payment, o *Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	row, o = d.row, d.outcome
	d.row, d.outcome = nil, nil
	return row, o
}

// delays has the delayed settlements written whose attempts have not ended within mergeWait. One
// timer serves all attempts, because a short timer wakes a thread that sleeps: at one client that
// was 1.2 times for each payment, with the timer of awaitNews.
type delays struct {
	mu         sync.Mutex
	old, young []*Attempt // those that came before the last turn, and since
	turning    bool       // a turn will come
}

// add has an attempt's settlement written after mergeWait at most.
func (d *delays) add(a *Attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.young = append(d.young, a)
	d.schedule()
}

// schedule is called with mu held.
func (d *delays) schedule() {
	if !d.turning && len(d.old)+len(d.young) > 0 {
		d.turning = true
		time.AfterFunc(mergeWait/2, d.turn)
	}
}

// turn writes the settlements that have seen a turn before.
func (d *delays) turn() {
	d.mu.Lock()
	due := d.old
	d.old, d.young, d.turning = d.young, nil, false
	d.schedule()
	d.mu.Unlock()
	for _, a := range due {
		if row, o := a.delayed.withdraw(); o != nil { // else the attempt has ended
			go a.writeNow(row, *o)
		}
	}
}
