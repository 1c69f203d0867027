package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// event is one server-sent event.
type event struct {
	raw  []byte // as it came, to the empty line behind it
	data []byte // nil: it has none
}

// errLongEvent ends the reading of an event that is longer than its bound.
var errLongEvent = errors.New("the event is too long")

// readEvent reads an event of at most so many bytes. With an error the event holds what came of it.
func readEvent(from *bufio.Reader, most int) (e event, err error) {
	for {
		begin := len(e.raw)
		for {
			var piece []byte
			piece, err = from.ReadSlice('\n')
			e.raw = append(e.raw, piece...)
			if len(e.raw) > most {
				return e, errLongEvent
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil {
			return e, err
		}
		line := bytes.TrimSuffix(bytes.TrimSuffix(e.raw[begin:], []byte("\n")), []byte("\r"))
		if len(line) == 0 {
			return e, nil
		}
		if begin == 0 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if field, value := cutField(line); field == "data" {
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		}
	}
}

// eventFilter is a stream of events that looks at each before its reader does.
type eventFilter struct {
	from *bufio.Reader
	most int                  // bytes of an event that is looked at; with a longer one, looking ends
	look func(e event) []byte // returns what stands in the place of the event

	held  []byte
	plain bool // nothing is looked at any more
	err   error
}

// Read implements io.Reader.
func (f *eventFilter) Read(p []byte) (int, error) {
	for len(f.held) == 0 && f.err == nil && !f.plain {
		e, err := readEvent(f.from, f.most)
		f.held = e.raw
		switch {
		case errors.Is(err, errLongEvent):
			f.plain = true
		case err != nil:
			f.err = err
		default:
			f.held = f.look(e)
		}
	}
	if len(f.held) > 0 {
		n := copy(p, f.held)
		f.held = f.held[n:]
		return n, nil
	}
	if f.err != nil {
		return 0, f.err
	}
	return f.from.Read(p)
}

var _ io.Reader = (*eventFilter)(nil)
