// Package toolcall reads and writes paid calls of the Model Context Protocol, as they stand on the wire: JSON-RPC
// messages in which sellers ask for money, and clients pay, in several dialects.
//
// It does no I/O, keeps nothing, and decides nothing about money. The terms themselves are those of packages x402 and mpp. The
// carrier of package proxy knows in which HTTP messages these stand.
package toolcall

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// Methods of calls that sellers ask money for.
const (
	MethodTool     = "tools/call"
	MethodResource = "resources/read"
	MethodPrompt   = "prompts/get"
)

// kinds has a word for what each method buys. Booked URLs have it.
var kinds = map[string]string{MethodTool: "tool", MethodResource: "resource", MethodPrompt: "prompt"}

// maxNesting bounds how deep objects and arrays of a message are read.
const maxNesting = 64

// Names of members of _meta that carry a credential. A call that has one is its client's own payment.
const (
	keyPayment       = "x402/payment"               // x402, an object; Cloudflare, a text
	keyPaymentDotted = "x402.payment"               // Vercel, a text
	keyCredential    = "org.paymentauth/credential" //nolint:gosec // a name, of MPP
	argumentPayment  = "x402_payment"               // an argument of the tool, for some sellers
)

// aside lists the beginnings of members of _meta that say nothing about what is called.
var aside = []string{"io.modelcontextprotocol/"}

// asideNames lists such members: what the progress of the call, and its trace, are known by.
var asideNames = []string{"progressToken", "traceparent", "tracestate", "baggage", "sentry-trace"}

// Call is a JSON-RPC request that may be paid for.
type Call struct {
	Method string // one of the Method constants
	Name   string // of the tool or prompt; the resource's URI

	loose  bool // see Loosen
	id     json.RawMessage
	body   []byte
	top    []member
	params []member
	meta   []member
}

type member struct {
	name  string
	value json.RawMessage
}

var errNoCall = errors.New("not a call that may be paid for")

