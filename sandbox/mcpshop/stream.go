package mcpshop

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/purserpay/purser/sandbox/honest"
)

// stream holds the events of an answer, for clients that ask for them again.
type stream struct {
	id string

	mu      sync.Mutex
	texts   []string
	ended   bool
	changed chan struct{} // closed at the next change
}

// add appends an event and returns its text on the wire.
func (s *stream) add(data string, last bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := fmt.Sprintf("id: %s-%d\nretry: 100\ndata: %s\n\n", s.id, len(s.texts), data)
	if data != "" {
		text = "event: message\n" + text
	}
	s.texts, s.ended = append(s.texts, text), last
	close(s.changed)
	s.changed = make(chan struct{})
	return text
}

// after returns the events from the n-th on, whether they are all, and a channel that closes when there are more.
func (s *stream) after(n int) (texts []string, ended bool, changed chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.texts[min(n, len(s.texts)):], s.ended, s.changed
}

// begin sends what goes before the events of an answer. A shop that keeps events sends an empty one first.
func (v *visit) begin() {
	if v.events != nil {
		return
	}
	v.mu.Lock()
	v.events = &stream{id: strconv.Itoa(len(v.Shop.streams)), changed: make(chan struct{})}
	if v.o.Events {
		v.Shop.streams[v.events.id] = v.events
	}
	v.mu.Unlock()
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("Cache-Control", "no-cache, no-transform")
	if v.session != "" {
		v.w.Header().Set("Mcp-Session-Id", v.session)
	}
	v.w.WriteHeader(http.StatusOK)
	if v.o.Events {
		v.write(v.events.add("", false))
	}
}

// event sends an event, and keeps it if the shop keeps events.
func (v *visit) event(message any, last bool) {
	v.begin()
	if v.o.Events {
		v.write(v.events.add(encoded(message), last))
		return
	}
	v.write("event: message\ndata: " + encoded(message) + "\n\n")
}

// encoded is a message as text.
func encoded(message any) string {
	text, _ := json.Marshal(message) // cannot fail: messages are made of what was read, texts and numbers
	return string(text)
}

// write sends a piece of a stream. It reports whether the caller is still there.
func (v *visit) write(text string) bool {
	if _, err := v.w.Write([]byte(text)); err != nil {
		return false
	}
	return v.w.flush() == nil && v.r.Context().Err() == nil
}

// reply sends the answer, as an event or as JSON.
func (v *visit) reply(message object) {
	if v.streams && v.ask.sells() {
		v.event(message, true)
		return
	}
	honest.WriteJSON(v.w, http.StatusOK, message)
}

// progress tells a caller of the work that it waits for, if there is a stream and the caller has asked.
func (v *visit) progress(n int) {
	token, asked := v.ask.Params.Meta["progressToken"]
	if !v.streams || !asked {
		return
	}
	v.event(object{
		"jsonrpc": "2.0", "method": "notifications/progress", "params": object{"progressToken": token, "progress": n},
	}, false)
}

// resume sends the events after the one that a client has seen last, and waits for those that are not there yet.
func (s *Shop) resume(w http.ResponseWriter, r *http.Request) {
	id, last, _ := strings.Cut(r.Header.Get("Last-Event-Id"), "-")
	n, err := strconv.Atoi(last)
	s.mu.Lock()
	found := s.streams[id]
	s.mu.Unlock()
	if err != nil || found == nil || n < 0 {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	v := &visit{Shop: s, w: w.(*body), r: r}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	for next := n + 1; ; {
		texts, ended, changed := found.after(next)
		for _, text := range texts {
			if !v.write(text) {
				return
			}
		}
		if next += len(texts); ended {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// body is the body of an answer, which may be compressed.
type body struct {
	http.ResponseWriter
	gzip   bool
	writer *gzip.Writer
	begun  bool
}

// WriteHeader implements http.ResponseWriter.
func (b *body) WriteHeader(status int) {
	if b.gzip && !b.begun && status == http.StatusOK {
		b.Header().Set("Content-Encoding", "gzip")
		b.writer = gzip.NewWriter(b.ResponseWriter)
	}
	b.begun = true
	b.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (b *body) Write(p []byte) (int, error) {
	if !b.begun {
		b.WriteHeader(http.StatusOK)
	}
	if b.writer != nil {
		return b.writer.Write(p)
	}
	return b.ResponseWriter.Write(p)
}

// Unwrap serves http.NewResponseController.
func (b *body) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (b *body) flush() error {
	if b.writer != nil {
		if err := b.writer.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(b.ResponseWriter).Flush()
}

func (b *body) end() {
	if b.writer != nil {
		_ = b.writer.Close() // the caller may have left
	}
}

func accepts(header http.Header, coding string) bool {
	return strings.Contains(header.Get("Accept-Encoding"), coding)
}
