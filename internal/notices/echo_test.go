package notices

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/purserpay/purser/pay"
)

// raw serves an answer to the first line of each connection.
func raw(t *testing.T, answer func(line string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if line, err := textproto.NewReader(bufio.NewReader(conn)).ReadLine(); err == nil {
				_, _ = conn.Write([]byte(answer(line)))
			}
			conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// A receiver that repeats the address, wherever it does so, makes no secret known, and fills no store.
func TestEchoes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(string) string{
		"reason phrase": func(line string) string { return "HTTP/1.1 400 " + line + "\x1b[31m\r\nContent-Length: 0\r\n\r\n" },
		"no HTTP":       func(line string) string { return line + "\r\n\r\n" },
		"long":          func(string) string { return "HTTP/1.1 500 " + strings.Repeat("long ", 5000) + "\r\n\r\n" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, raw(t, answer)+"/T0000/very-secret?token=also-secret")
			w.add(paused())
			w.steps(0)
			s := w.state(0)
			for _, text := range []string{s.Error, w.logs.String()} {
				if s.Error == "" || strings.Contains(text, "secret") || strings.Contains(text, "\x1b") || len(s.Error) > 300 {
					t.Errorf("%d bytes: %s", len(s.Error), text)
				}
			}
		})
	}
}

// A receiver that repeats the link of an approval makes no token known.
func TestEchoOfALink(t *testing.T) {
	t.Parallel()
	const token = "c2lnbmVkLWJ5LXB1cnNlcg"
	said := func(string) string {
		const text = "bad url https://purser.example.com/dashboard/approve/1#" + token
		return "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: " + strconv.Itoa(len(text)) + "\r\n\r\n" + text
	}
	w := newWorld(t, func(o *Options) {
		o.ApprovalLink = func(context.Context, string) (string, error) {
			return "https://purser.example.com/dashboard/approve/1#" + token, nil
		}
	}, raw(t, said))
	w.add(pay.Notice{Kind: pay.NoticeApproval, ApprovalID: "1", Title: "a", Text: "b"})
	w.steps(0)
	if s := w.state(0); !strings.Contains(s.Error, "bad url") || strings.Contains(s.Error+w.logs.String(), token) {
		t.Errorf("%s\n%s", s.Error, w.logs)
	}
}

// A password is not told in part either.
func TestMailPasswordAtTheEdge(t *testing.T) {
	t.Parallel()
	a := &account{password: "open-sesame-and-more"}
	for n := range 2 * maxWords {
		said := mailFailure(a, &textproto.Error{Code: 535, Msg: strings.Repeat("x", n) + a.password})
		if strings.Contains(said.words, "open") {
			t.Fatalf("%d: %s", n, said.words)
		}
	}
}

// Slack takes a header of 150 characters, and refuses messages with longer ones.
func TestSlackTakesLongTitles(t *testing.T) {
	t.Parallel()
	n := paused()
	n.Title = strings.Repeat("a", 400)
	text, err := message{Notice: n}.body(FormatSlack)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Blocks []struct{ Text struct{ Text string } }
	}
	if err := json.Unmarshal(text, &sent); err != nil {
		t.Fatal(err)
	}
	if n := utf8.RuneCountInString(sent.Blocks[0].Text.Text); n < 100 || n > 150 {
		t.Errorf("the header has %d characters", n)
	}
}