// Read reads the body of a request. Batches, notifications, answers, and calls of other methods are an error.
func Read(body []byte) (*Call, error) {
	top, err := object(body)
	if err != nil {
		return nil, err
	}
	method, _ := strictjson.Unquote(get(top, "method"))
	c := &Call{Method: method, id: get(top, "id"), body: body, top: top}
	if kinds[method] == "" || !isID(c.id) {
		return nil, errNoCall
	}
	if c.params, err = inner(get(top, "params")); err != nil {
		return nil, err
	}
	named := "name"
	if method == MethodResource {
		named = "uri"
	}
	var is bool
	if c.Name, is = strictjson.Unquote(get(c.params, named)); !is || c.Name == "" {
		return nil, errNoCall
	}
	if meta := get(c.params, "_meta"); meta != nil {
		if c.meta, err = inner(meta); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// isID reports whether a value identifies a request: JSON-RPC allows null, and MCP does not.
func isID(value json.RawMessage) bool {
	kind := strictjson.Kind(value)
	return kind == '"' || kind == '-' || '0' <= kind && kind <= '9'
}

// Kind returns the word for what is bought: tool, resource or prompt.
func (c *Call) Kind() string { return kinds[c.Method] }

// ID returns the id of the request as JSON, in one spelling.
func (c *Call) ID() string { return spelt(c.id) }

func spelt(id json.RawMessage) string {
	var b bytes.Buffer
	write(&b, id)
	return b.String()
}

// Version returns the version of the protocol that the call itself names; "": it names none, as before 2026-07-28.
func (c *Call) Version() string {
	version, _ := strictjson.Unquote(get(c.meta, "io.modelcontextprotocol/protocolVersion"))
	return version
}

// Cancelled returns the id, in one spelling, of the call that a message of the client cancels; "": it cancels none.
func Cancelled(message []byte) string {
	top, err := object(message)
	if method, _ := strictjson.Unquote(get(top, "method")); err != nil || method != "notifications/cancelled" {
		return ""
	}
	params, err := object(get(top, "params"))
	if id := get(params, "requestId"); err == nil && isID(id) {
		return spelt(id)
	}
	return ""
}

// Asked returns what is left of the call to know its answer by: Sort, Hear and Refusal go on, and nothing else does. It
// keeps none of the body.
func (c *Call) Asked() *Call { return &Call{Method: c.Method, id: slices.Clone(c.id), loose: c.loose} }

// Loosen has further answers read as clients read them: of members of one name the last one counts, they may be nested
// deeply, and see lenient. Nothing behind a payment may pass unread. Terms that are to be paid are never read so.
func (c *Call) Loosen() { c.loose = true }

// Pays reports whether the call carries a credential: its client pays by itself.
func (c *Call) Pays() bool {
	for _, name := range []string{keyPayment, keyPaymentDotted, keyCredential} {
		if get(c.meta, name) != nil {
			return true
		}
	}
	arguments, err := inner(get(c.params, "arguments"))
	return err == nil && get(arguments, argumentPayment) != nil
}

// Site returns the URL under which a call of a server at u is booked, such as mcp://api.example.com/tool/get_weather.
func (c *Call) Site(u *url.URL) string {
	at := url.URL{Scheme: "mcp", Host: strings.ToLower(u.Host)}
	if u.Scheme == "http" && u.Port() == "" {
		at.Host += ":80"
	}
	if u.Scheme == "https" {
		at.Host = strings.TrimSuffix(at.Host, ":443")
	}
	name := url.PathEscape(c.Name)
	if strings.Trim(name, ".") == "" { // it would name the folder, or the one above
		name = strings.ReplaceAll(name, ".", "%2E")
	}
	return at.JoinPath(c.Kind(), name).String()
}

// Content returns one text for all calls that ask for the same thing, whatever their ids: the method, and the
// parameters without what only names this request.
func (c *Call) Content() string {
	var b bytes.Buffer
	b.WriteString(c.Method)
	params := slices.Clone(c.params)
	params = slices.DeleteFunc(params, func(m member) bool { return m.name == "_meta" })
	writeMembers(&b, params)
	writeMembers(&b, slices.DeleteFunc(slices.Clone(c.meta), func(m member) bool {
		return slices.Contains(asideNames, m.name) || slices.ContainsFunc(aside, func(start string) bool { return strings.HasPrefix(m.name, start) })
	}))
	return b.String()
}

// write appends a valid value in one spelling: members of objects stand in the order of their names. Numbers stay as
// they are, because readers round them differently.
func write(b *bytes.Buffer, value json.RawMessage) {
	switch strictjson.Kind(value) {
	case '{':
		var all []member
		for name, inner := range strictjson.Members(value) {
			all = append(all, member{name, inner})
		}
		writeMembers(b, all)
	case '[':
		b.WriteByte('[')
		for element := range strictjson.Elements(value) {
			write(b, element)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case '"':
		text, _ := strictjson.Unquote(value)
		writeText(b, text)
	default:
		b.Write(bytes.TrimSpace(value))
	}
}

func writeMembers(b *bytes.Buffer, all []member) {
	slices.SortStableFunc(all, func(x, y member) int { return cmp.Compare(x.name, y.name) })
	b.WriteByte('{')
	for _, m := range all {
		writeText(b, m.name)
		b.WriteByte(':')
		write(b, m.value)
		b.WriteByte(',')
	}
	b.WriteByte('}')
}

func writeText(b *bytes.Buffer, text string) {
	quoted, _ := json.Marshal(text) // of a string it does not fail
	b.Write(quoted)
}

// Dialect is the form in which a seller takes a payment.
type Dialect int

// The dialects that sellers speak.
const (
	DialectX402       Dialect = iota // x402's transport for MCP, version 2
	DialectX402V1                    // version 1: that transport's, and Vercel's beside it
	DialectCloudflare                // withX402 of Cloudflare's agents
	DialectMPP                       // MPP's transport for MCP
)

// Paid returns the body of the call with a payment, for a seller of the dialect. A payment of MPP has one form for all.
// Everything else stays as it came.
func (c *Call) Paid(d Dialect, p x402.Payload) []byte {
	if p.Version == mpp.Version {
		credential, _ := mpp.Credential(p) // one that cannot be written is null, which no seller takes
		return c.with(member{keyCredential, credential})
	}
	text, _ := json.Marshal(p.Header()) // of a string it does not fail
	set := []member{{keyPayment, p.JSON}}
	switch d {
	case DialectX402, DialectMPP:
	case DialectX402V1:
		set = append(set, member{keyPaymentDotted, text})
	case DialectCloudflare:
		set[0].value = text
	}
	return c.with(set...)
}

// with returns the body of the call with further members of _meta.
func (c *Call) with(set ...member) []byte {
	meta := with(get(c.params, "_meta"), set...)
	params := with(get(c.top, "params"), member{"_meta", meta})
	return with(c.body, member{"params", params})
}

// with returns an object with further members, each in the place of one of its name. Without an object it makes one.
func with(value json.RawMessage, set ...member) json.RawMessage {
	var b bytes.Buffer
	separator := byte('{')
	put := func(name string, value json.RawMessage) {
		b.WriteByte(separator)
		separator = ','
		writeText(&b, name)
		b.WriteByte(':')
		b.Write(value)
	}
	left := slices.Clone(set)
	if strictjson.Kind(value) == '{' {
		for name, old := range strictjson.Members(value) {
			if i := slices.IndexFunc(left, func(m member) bool { return m.name == name }); i >= 0 {
				old = left[i].value
				left = slices.Delete(left, i, i+1)
			}
			put(name, old)
		}
	}
	for _, m := range left {
		put(m.name, m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// object returns the members of a text that is one JSON object without repeated names.
func object(text []byte) ([]member, error) { return read(text, false) }

// inner is object for a value of a valid text.
func inner(value []byte) ([]member, error) { return members(value, false) }

// read is object, or the loose reading of one.
func read(text []byte, loose bool) ([]member, error) {
	if !loose && strictjson.Nesting(text) > maxNesting {
		return nil, errNoCall
	}
	text, ok := readable(text, loose)
	if !ok {
		return nil, errNoCall
	}
	return members(text, loose)
}

func members(value []byte, loose bool) ([]member, error) {
	if strictjson.Kind(value) != '{' {
		return nil, errNoCall
	}
	all := make([]member, 0, few)
	var at map[string]int // of each name, once they are many
	for name, value := range strictjson.Members(value) {
		i, known := at[name]
		if at == nil {
			i = slices.IndexFunc(all, func(m member) bool { return m.name == name })
			known = i >= 0
		}
		switch {
		case known && !loose:
			return nil, strictjson.ErrRepeated
		case known:
			all[i].value = value
			continue
		}
		if all = append(all, member{name, value}); at != nil {
			at[name] = len(all) - 1
		} else if len(all) > few {
			at = make(map[string]int, 2*len(all))
			for i, m := range all {
				at[m.name] = i
			}
		}
	}
	return all, nil
}

// few is the number of members up to which names are compared one by one.
const few = 8

// get returns the value of a member; nil: there is none.
func get(of []member, name string) json.RawMessage {
	for _, m := range of {
		if m.name == name {
			return m.value
		}
	}
	return nil
}
