package logs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
)

// Console writes log entries for people who watch a terminal: one line for each payment and each 402
// that was not paid, warnings and errors, and nothing of what Caddy says of itself while all is well.
type Console struct {
	*zapcore.MapObjectEncoder
	pool buffer.Pool
}

// NewConsole returns an encoder without fields.
func NewConsole() Console {
	return Console{zapcore.NewMapObjectEncoder(), buffer.NewPool()}
}

// Clone implements [zapcore.Encoder].
func (c Console) Clone() zapcore.Encoder {
	fields := zapcore.NewMapObjectEncoder()
	maps.Copy(fields.Fields, c.Fields)
	return Console{fields, c.pool}
}

// EncodeEntry implements [zapcore.Encoder]. An entry that is not for people becomes nothing.
func (c Console) EncodeEntry(e zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	all := c.Clone().(Console)
	for _, f := range fields {
		f.AddTo(all)
	}
	out := c.pool.Get()
	of := entry{e, all.Fields}
	if of.idle() {
		return out, nil
	}
	indent := "\n          " // as wide as the time
	out.AppendString(e.Time.Local().Format("15:04:05") + "  " + strings.Join(of.lines(), indent) + "\n")
	return out, nil
}

// Messages that people read in other words.
const (
	settledMessage    = "payment settled"
	voidMessage       = "payment void"
	refusedMessage    = "payment refused"
	unresolvedMessage = "payment unresolved"
	disputedMessage   = "payment disputed"
	declinedMessage   = "402 not paid"
	withheldMessage   = "402 after the payment was sent"
	forbiddenMessage  = "payment not allowed"
	readyMessage      = "purser is ready"
	observedMessage   = "payment observed"
	repeatedMessage   = "payment repeated"
	partingMessage    = "exiting; byeee"                       // Caddy's last one, a warning
	stoppingMessage   = "shutting down apps, then terminating" // Caddy's, when a signal ends the program
)

// chatter lists the loggers by which Caddy tells of itself.
var chatter = []string{"", "admin", "http", "tls", "pki", "events"}

// entry is a log entry with all of its fields.
type entry struct {
	zapcore.Entry
	fields map[string]any
}

// idle reports whether an entry tells people nothing.
func (e entry) idle() bool {
	if falseAlarm(e.Entry, fmt.Sprint(e.fields["address"])) {
		return true
	}
	if strings.HasPrefix(e.Message, partingMessage) {
		return true
	}
	if e.Level > zapcore.InfoLevel {
		return false
	}
	switch first, rest, _ := strings.Cut(e.LoggerName, "."); {
	case strings.HasPrefix(e.LoggerName, "http.log.access"), strings.HasPrefix(e.LoggerName, "http.handlers."):
		return false
	case first == "purser" && strings.HasPrefix(rest, "ca."):
		return true
	case e.Message == forbiddenMessage:
		return e.fields["door"] != "api" // the other doors tell of the 402
	case e.Message == observedMessage, e.Message == repeatedMessage:
		return true
	case e.Message == settledMessage:
		return e.fields["was"] == "settled"
	case e.Message == voidMessage, e.Message == refusedMessage, e.Message == unresolvedMessage:
		return e.fields["was"] != "open"
	case e.Message == stoppingMessage:
		return false
	default:
		return slices.Contains(chatter, first)
	}
}

// falseAlarm reports whether Caddy warns of its admin endpoint without a reason: no browser, and no
// other machine, reaches a socket.
func falseAlarm(e zapcore.Entry, address string) bool {
	return e.Message == "admin endpoint on open interface; host checking disabled" && strings.HasPrefix(address, "unix/")
}

// take returns a field as a text, and removes it from those that are left.
func (e entry) take(name string) string {
	v, set := e.fields[name]
	if !set || v == nil {
		return ""
	}
	delete(e.fields, name)
	return printable(fmt.Sprint(v))
}

