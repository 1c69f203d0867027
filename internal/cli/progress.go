package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// Progress is a line on a terminal that says how far something is; elsewhere it is nothing.
type Progress struct {
	to io.Writer

	mu   sync.Mutex
	text string
}

// NewProgress returns an empty line of a terminal.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{to: io.Discard}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.to = w
		}
	}
	return p
}

// Tell puts a text on the line.
func (p *Progress) Tell(text string) { p.Aside(func() { p.text = text }) }

// Hide takes the line away.
func (p *Progress) Hide() { p.Aside(func() { p.text = "" }) }

// Aside takes the line away while write writes other lines, or changes it.
func (p *Progress) Aside(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text != "" {
		_, _ = fmt.Fprint(p.to, "\r\033[K")
	}
	write()
	_, _ = fmt.Fprint(p.to, p.text)
}
