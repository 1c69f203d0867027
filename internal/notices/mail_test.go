package notices

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/pay"
)

// mailLine bounds a connection to a mailbox.
const mailLine = 20 * time.Second

// mailbox is a mail server that keeps what it hears. Its answers to commands can be set.
type mailbox struct {
	net.Listener
	tls     *tls.Config       // nil: no STARTTLS
	answers map[string]string // by command, such as RCPT

	mu    sync.Mutex
	heard []string // lines of commands and letters
}

func listenMail(t *testing.T, tlsConfig *tls.Config, answers map[string]string) *mailbox {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &mailbox{Listener: l, tls: tlsConfig, answers: answers}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		begun := time.Now()
		if all.Wait(); time.Since(begun) > mailLine/2 {
			t.Error("a connection was left open")
		}
	})
	return b
}

func (b *mailbox) port() int { return b.Addr().(*net.TCPAddr).Port }

func (b *mailbox) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.heard, "\n")
}

func (b *mailbox) hear(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, line)
}

func (b *mailbox) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(mailLine))
	lines := bufio.NewScanner(conn)
	say := func(text string) { _, _ = fmt.Fprintf(conn, "%s\r\n", text) }
	say("220 mail.example.com ESMTP")
	secure := false
	for lines.Scan() {
		line := lines.Text()
		b.hear(line)
		command, _, _ := strings.Cut(strings.ToUpper(line), " ")
		if answer := b.answers[command]; answer != "" {
			say(answer)
			continue
		}
		switch {
		case command == "EHLO" && b.tls != nil && !secure:
			say("250-mail.example.com\r\n250 STARTTLS")
		case command == "EHLO" && secure:
			say("250-mail.example.com\r\n250 AUTH PLAIN")
		case command == "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, b.tls)
			lines, secure = bufio.NewScanner(conn), true
		case command == "AUTH":
			say("235 welcome")
		case command == "DATA":
			say("354 go on")
			for lines.Scan() && lines.Text() != "." {
				b.hear(lines.Text())
			}
			say("250 taken")
		case command == "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

// mails is a world with a mail server as its only destination.
func mails(t *testing.T, address string) *world {
	t.Helper()
	d, err := ParseMail(address, "purser <purser@example.com>", "boss@example.com, Ops <ops@example.com>")
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, func(o *Options) { o.Destinations, o.Guard = []Destination{d}, guard.Rules{} })
}

// Words of others add no header and no line of their own to a mail.
func TestMail(t *testing.T) {
	t.Parallel()
	b := listenMail(t, nil, nil)
	w := mails(t, fmt.Sprintf("smtp://127.0.0.1:%d", b.port()))
	w.add(pay.Notice{
		Kind: pay.NoticeDisputed, PaymentID: "p1", Title: "A payment to ü\r\nBcc: evil@example.com\r\n\r\nis disputed",
		Text: "Look\r\n.\r\nMAIL FROM:<evil@example.com>", Figures: map[string]string{"amount": "1.00 USDC"},
	})
	w.steps(0)
	if s := w.state(0); s.Delivered == nil || s.Signed {
		t.Fatalf("%+v\n%s", s, b.said())
	}
	n, _ := w.store.Notices(t.Context(), pay.NoticeQuery{Limit: 1})
	heard := b.said()
	for _, want := range []string{
		"RCPT TO:<boss@example.com>", "RCPT TO:<ops@example.com>", "Message-ID: <" + n[0].ID + "@purser>", "Auto-Submitted: auto-generated", "amount: 1.00 USDC",
		"Open purser: https://purser.example.com/dashboard/payments/p1",
	} {
		if !strings.Contains(heard, want) {
			t.Errorf("no %q in\n%s", want, heard)
		}
	}
	for line := range strings.Lines(heard) {
		if strings.HasPrefix(line, "Bcc:") || strings.HasPrefix(line, "MAIL FROM:<evil") || line == ".\n" {
			t.Errorf("a line of others: %s", line)
		}
	}
}

// A mail server that refuses for good is asked a few times, and one that is busy for a day.
func TestMailRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers map[string]string
		want    string
		given   uint64
	}{
		"no such recipient": {map[string]string{"RCPT": "550 no such user"}, "550", 1},
		"busy":              {map[string]string{"MAIL": "451 try again later"}, "451", 0},
		"no sender":         {map[string]string{"MAIL": "553 not you"}, "553", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := listenMail(t, nil, c.answers)
			w := mails(t, fmt.Sprintf("smtp://127.0.0.1:%d", b.port()))
			w.add(paused())
			for range maxRefusals {
				w.steps(0)
				w.pass(time.Hour)
			}
			if s := w.state(0); s.GivenUp != c.given || !strings.Contains(s.Error, c.want) || s.Delivered != nil {
				t.Errorf("%+v\n%s", s, b.said())
			}
		})
	}
}

// certificate makes a certificate of a name, and the roots that trust it.
func certificate(t *testing.T, name string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, roots
}

// A password goes to no server but over TLS, and to that of the name.
func TestMailSecrets(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString([]byte("\x00purser\x00open-sesame"))
	for name, c := range map[string]struct {
		host, certified string // "": no TLS
		want            string // in the error; "": it is delivered
	}{
		"over STARTTLS":        {"localhost", "localhost", ""},
		"without STARTTLS":     {"localhost", "", "STARTTLS"},
		"of another name":      {"localhost", "other.example.com", "certificate"},
		"at a private address": {"10.11.12.13", "", "deny-private"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var config *tls.Config
			var roots *x509.CertPool
			if c.certified != "" {
				config, roots = certificate(t, c.certified)
			}
			b := listenMail(t, config, nil)
			w := mails(t, fmt.Sprintf("smtp://purser:open-sesame@%s:%d", c.host, b.port()))
			w.queues[0].mail.plain, w.queues[0].mail.roots = false, roots // as elsewhere than on loopback
			w.add(paused())
			w.steps(0)
			s := w.state(0)
			if (c.want == "") != (s.Delivered != nil) || !strings.Contains(s.Error, c.want) {
				t.Errorf("%+v\n%s", s, b.said())
			}
			if sent := strings.Contains(b.said(), secret); sent != (c.want == "") {
				t.Errorf("the password was sent: %t\n%s", sent, b.said())
			}
			if told := s.Error + w.logs.String(); strings.Contains(told, "open-sesame") || strings.Contains(told, secret) {
				t.Errorf("the password is told: %s", told)
			}
		})
	}
}