// lines writes an entry for people.
func (e entry) lines() []string {
	switch e.Message {
	case settledMessage:
		return []string{e.sum("paid") + e.about()}
	case voidMessage:
		return []string{e.sum("not made") + e.about() + reasonText(e.take("reason"))}
	case refusedMessage:
		return []string{e.sum("refused") + e.about() + reasonText(e.take("reason"))}
	case unresolvedMessage:
		return []string{e.sum("unclear") + e.about() + ": nobody tells whether the money moved", "look at it: purser payments show " + e.take("payment")}
	case disputedMessage:
		return []string{e.sum("DISPUTED") + e.about() + ": the chain does not show what the seller claims", "look at it: purser payments show " + e.take("payment")}
	case declinedMessage, withheldMessage:
		if e.Level < zapcore.ErrorLevel {
			return []string{e.sum("not paid") + e.about() + ": " + e.why("reason")}
		}
	case forbiddenMessage:
		return []string{e.sum("not paid") + e.about() + ": " + e.why("rule")}
	case readyMessage:
		return e.ready()
	case stoppingMessage:
		return []string{"purser ends"}
	}
	word := map[zapcore.Level]string{zapcore.WarnLevel: "warning: "}[e.Level]
	if e.Level > zapcore.WarnLevel {
		word = "ERROR: "
	}
	return []string{word + printable(e.Message) + e.rest()}
}

// sum begins a line with a word and an amount, in columns.
func (e entry) sum(word string) string {
	amount := e.take("amount")
	if units, err := money.Parse(amount); err == nil {
		amount = money.Text(units)
	}
	return fmt.Sprintf("%-9s %12s  ", word, amount)
}

// about names the host and the task of a payment.
func (e entry) about() string {
	text := e.take("host")
	if text == "" {
		text = "an unknown host"
	}
	if task := e.take("task"); task != "" {
		text += ", task " + task
	}
	return text
}

// why tells the reason of a 402 that was not paid.
func (e entry) why(name string) string {
	reason, detail := e.take(name), e.take("detail")
	if said := e.take("seller"); detail == "" && said != "" {
		detail = "the seller said " + words.Quote(said)
	}
	if detail == "" {
		return reason
	}
	return reason + ": " + detail
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// ready greets people: the version, and where the doors are.
func (e entry) ready() []string {
	lines := []string{"purser " + e.take("version") + " is ready, Ctrl-C ends it"}
	for _, door := range []struct{ field, name string }{
		{"proxy", "proxy and REST"}, {"dashboard", "dashboard"}, {"listen", "listens on"}, {"data", "data"},
	} {
		if where := e.take(door.field); where != "" && where != "[]" {
			lines = append(lines, fmt.Sprintf("%-15s %s", door.name, strings.Trim(where, "[]")))
		}
	}
	return append(lines, fmt.Sprintf("%-15s %s", "try", "purser exec -- curl -i URL    purser status    purser doctor"))
}

// rest names the fields that are left.
func (e entry) rest() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.fields)) {
		switch v := e.fields[name].(type) {
		case nil:
		case string:
			if v != "" {
				fmt.Fprintf(&b, "; %s: %s", name, printable(v))
			}
		default:
			text, err := json.Marshal(v)
			if err != nil {
				text = fmt.Append(nil, v)
			}
			fmt.Fprintf(&b, "; %s: %s", name, printable(string(text)))
		}
	}
	return b.String()
}

// printable is a text that steers no terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

// Quiet leaves false alarms out of what another encoder writes.
type Quiet struct {
	zapcore.Encoder
	address string // field of the entry
	pool    buffer.Pool
}

// NewQuiet returns an encoder around another one.
func NewQuiet(inner zapcore.Encoder) *Quiet { return &Quiet{Encoder: inner, pool: buffer.NewPool()} }

// AddString implements [zapcore.ObjectEncoder].
func (q *Quiet) AddString(name, value string) {
	if name == "address" {
		q.address = value
	}
	q.Encoder.AddString(name, value)
}

// Clone implements [zapcore.Encoder].
func (q *Quiet) Clone() zapcore.Encoder {
	return &Quiet{q.Encoder.Clone(), q.address, q.pool}
}

// EncodeEntry implements [zapcore.Encoder].
func (q *Quiet) EncodeEntry(e zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	address := q.address
	for _, f := range fields {
		if f.Key == "address" {
			address = f.String
		}
	}
	if falseAlarm(e, address) {
		return q.pool.Get(), nil
	}
	return q.Encoder.EncodeEntry(e, fields)
}

var (
	_ zapcore.Encoder = Console{}
	_ zapcore.Encoder = (*Quiet)(nil)
)
