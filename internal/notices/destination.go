package notices

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"strings"
)

// Format names the form of the messages that a destination takes.
type Format string

// The formats.
const (
	FormatJSON    Format = "json"
	FormatSlack   Format = "slack"
	FormatDiscord Format = "discord"
	FormatTeams   Format = "teams"
	FormatMail    Format = "mail"
)

// Destination is a place that notices are sent to. Its address is a secret: only Name is shown.
type Destination struct {
	// Name has the host and the beginning of a hash of the address: "hooks.slack.com-1f0c9a".
	Name   string
	Format Format

	url  *url.URL
	mail *account // nil: not a mail server
}

// account holds what mail is sent with.
type account struct {
	host     string
	port     int
	user     string
	password string
	implicit bool // TLS from the first byte
	plain    bool // without TLS
	from     string
	to       []string
	roots    *x509.CertPool // nil: the machine's
}

// String keeps the address out of logs.
func (d Destination) String() string { return d.Name }

// chatHosts guesses the format of an address by the end of its host.
var chatHosts = []struct {
	end    string
	format Format
}{
	{"hooks.slack.com", FormatSlack},
	{"hooks.slack-gov.com", FormatSlack},
	{"discord.com", FormatDiscord},
	{"discordapp.com", FormatDiscord},
	{"webhook.office.com", FormatTeams},
	{"logic.azure.com", FormatTeams},
	{"powerplatform.com", FormatTeams},
}

// ParseWebhook reads the address of a webhook, such as https://…, or slack+https://… . Its errors do not
// repeat it.
func ParseWebhook(raw string) (Destination, error) {
	d := Destination{Format: FormatJSON}
	address := raw
	named := false
	if before, rest, found := strings.Cut(raw, "+"); found && !strings.ContainsAny(before, ":/") {
		switch f := Format(strings.ToLower(before)); f {
		case FormatSlack, FormatDiscord, FormatTeams, FormatJSON:
			d.Format, address, named = f, rest, true
		case FormatMail:
			return d, errors.New("mail is set up with PURSER_SMTP_URL")
		default:
			return d, errors.New("a webhook begins with https://, slack+https://, discord+https://, teams+https:// or json+https://")
		}
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return d, errors.New("not an absolute https URL; an address that has a comma cannot be used")
	case u.User != nil || u.Fragment != "":
		return d, errors.New("a webhook has no user and no fragment")
	case u.Scheme == "http" && !inside(u.Hostname()):
		return d, errors.New("use https: over http everyone on the way reads the messages")
	}
	if !named {
		for _, c := range chatHosts {
			if host := strings.ToLower(u.Hostname()); host == c.end || strings.HasSuffix(host, "."+c.end) {
				d.Format = c.format
			}
		}
	}
	d.url, d.Name = u, nameOf(u.Hostname(), string(d.Format)+" "+u.String())
	return d, nil
}

// inside reports whether a host is this machine, or an address of a private network.
func inside(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsPrivate())
}

// nameOf names a destination without telling its address.
func nameOf(host, address string) string {
	sum := sha256.Sum256([]byte(address))
	return strings.ToLower(host) + "-" + hex.EncodeToString(sum[:3])
}

// maxRecipients bounds the addresses that one mail goes to.
const maxRecipients = 50

// ParseMail reads the address of a mail server, such as smtp://user:password@host:587 or smtps://… , the
// sender and the recipients. Its errors do not repeat the address.
func ParseMail(raw, from, to string) (Destination, error) {
	d := Destination{Format: FormatMail}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" || u.Hostname() == "" || u.Path != "" && u.Path != "/" {
		return d, errors.New("not an address such as smtp://user:password@mail.example.com:587 or smtps://mail.example.com; write special characters of the password as %XX")
	}
	a := account{host: u.Hostname(), port: 587, implicit: u.Scheme == "smtps", user: u.User.Username()}
	a.password, _ = u.User.Password()
	if a.implicit {
		a.port = 465
	}
	if p := u.Port(); p != "" {
		if _, err := fmt.Sscan(p, &a.port); err != nil || a.port < 1 || a.port > 65535 {
			return d, errors.New("the port is not a number from 1 to 65535")
		}
	}
	switch q := u.Query(); {
	case len(q) > 1 || len(q) == 1 && !q.Has("tls") || q.Has("tls") && q.Get("tls") != "off":
		return d, errors.New("the only option is ?tls=off")
	case q.Has("tls") && a.implicit:
		return d, errors.New("smtps:// has TLS; use smtp:// with ?tls=off")
	default:
		a.plain = q.Has("tls") || !a.implicit && loopback(a.host)
	}
	if a.from, err = oneAddress(from); err != nil {
		return d, fmt.Errorf("the sender: %w", err)
	}
	list, err := mail.ParseAddressList(to)
	if err != nil || strings.ContainsAny(to, "\r\n") {
		return d, errors.New("the recipients are not a list of mail addresses, separated by commas")
	}
	for _, one := range list {
		a.to = append(a.to, one.String())
	}
	if len(a.to) > maxRecipients {
		return d, fmt.Errorf("mail needs 1 to %d recipients", maxRecipients)
	}
	d.mail, d.Name = &a, nameOf("mail-"+a.host, raw+" "+a.from+" "+strings.Join(a.to, ","))
	return d, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// oneAddress reads a mail address with or without a name.
func oneAddress(text string) (string, error) {
	if strings.ContainsAny(text, "\r\n") {
		return "", errors.New("a mail address is one line")
	}
	a, err := mail.ParseAddress(text)
	if err != nil {
		return "", fmt.Errorf("%q is not a mail address", text)
	}
	return a.String(), nil
}
