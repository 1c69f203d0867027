package dashboard

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

const (
	currency = "USDC" // the symbol of every pinned asset
	decimals = 6      // of every pinned asset
)

// amount is money on a page. It is split at the decimal point, so that columns can be aligned
// there.
type amount struct {
	Minus           bool
	Whole, Fraction string // "1,234" and ".5"; Fraction may be ""
	Currency        string
}

func amountOf(a money.Amount, minus bool, symbol string) amount {
	whole, fraction, point := strings.Cut(a.Format(decimals), ".")
	if point {
		fraction = "." + fraction
	}
	return amount{Minus: minus && !a.IsZero(), Whole: thousands(whole), Fraction: fraction, Currency: symbol}
}

func netOf(s pay.Sum) amount {
	net, minus := s.Net()
	return amountOf(net, minus, currency)
}

func (a amount) String() string {
	sign := ""
	if a.Minus {
		sign = "−"
	}
	return strings.TrimSpace(sign + a.Whole + a.Fraction + " " + a.Currency)
}

// Size is the CSS class of an amount in large type: long numbers are set smaller, so that no unit
// moves to another line.
func (a amount) Size() string {
	switch n := len(a.Whole) + len(a.Fraction); {
	case n > 12:
		return "longest"
	case n > 8:
		return "long"
	}
	return ""
}

// thousands groups the digits of a whole number.
func thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// column returns the CSS class of a table whose amounts are aligned at the decimal point.
func column(list ...amount) string {
	most := 2
	for _, a := range list {
		most = max(most, len(a.Fraction)-1)
	}
	return "d" + strconv.Itoa(min(most, decimals))
}

func count(n int) string { return humanize.Comma(int64(n)) }

func payments(n int) string {
	if n == 1 {
		return "1 payment"
	}
	return count(n) + " payments"
}

// moment is a time on a page: for machines, in full, and as short text.
type moment struct{ Machine, Full, Text string }

func momentOf(t time.Time, layout string) moment {
	t = t.UTC()
	return moment{Machine: t.Format(time.RFC3339), Full: t.Format("Monday, 2 January 2006, 15:04:05 UTC"), Text: t.Format(layout)}
}

// Layouts of times.
const (
	inTable = "2006-01-02 15:04:05"
	inText  = "2 January 2006, 15:04 UTC"
	onlyDay = "2 January 2006"
	isoDay  = "2006-01-02"
)

// recent returns a time for the feed: the time of day if it is today, else the date.
func recent(t, now time.Time) moment {
	switch t = t.UTC(); {
	case pay.DayOf(t).Equal(pay.DayOf(now)):
		return momentOf(t, "15:04:05")
	case t.Year() == now.Year():
		return momentOf(t, "2 Jan")
	}
	return momentOf(t, isoDay)
}

// site is a URL from outside. Link is set only if a browser may follow it. Host and Rest are the two
// lines of a list; Rest may be "".
type site struct{ Text, Link, Full, Host, Rest string }

// Bounds on texts from outside, in characters. They keep pages from growing too large.
const (
	maxText  = 120 // of a URL in a list
	maxTitle = 300
	maxName  = 60 // of a key's label in a list
	maxLink  = 400
	maxURL   = 8 << 10 // of a URL on its own page
)

func siteOf(raw string) site {
	u, ok := followed(raw)
	if !ok {
		if to, moved := strings.CutPrefix(raw, pay.WithdrawalURL); moved {
			raw = "Withdrawal to " + to
		}
		if raw == "" {
			raw = "no address given"
		}
		s := cut(raw, maxText)
		return site{Text: s, Full: cut(raw, maxTitle), Host: s}
	}
	s := site{Host: cut(u.Host, maxText), Full: cut(raw, maxTitle)}
	if p := u.EscapedPath(); p != "/" {
		s.Rest = p
	}
	if u.RawQuery != "" {
		s.Rest += "?" + u.RawQuery
	}
	s.Text, s.Rest = cut(u.Host+s.Rest, maxText), cut(s.Rest, maxText)
	if len(raw) <= maxLink {
		s.Link = raw
	}
	return s
}

// whole returns a URL in full, for the page about one payment.
func whole(raw string) site {
	s := siteOf(raw)
	if _, ok := followed(raw); ok {
		s.Link = raw
	}
	if raw != "" {
		s.Text = cut(raw, maxURL)
	}
	return s
}

// followed parses a URL that a browser may follow: http or https, with a valid host.
func followed(raw string) (*url.URL, bool) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Host, hostAlphabet) != "" {
		return nil, false
	}
	return u, true
}

// cut shortens text to n characters. It replaces characters that do not print, such as marks that
// reverse the text.
func cut(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// transaction holds a transaction hash and a link to an explorer.
type transaction struct{ Text, Full, Link string }

func (d *dashboard) transaction(network, hash string) transaction {
	switch {
	case hash == "":
		return transaction{}
	case !x402.ValidTransaction(hash):
		return transaction{Text: cut(hash, 20), Full: cut(hash, maxTitle)}
	}
	return transaction{Text: short(hash), Full: hash, Link: d.Explorer(network, hash)}
}

// short returns the beginning and the end of a long hexadecimal string.
func short(hex string) string { return hex[:8] + "…" + hex[len(hex)-6:] }

// label returns a key's name for lists.
func label(k pay.Key) string {
	if name := strings.TrimSpace(cut(k.Label, maxName)); name != "" {
		return name
	}
	return "Key " + tail(k.ID)
}

func tail(id string) string { return id[max(0, len(id)-8):] }

func nameOf(a pay.Account) string { return cut(cmp.Or(a.Email, a.Name, a.Subject), maxName) }

// state is a payment's state in a word. Class gives its sign a shape.
type state struct{ Text, Class string }

func stateOf(p *pay.Payment) state {
	switch {
	case p.Disputed:
		return state{"Disputed", "bad"}
	case p.Unresolved:
		return state{"Unresolved", "warn"}
	case p.PaidForNothing():
		return state{"Paid, not delivered", "warn"}
	case p.State == pay.Settled && p.Confirmed:
		return state{"Confirmed", ""}
	case p.State == pay.Settled:
		return state{"Settled", ""}
	case p.Canceled():
		return state{"Canceled", "void"}
	case p.State == pay.Void:
		return state{"Not paid", "void"}
	case p.Refused:
		return state{"Refused", "void"}
	}
	return state{"Open", "open"}
}

// command is a line to copy. Its What describes it for screen readers.
type command struct{ ID, Text, What string }

func commands(lines ...[2]string) []command {
	list := make([]command, len(lines))
	for i, l := range lines {
		list[i] = command{ID: "command-" + strconv.Itoa(i+1), Text: l[1], What: l[0]}
	}
	return list
}

// planName returns FREE as Free.
func planName(n pay.PlanName) string {
	if n == "" {
		return ""
	}
	return string(n[:1]) + strings.ToLower(string(n[1:]))
}
