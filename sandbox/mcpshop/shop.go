package mcpshop

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

const (
	// maxBody bounds the body of a request, in bytes.
	maxBody = 4 << 20
	// Modern is the protocol without sessions. Legacy lists those before it.
	Modern = "2026-07-28"
)

// Legacy lists the protocols that begin with initialize, the newest first.
func Legacy() []string { return []string{"2025-11-25", "2025-06-18", "2025-03-26"} }

// Options configures a Shop. Till and PayTo are needed.
type Options struct {
	// Dialect says in which way the shop asks for money. Default: X402.
	Dialect Dialect
	Till    honest.Till
	// PayTo receives the money.
	PayTo x402.Address
	// Price of a call, in the smallest unit of USDC. Default: one cent.
	Price money.Amount
	// Stream has answers to calls come as events, Progress with a word on the work before the result.
	Stream, Progress bool
	// Sessions makes the shop ask for the session's id in each request but the first.
	Sessions bool
	// Events has the shop keep the events of streams, so that a client can ask for them again.
	Events bool
	// Modern has it speak the protocol of 2026-07-28 beside the older ones.
	Modern bool
	// Gzip compresses bodies for callers that accept it.
	Gzip bool
	// Logger gets failures of the facilitator. Default: none.
	Logger *slog.Logger
}

// Shop is the server. Its endpoint is /mcp. GET /runs shows how often what is paid for was made, by city.
type Shop struct {
	o   Options
	mux *http.ServeMux

	mu       sync.Mutex
	sessions map[string]bool
	runs     map[string]int
	streams  map[string]*stream
	queue    []Fault
	always   []Fault
	met      []string
}

// New returns a Shop.
func New(o Options) *Shop {
	if o.Dialect == "" {
		o.Dialect = X402
	}
	if o.Price.IsZero() {
		o.Price = money.New(10_000)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Shop{o: o, mux: http.NewServeMux(), sessions: map[string]bool{}, runs: map[string]int{}, streams: map[string]*stream{}}
	s.mux.HandleFunc("GET /runs", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		runs := maps.Clone(s.runs)
		s.mu.Unlock()
		honest.WriteJSON(w, http.StatusOK, runs)
	})
	s.mux.HandleFunc("POST /mcp", s.post)
	s.mux.HandleFunc("GET /mcp", s.resume)
	s.mux.HandleFunc("DELETE /mcp", s.leave)
	return s
}

// ServeHTTP serves the endpoint and the count.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := &body{ResponseWriter: w, gzip: s.o.Gzip && accepts(r.Header, "gzip")}
	s.mux.ServeHTTP(b, r)
	b.end()
}

// Runs counts what was made for a city.
func (s *Shop) Runs(city string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[city]
}

// visit is a message of a client with the way back to it.
type visit struct {
	*Shop
	w       *body
	r       *http.Request
	ask     request
	session string
	// streams: the answer comes as events.
	streams bool
	// events holds the open stream; nil before the first event.
	events *stream
}

func (s *Shop) post(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	v := &visit{Shop: s, w: w.(*body), r: r, session: r.Header.Get("Mcp-Session-Id"), streams: s.o.Stream}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		v.batch(text)
		return
	}
	if err := json.Unmarshal(text, &v.ask); err != nil {
		v.fail(http.StatusBadRequest, codeParse, err.Error())
		return
	}
	if v.admitted() {
		v.serve()
	}
}

// batch answers each request of a list, as protocols before 2025-06-18 allow. The list holds its answers in JSON.
func (v *visit) batch(text []byte) {
	var asks []request
	if err := json.Unmarshal(text, &asks); err != nil {
		v.fail(http.StatusBadRequest, codeParse, err.Error())
		return
	}
	var answers []json.RawMessage
	for _, ask := range asks {
		page := honest.NewPage()
		one := &visit{Shop: v.Shop, w: &body{ResponseWriter: page}, r: v.r, ask: ask, session: v.session}
		if !ask.answerable() {
			continue
		}
		if one.admitted() {
			one.serve()
		}
		answers = append(answers, json.RawMessage(page.Body))
	}
	if answers == nil {
		v.w.WriteHeader(http.StatusAccepted)
		return
	}
	honest.WriteJSON(v.w, http.StatusOK, answers)
}

// admitted checks what goes before the message: its protocol and its session.
func (v *visit) admitted() bool {
	if version := v.r.Header.Get("Mcp-Protocol-Version"); version == Modern {
		switch {
		case !v.o.Modern:
			v.fail(http.StatusBadRequest, codeRequest, "Bad Request: Unsupported protocol version: "+version)
		case v.r.Header.Get("Mcp-Method") != v.ask.Method:
			v.fail(http.StatusBadRequest, codeHeader, "Bad Request: the Mcp-Method header and the body disagree")
		case v.ask.sells() && v.r.Header.Get("Mcp-Name") != v.ask.subject():
			v.fail(http.StatusBadRequest, codeHeader, "Bad Request: the Mcp-Name header and the body disagree")
		default:
			return true
		}
		return false
	}
	if !v.o.Sessions || v.ask.Method == "initialize" {
		return true
	}
	v.mu.Lock()
	known := v.sessions[v.session]
	v.mu.Unlock()
	switch {
	case v.session == "":
		v.fail(http.StatusBadRequest, codeServer, "Bad Request: Mcp-Session-Id header is required")
	case !known:
		v.fail(http.StatusNotFound, codeSession, "Session not found")
	default:
		return true
	}
	return false
}

// modern reports whether the message is of the protocol without sessions.
func (v *visit) modern() bool { return v.r.Header.Get("Mcp-Protocol-Version") == Modern }

// leave ends a session.
func (s *Shop) leave(w http.ResponseWriter, r *http.Request) {
	if !s.forget(r.Header.Get("Mcp-Session-Id")) {
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func (s *Shop) forget(session string) (known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = s.sessions[session]
	delete(s.sessions, session)
	return known
}

// open begins a session and returns its id, or "" without sessions.
func (s *Shop) open() string {
	if !s.o.Sessions {
		return ""
	}
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = true
	return id
}

// ran counts a run for a city.
func (s *Shop) ran(city string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[city]++
}

// spoken picks the protocol of a session.
func spoken(asked string) string {
	if slices.Contains(Legacy(), asked) {
		return asked
	}
	return Legacy()[0]
}
