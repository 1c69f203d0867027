package proxytest

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Refusal says what a Streams server does in the place of processing a request.
type Refusal int

// The refusals.
const (
	Process      Refusal = iota
	Refuse               // RST_STREAM with REFUSED_STREAM, before the body is read
	RefuseLate           // the same behind the body
	GoAway               // GOAWAY that leaves the stream out
	GoAwayFirst          // the same with an error code
	BreakOff             // RST_STREAM with PROTOCOL_ERROR behind the body, which need not mean that nothing was done
	GoAwayBehind         // GOAWAY that counts the stream, and the end of the connection without an answer
)

// Streams serves a handler over HTTP/2, frame by frame, and refuses streams.
type Streams struct {
	Addr    string
	Refused atomic.Int32

	handler http.Handler
	refuse  func(*http.Request) Refusal
	conns   sync.WaitGroup
}

// NewStreams starts a Streams server, which ends with the test. refuse is asked about each request.
func NewStreams(t *testing.T, handler http.Handler, refuse func(*http.Request) Refusal) *Streams {
	t.Helper()
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	config := &tls.Config{Certificates: borrowed.TLS.Certificates, NextProtos: []string{"h2"}} //nolint:gosec // a test
	borrowed.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	s := &Streams{Addr: ln.Addr().String(), handler: handler, refuse: refuse}
	var mu sync.Mutex
	var open []net.Conn
	s.conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			s.conns.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		s.conns.Wait()
	})
	return s
}

// serve speaks HTTP/2 on one connection, one stream after the other.
func (s *Streams) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	requests, bodies := map[uint32]*http.Request{}, map[uint32]*bytes.Buffer{}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		id := frame.Header().StreamID
		var ended bool
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
			continue
		case *http2.PingFrame:
			_ = f.WritePing(true, frame.Data)
			continue
		case *http2.MetaHeadersFrame:
			if requests[id] == nil {
				requests[id], bodies[id] = requestOf(frame), new(bytes.Buffer)
			}
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			if n := frame.Header().Length; n > 0 {
				_ = f.WriteWindowUpdate(0, n)
				_ = f.WriteWindowUpdate(id, n)
			}
			if bodies[id] == nil {
				continue
			}
			_, _ = bodies[id].Write(frame.Data())
			ended = frame.StreamEnded()
		default:
			continue
		}
		r := requests[id]
		if r.Header.Get("X-Judged") == "" {
			r.Header.Set("X-Judged", string(rune('0'+s.refuse(r))))
		}
		verdict := Refusal(r.Header.Get("X-Judged")[0] - '0')
		if !ended && verdict != Refuse && verdict != GoAway && verdict != GoAwayFirst {
			continue
		}
		body := bodies[id]
		delete(bodies, id)
		if verdict != Process {
			s.Refused.Add(1)
		}
		switch verdict {
		case Refuse, RefuseLate:
			_ = f.WriteRSTStream(id, http2.ErrCodeRefusedStream)
		case BreakOff:
			_ = f.WriteRSTStream(id, http2.ErrCodeProtocol)
		case GoAway, GoAwayFirst, GoAwayBehind:
			code, last := http2.ErrCodeNo, id-2
			if id == 1 {
				last = 0
			}
			if verdict == GoAwayFirst {
				code = http2.ErrCodeEnhanceYourCalm
			}
			if verdict == GoAwayBehind {
				last = id
			}
			_ = f.WriteGoAway(last, code, []byte("http2: Transport: cannot retry err [; REFUSED_STREAM; received from peer]"))
			if verdict == GoAwayBehind {
				return
			} // the client ends the connection once it has read that
		default:
			r.Header.Del("X-Judged")
			r.Body = io.NopCloser(body)
			s.answer(f, id, r)
		}
	}
}

// requestOf makes a request from the header of a stream.
func requestOf(h *http2.MetaHeadersFrame) *http.Request {
	r := &http.Request{
		Method: h.PseudoValue("method"), Host: h.PseudoValue("authority"), Header: http.Header{}, Proto: "HTTP/2.0", ProtoMajor: 2,
		URL: &url.URL{Path: h.PseudoValue("path")},
	}
	for _, field := range h.RegularFields() {
		r.Header.Add(field.Name, field.Value)
	}
	return r
}

func (s *Streams) answer(f *http2.Framer, id uint32, r *http.Request) {
	rec := httptest.NewRecorder()
	s.handler.ServeHTTP(rec, r)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	_ = enc.WriteField(hpack.HeaderField{Name: ":status", Value: rec.Result().Status[:3]})
	for name, values := range rec.Header() {
		for _, value := range values {
			_ = enc.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: value})
		}
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
	_ = f.WriteData(id, true, rec.Body.Bytes())
}
