package notices

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"strings"

	"github.com/wneessen/go-mail"

	"github.com/purserpay/purser/internal/guard"
)

// send sends a message by mail.
func (s *Sender) send(ctx context.Context, d Destination, m message) answer {
	letter, err := d.mail.letter(m)
	if err != nil {
		return answer{words: clean(err.Error(), maxWords), refused: true}
	}
	var line connections
	client, err := d.mail.client(d.mail.dialer(s.rules), &line)
	if err != nil {
		return answer{words: clean(err.Error(), maxWords), refused: true}
	}
	defer func() {
		_ = client.Close() // says goodbye, if there is a connection
		line.close()       // the client leaves open what it could not greet
	}()
	if err := client.DialWithContext(ctx); err != nil {
		return mailFailure(d.mail, err)
	}
	if err := client.Send(letter); err != nil {
		return mailFailure(d.mail, err)
	}
	return answer{status: 250, words: "250 taken by the mail server", ok: true}
}

// letter writes the message as a mail. Title and text are on one line each, so no header can be added.
func (a *account) letter(m message) (*mail.Msg, error) {
	l := mail.NewMsg()
	if err := l.From(a.from); err != nil {
		return nil, err
	}
	if err := l.To(a.to...); err != nil {
		return nil, err
	}
	l.Subject("purser: " + m.title())
	l.SetDateWithValue(m.At)
	l.SetMessageIDWithValue(m.ID + "@purser")
	l.SetGenHeader("Purser-Notice", m.ID)
	l.SetGenHeader("Auto-Submitted", "auto-generated")
	lines := []string{m.text(), ""}
	for _, f := range m.facts() {
		lines = append(lines, f.name+": "+f.value)
	}
	for _, f := range m.links() {
		lines = append(lines, f.name+": "+f.value)
	}
	l.SetBodyString(mail.TypeTextPlain, strings.Join(lines, "\n")+"\n")
	return l, nil
}

// dialer judges the address of the server like that of a webhook, at any port. A server that the
// operator has written as loopback may be there.
func (a *account) dialer(rules guard.Rules) *guard.Dialer {
	rules.Ports = []guard.PortRange{{First: 1, Last: 65535}}
	rules.AllowLoopback = rules.AllowLoopback || loopback(a.host)
	return guard.NewDialer(guard.Options{Rules: rules, Timeout: sendTime})
}

// connections holds what the client of one mail has dialled.
type connections []net.Conn

func (c connections) close() {
	for _, conn := range c {
		_ = conn.Close() // the mail is sent, or has failed for another reason
	}
}

// client makes a client for one mail.
func (a *account) client(dialer *guard.Dialer, line *connections) (*mail.Client, error) {
	options := []mail.Option{
		mail.WithPort(a.port), mail.WithTimeout(sendTime), mail.WithHELO("purser"), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithoutNoop(),
	}
	secure := &tls.Config{ServerName: a.host, MinVersion: tls.VersionTLS12, RootCAs: a.roots}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			*line = append(*line, conn)
		}
		return conn, err
	}
	if a.implicit {
		open := dial
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := open(ctx, network, address)
			if err != nil {
				return nil, err
			}
			over := tls.Client(conn, secure)
			if err := over.HandshakeContext(ctx); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return over, nil
		}
	}
	if a.implicit || a.plain {
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	options = append(options, mail.WithDialContextFunc(dial), mail.WithTLSConfig(secure))
	if a.user != "" {
		options = append(options, mail.WithUsername(a.user), mail.WithPassword(a.password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthCramMD5, mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	return mail.NewClient(a.host, options...)
}

// mailFailure reads what a mail server said. A code from 500 on refuses for good, as 4xx does on HTTP.
func mailFailure(a *account, err error) answer {
	hide := func(said string) string { return said }
	if a.password != "" {
		hide = func(said string) string { return strings.ReplaceAll(said, a.password, "…") }
	}
	out := answer{words: failure(err, hide)}
	if failed, is := errors.AsType[*mail.SendError](err); is && failed.ErrorCode() != 0 {
		out.status = failed.ErrorCode()
	} else if said, is := errors.AsType[*textproto.Error](err); is {
		out.status = said.Code
	}
	out.refused = out.status >= 500 && out.status < 600
	if out.status != 0 {
		out.words = fmt.Sprintf("%d: %s", out.status, out.words)
	}
	return out
}
