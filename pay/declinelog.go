package pay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
)

const (
	// declinesEvery is the time after which a decline is written, together with those that follow it.
	declinesEvery = 3 * time.Second
	// maxDeclinesHeld bounds the counts that wait to be written. Above it, new ones are dropped.
	maxDeclinesHeld = 10_000
	// declinesTime bounds the write at Close.
	declinesTime = 5 * time.Second
)

// declineLog holds counts of declined requests until they are written.
type declineLog struct {
	mu      sync.Mutex
	days    map[declineDay][]Declined
	held    int
	writing bool          // a goroutine waits to write
	ended   chan struct{} // closed by Payer.Close
	end     sync.Once
}

type declineDay struct {
	keyID string
	day   int64
}

func newDeclineLog() declineLog {
	return declineLog{days: map[declineDay][]Declined{}, ended: make(chan struct{})}
}

// add holds a count. It reports whether the caller must start a write, which is the case for the
// first one.
func (l *declineLog) add(d Declined) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := declineDay{d.KeyID, d.Day.Unix()}
	was := l.days[at]
	if l.held >= maxDeclinesHeld && declinedAt(was, d.Reason, d.Host) < 0 {
		return false
	}
	is := AddDeclined(was, d)
	l.days[at], l.held = is, l.held+len(is)-len(was)
	first, l.writing = !l.writing, true
	return first
}

// take empties the log.
func (l *declineLog) take() (list []Declined) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, day := range l.days {
		list = append(list, day...)
	}
	l.days, l.held = map[declineDay][]Declined{}, 0
	slices.SortFunc(list, func(a, b Declined) int { return cmp.Or(cmp.Compare(a.KeyID, b.KeyID), a.First.Compare(b.First)) })
	return list
}

// done notes that the writing goroutine ends, unless there is more to write.
func (l *declineLog) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = l.held > 0
	return !l.writing
}

// NoteDecline counts a request that a door did not pay. The counts are written every few seconds and
// at Close. Doors tell it of no dry run.
func (p *Payer) NoteDecline(d Decline) {
	if p.enter() != nil {
		return
	}
	at := p.now()
	p.tellDecline(d, at)
	if !p.declines.add(declinedOf(d, at)) {
		p.background.Done()
		return
	}
	go p.writeDeclines() // Close waits for it
}

// writeDeclines writes the counts until none is left.
func (p *Payer) writeDeclines() {
	defer p.background.Done()
	for ended := false; ; {
		wait := time.NewTimer(failpoint.Every(declinesEvery))
		select {
		case <-wait.C:
		case <-p.declines.ended:
			ended = true
		}
		wait.Stop()
		ctx, stop := context.WithTimeout(context.Background(), declinesTime)
		err := p.flushDeclines(ctx)
		stop()
		if err != nil {
			p.log.Warn("declined requests not counted yet", "error", err)
		}
		if p.declines.done() || ended {
			return
		}
	}
}

// flushDeclines writes the counts. What the store does not take is held until the next time.
func (p *Payer) flushDeclines(ctx context.Context) error {
	list := p.declines.take()
	if len(list) == 0 {
		return nil
	}
	if err := p.store.AddDeclines(ctx, list); err != nil {
		for _, d := range list {
			p.declines.add(d)
		}
		return fmt.Errorf("writing declines: %w", err)
	}
	return nil
}
