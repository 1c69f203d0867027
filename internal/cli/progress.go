package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress is a line on a terminal that says how far something is; elsewhere it is nothing.
type progress struct {
	to    io.Writer // nil: there is no terminal
	began time.Time

	mu       sync.Mutex
	over, of int
	shown    bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{began: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.to = w
		}
	}
	return p
}

// show says how many of all are over.
func (p *progress) show(over, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.of = over, of
	p.write()
}

// again shows the line once more after other lines were written.
func (p *progress) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write()
}

// write is called with mu held.
func (p *progress) write() {
	if p.to == nil {
		return
	}
	text := "attacking …"
	if p.of > 0 {
		text = fmt.Sprintf("%d of %d attacks are over, %s", p.over, p.of, time.Since(p.began).Round(time.Second))
	}
	_, _ = fmt.Fprintf(p.to, "\r\033[K%s", text)
	p.shown = true
}

// hide takes the line away.
func (p *progress) hide() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.to, "\r\033[K")
		p.shown = false
	}
}
