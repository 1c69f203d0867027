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
	to    io.Writer
	began time.Time

	mu   sync.Mutex
	text string
}

func newProgress(w io.Writer) *progress {
	p := &progress{to: io.Discard, began: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.to = w
		}
	}
	return p
}

// show says how many of all are over.
func (p *progress) show(over, of int) {
	text := "attacking …"
	if of > 0 {
		text = fmt.Sprintf("%d of %d attacks are over, %s", over, of, time.Since(p.began).Round(time.Second))
	}
	p.tell(text)
}

// tell puts a text on the line.
func (p *progress) tell(text string) { p.aside(func() { p.text = text }) }

func (p *progress) hide() { p.aside(func() { p.text = "" }) }

// aside takes the line away while write writes other lines, or changes it.
func (p *progress) aside(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != "" {
		_, _ = fmt.Fprint(p.to, "\r\033[K")
	}
	write()
	_, _ = fmt.Fprint(p.to, p.text)
}
