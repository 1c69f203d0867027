package forward

import (
	"bufio"
	"io"
	"net"
	"net/textproto"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
)

// The body's terminator follows the last event at once. A client that closes its connection without reading it
// breaks the connection off, and has its answer all the same.
func TestTerminatorBehindTheOwnEnd(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"keeping": "", "closing": "\nConnection: close"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), proxytest.NewSeller(t)
			goOn, _ := stream(s, "data: {\"n\":1}\n\n", "data: [DONE]\n\n")
			close(goOn)
			for range 20 {
				conn, err := net.Dial("tcp", w.addr())
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(conn, strings.ReplaceAll("GET "+s.URL+"/x HTTP/1.1\nHost: x"+header+w.login()+"\n\n", "\n", "\r\n"))
				in := textproto.NewReader(bufio.NewReaderSize(conn, 16))
				for line := ""; line != "data: [DONE]"; {
					if line, err = in.ReadLine(); err != nil {
						t.Fatal(err)
					}
				}
				_ = conn.Close()
			}
			for _, p := range w.Payments() {
				if p := w.Closed(p.ID); !p.Answered || p.State != pay.Settled {
					t.Errorf("%s, answered %t", p.State, p.Answered)
				}
			}
			if n := len(w.Payments()); n != 20 {
				t.Errorf("%d payments of 20 calls", n)
			}
		})
	}
}
