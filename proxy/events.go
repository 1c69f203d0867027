package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/purserpay/purser/pay"
)

// event is one server-sent event.
type event struct {
	raw  []byte // as it came, to the empty line behind it
	data []byte // nil: it has none
	id   []byte // nil: it has none
	cut  bool   // it is too long, and its end has not come
}

// errLongEvent ends the reading of an event that is longer than its bound.
var errLongEvent = errors.New("the event is too long")

// eventReader reads server-sent events. Their lines end with a newline, a carriage return, or both.
type eventReader struct {
	from     *bufio.Reader
	returned bool // the last line has ended with a carriage return, which a newline may follow
}

func newEventReader(from io.Reader) *eventReader { return &eventReader{from: bufio.NewReader(from)} }

// next reads an event of at most so many bytes. With an error the event holds what came of it: some clients
// take the last event of a stream without the empty line behind it.
func (r *eventReader) next(most int) (e event, err error) {
	for {
		var line []byte
		if line, err = r.line(&e, most); err != nil {
			if e.cut = err == errLongEvent; e.cut && len(bytes.Trim(line, "\r\n")) == 0 { //nolint:errorlint // it is returned bare
				e.cut = false // its end is what was too long
				return e, nil
			}
			e.take(line)
			return e, err
		}
		if len(line) == 0 {
			return e, nil
		}
		e.take(line)
	}
}

// line reads a line of an event, and returns it without its end.
func (r *eventReader) line(e *event, most int) ([]byte, error) {
	begin := len(e.raw)
	for {
		if _, err := r.from.Peek(1); err != nil {
			return e.raw[begin:], err
		}
		piece, _ := r.from.Peek(r.from.Buffered())
		if r.returned {
			if r.returned = false; piece[0] == '\n' {
				e.raw = append(e.raw, '\n')
				begin = len(e.raw)
				_, _ = r.from.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(piece, "\r\n")
		if end >= 0 {
			r.returned, piece = piece[end] == '\r', piece[:end+1]
		}
		e.raw = append(e.raw, piece...)
		_, _ = r.from.Discard(len(piece))
		switch {
		case len(e.raw) > most:
			return e.raw[begin:], errLongEvent
		case end >= 0:
			return e.raw[begin : len(e.raw)-1], nil
		}
	}
}

// take takes a line of an event.
func (e *event) take(line []byte) {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	switch field, value := cutField(line); field {
	case "data":
		if e.data != nil {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	case "id":
		e.id = value
	}
}

// eventFilter is a stream of events that looks at each before its reader does.
type eventFilter struct {
	from *eventReader
	most int                  // bytes of an event that is looked at; a longer one is cut, and passes as it is
	look func(e event) []byte // returns what stands in the place of the event

	held   []byte
	inside bool // an event that was cut
	inLine bool // of that, whose end has not come
	err    error
}

// Read implements io.Reader.
func (f *eventFilter) Read(p []byte) (int, error) {
	for len(f.held) == 0 && f.err == nil {
		if f.inside {
			f.goOn()
			continue
		}
		e, err := f.from.next(f.most)
		switch {
		case errors.Is(err, errLongEvent):
			f.look(e)
			f.cut(e)
		case err == nil || err == io.EOF: //nolint:errorlint // bodies return it bare
			f.held, f.err = f.look(e), err
		default:
			f.held, f.err = e.raw, err
		}
	}
	if len(f.held) > 0 {
		n := copy(p, f.held)
		f.held = f.held[n:]
		return n, nil
	}
	return 0, f.err
}

// cut passes on what came of an event that is too long.
func (f *eventFilter) cut(e event) {
	f.held = append(f.held, e.raw...)
	f.inside, f.inLine = true, !ended(e.raw)
}

// goOn passes on the next piece of an event that was cut. Behind its empty line, looking goes on.
func (f *eventFilter) goOn() {
	var piece event
	if _, err := f.from.line(&piece, 0); err != errLongEvent { //nolint:errorlint // it is returned bare
		f.err = err
	}
	f.held = piece.raw
	f.inside = f.inLine || len(bytes.Trim(f.held, "\r\n")) > 0
	f.inLine = !ended(f.held)
}

// ended reports whether a line has ended.
func ended(piece []byte) bool {
	return len(piece) > 0 && (piece[len(piece)-1] == '\n' || piece[len(piece)-1] == '\r')
}

var _ io.Reader = (*eventFilter)(nil)

// maxEventIDs bounds the ids that are remembered of a stream. A client that resumes it names one of the last.
const maxEventIDs = 128

// eventIDs remembers the newest ids of events of a stream. It is safe for concurrent use.
type eventIDs struct {
	mu    sync.Mutex
	known []uint64 // the beginnings of their hashes
}

func (s *eventIDs) add(id []byte) {
	if len(id) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known = append(s.known, shortHash(string(id))); len(s.known) > maxEventIDs {
		s.known = slices.Delete(s.known, 0, len(s.known)-maxEventIDs)
	}
}

func (s *eventIDs) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.known, shortHash(id))
}

func shortHash(text string) uint64 {
	sum := pay.HashOf(text)
	return binary.BigEndian.Uint64(sum[:])
}
