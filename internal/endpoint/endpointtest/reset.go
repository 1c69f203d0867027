package endpointtest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"
)

// Resets returns the address of an HTTP/2 server and a transport that trusts it. The server
// receives each request whole, calls taken with its number (from 1), and resets the stream with
// PROTOCOL_ERROR.
func Resets(t *testing.T, taken func(n int)) (url string, way http.RoundTripper) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.StartTLS() // for its certificate
	t.Cleanup(server.Close)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: server.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n = reset(conn, n, taken)
			_ = conn.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = listener.Close()
		<-ended
	})
	return "https://" + listener.Addr().String(), transport
}

// reset serves a connection until it ends. It counts requests from n and returns the new count.
func reset(conn net.Conn, n int, taken func(int)) int {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return n
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return n
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return n
		}
		settings, ok := frame.(*http2.SettingsFrame)
		switch {
		case ok && !settings.IsAck():
			err = framer.WriteSettingsAck()
		case frame.Header().StreamID != 0 && frame.Header().Flags.Has(http2.FlagDataEndStream): // the same bit as END_STREAM on headers
			n++
			taken(n)
			err = framer.WriteRSTStream(frame.Header().StreamID, http2.ErrCodeProtocol)
		}
		if err != nil {
			return n
		}
	}
}
