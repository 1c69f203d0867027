package notices

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

const (
	// mailStart bounds the start of the mail server.
	mailStart = 10 * time.Second
	// boss has a mailbox, and stranger none.
	boss, stranger = "boss@example.com", "boss@elsewhere.example"
)

// mailServer is OpenSMTPD, which takes mail for example.com. A listener of the test ends TLS in front of it: that of
// Debian's OpenSMTPD fails with Debian's OpenSSL.
type mailServer struct {
	*process.Process
	box          string // a maildir
	certificates *process.Certificates
	port         string // of the server
	tls          net.Listener
	config       string
}

// requireMailServer skips the test without Debian's package opensmtpd, or without the rights that it needs to run
// apart from the machine's own mail. With CI=true it fails.
func requireMailServer(t *testing.T) {
	t.Helper()
	why := ""
	switch _, err := os.Stat("/usr/sbin/smtpd"); {
	case err != nil:
		why = "no OpenSMTPD: apt-get install opensmtpd"
	case os.Getuid() != 0:
		why = "OpenSMTPD needs root"
	case exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run() != nil:
		why = "no mounts of one's own: unshare fails"
	}
	if why == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// startMail starts the server. Its spool and its socket are its own, and end with it.
func startMail(t *testing.T) *mailServer {
	t.Helper()
	requireMailServer(t)
	dir := t.TempDir()
	certificates, err := process.NewCertificates(dir, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	// The folders above the maildir are private to root: it is in one that the server's user can enter.
	box, err := os.MkdirTemp("", "purser-mail-")
	if err == nil {
		err = os.Chmod(box, 0o777) //nolint:gosec // another user writes into it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(box) })
	s := &mailServer{box: filepath.Join(box, "mail"), certificates: certificates, port: process.Port(t), config: filepath.Join(dir, "smtpd.conf")}
	text := fmt.Sprintf(`table boxes { "@" = "mail" }
listen on 127.0.0.1 port %s hostname localhost
action "box" maildir %q user mail virtual <boxes>
match from any for domain "example.com" action "box"
`, s.port, s.box)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	s.tls, err = tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificates.Leaf}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var relays sync.WaitGroup
	relays.Go(func() { s.relay(&relays) })
	t.Cleanup(func() {
		_ = s.tls.Close()
		relays.Wait()
	})
	return s
}

// relay passes on what comes over TLS until its listener is closed.
func (s *mailServer) relay(relays *sync.WaitGroup) {
	for {
		from, err := s.tls.Accept()
		if err != nil {
			return
		}
		relays.Go(func() {
			defer from.Close()
			to, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second)
			if err != nil {
				return
			}
			defer to.Close()
			_ = errors.Join(from.SetDeadline(time.Now().Add(time.Minute)), to.SetDeadline(time.Now().Add(time.Minute)))
			relays.Go(func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			})
			_, _ = io.Copy(from, to)
		})
	}
}

// start runs the server until it answers.
func (s *mailServer) start(t *testing.T) {
	t.Helper()
	const script = `mount -t tmpfs -o mode=755 tmpfs /var/spool && mount -t tmpfs -o mode=755 tmpfs /run && exec /usr/sbin/smtpd -d -f "$0"`
	said := new(process.Log)
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-c", script, s.config) //nolint:gosec,noctx // the test ends it
	var err error
	if s.Process, err = process.Run(cmd, said, nil); err != nil {
		t.Fatal(err)
	}
	running := s.Process
	t.Cleanup(func() {
		if running.Kill(); t.Failed() {
			t.Logf("the mail server said:\n%s", said.End())
		}
	})
	process.Eventually(t, mailStart, func() string {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+s.port, time.Second)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
}

// settings are purser's, to write to a person.
func (s *mailServer) settings(to string) []string {
	_, port, _ := net.SplitHostPort(s.tls.Addr().String())
	return []string{
		"PURSER_SMTP_URL=smtps://localhost:" + port, "SSL_CERT_FILE=" + s.certificates.File,
		"PURSER_MAIL_FROM=purser <purser@example.org>", "PURSER_MAIL_TO=" + to,
	}
}

// got lists the mail that was delivered.
func (s *mailServer) got() (list []message, err error) {
	names, err := filepath.Glob(filepath.Join(s.box, "new", "*"))
	for _, name := range names {
		m, one := readMail(name)
		list, err = append(list, m), errors.Join(err, one)
	}
	return list, err
}

func readMail(name string) (m message, err error) {
	f, err := os.Open(name)
	if err != nil {
		return m, err
	}
	defer f.Close()
	letter, err := mail.ReadMessage(bufio.NewReader(f))
	if err != nil {
		return m, err
	}
	body := letter.Body
	if strings.EqualFold(letter.Header.Get("Content-Transfer-Encoding"), "quoted-printable") {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return m, err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(letter.Header.Get("Subject"))
	m.id, m.text = letter.Header.Get("Purser-Notice"), subject+"\n"+string(text)
	for line := range strings.Lines(m.text) {
		for _, name := range []string{"Open purser", "Approve or deny"} {
			if address, found := strings.CutPrefix(line, name+": "); found {
				err = errors.Join(err, m.open(name, strings.TrimSpace(address)))
			}
		}
	}
	for _, name := range []string{"From", "To", "Date", "Message-Id"} {
		if letter.Header.Get(name) == "" {
			err = errors.Join(err, fmt.Errorf("mail without %s", name))
		}
	}
	if letter.Header.Get("Auto-Submitted") != "auto-generated" {
		err = errors.Join(err, errors.New("automatic answers may come to this mail"))
	}
	return m, err
}
