// Package mpp has the wire of MPP, the HTTP authentication scheme "Payment": challenges, credentials, receipts and
// problems (draft-httpauth-payment-00, and the methods evm and tempo of it).
//
// It is pure. Package protocol speaks it over HTTP, and package toolcall inside MCP. Neither knows how money
// moves: that is the rails'.
package mpp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/x402"
)

// Version tells challenges and payloads of MPP from those of other protocols.
const Version = x402.OtherProtocols

// Scheme is the name of the authentication scheme. Its case does not matter (RFC 9110, section 11.1).
const Scheme = "Payment"

// Bounds on what a seller sends.
const (
	maxChallenges = 64       // of one answer. Later ones are left out
	maxParameters = 32       // of one challenge
	maxRequest    = 16 << 10 // bytes of a challenge's request, encoded
)

// Challenge is one offer of a seller.
type Challenge struct {
	// Parameters hold all parameters in their order, with names in lower case.
	Parameters []Parameter
}

// echoed lists the parameters that a credential repeats: those that official clients know.
var echoed = []string{"id", "realm", "method", "intent", "request", "description", "digest", "expires", "header", "opaque"}

// Parameter is one parameter of a challenge. Its value is text: HTTP has bytes of Latin-1 there.
type Parameter struct{ Name, Value string }

// Get returns the value of a parameter; "": the challenge has none.
func (c Challenge) Get(name string) string {
	for _, p := range c.Parameters {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Parse reads the challenges of MPP among the values of WWW-Authenticate. found reports whether there is one.
// A challenge that cannot be read is left out. err says what is wrong with the first of these.
func Parse(values []string) (list []Challenge, found bool, err error) {
	for _, value := range values {
		if len(value) > x402.MaxHeaderBytes {
			return list, true, fmt.Errorf("%w: over %d bytes", x402.ErrTooLarge, x402.MaxHeaderBytes)
		}
		of := scanner{text: value}
		for of.more() {
			scheme, parameters, wrong := of.challenge()
			if strings.EqualFold(scheme, Scheme) && len(list) < maxChallenges {
				found = true
				c := Challenge{parameters}
				if wrong == nil {
					wrong = c.check()
				}
				if wrong == nil {
					list = append(list, c)
				} else if err == nil {
					err = wrong
				}
			}
		}
	}
	return list, found, err
}

// KeyRequired names the object with the member challenges that MCP has in the place of [HeaderChallenge].
const KeyRequired = "org.paymentauth/payment-required"

// ParseMCP reads the challenges of MCP: an object with [KeyRequired]. found reports whether there is one.
func ParseMCP(terms []byte) (list []x402.Requirement, found bool, err error) {
	top, err := strictjson.Object(terms)
	if err != nil || top[KeyRequired] == nil {
		return nil, false, nil
	}
	asked, err := strictjson.Object(top[KeyRequired])
	if err != nil || strictjson.Kind(asked["challenges"]) != '[' {
		return nil, true, errors.New("no list of challenges")
	}
	n := 0
	for one := range strictjson.Elements(asked["challenges"]) {
		if n++; n > maxChallenges {
			break
		}
		r, wrong := chargeMCP(one)
		if wrong == nil {
			list = append(list, r)
		} else if err == nil {
			err = wrong
		}
	}
	return list, true, err
}

// ProblemMCP reads the problem document beside the challenges of MCP: see [Problem].
func ProblemMCP(terms []byte) (name, detail string) {
	var told map[string]struct{ Problem json.RawMessage }
	if json.Unmarshal(terms, &told) != nil {
		return "", ""
	}
	return Problem(told[KeyRequired].Problem)
}

// chargeMCP reads a challenge of MCP, whose request is JSON.
func chargeMCP(challenge json.RawMessage) (x402.Requirement, error) {
	members, err := strictjson.Object(challenge)
	if err != nil {
		return x402.Requirement{}, err
	}
	var c Challenge
	for _, name := range echoed {
		value := members[name]
		if text, is := strictjson.Unquote(value); is {
			c.Parameters = append(c.Parameters, Parameter{name, text})
		} else if value != nil && name == "request" {
			c.Parameters = append(c.Parameters, Parameter{name, string(value)})
		}
	}
	if err := c.check(); err != nil {
		return x402.Requirement{}, err
	}
	return charge(c, challenge, members["request"])
}

// check refuses a challenge that could be read in two ways, or that nothing can answer.
func (c Challenge) check() error {
	for i, p := range c.Parameters {
		if slices.ContainsFunc(c.Parameters[:i], func(q Parameter) bool { return q.Name == p.Name }) {
			return fmt.Errorf("the parameter %q appears twice", printable(p.Name))
		}
	}
	for _, name := range []string{"id", "realm", "method", "intent", "request"} {
		if c.Get(name) == "" {
			return fmt.Errorf("the challenge has no %s", name)
		}
	}
	if len(c.Get("request")) > maxRequest {
		return fmt.Errorf("%w: a request of over %d bytes", x402.ErrTooLarge, maxRequest)
	}
	return nil
}

// scanner reads a list of challenges (RFC 9110, section 11.6.1).
type scanner struct {
	text string
	at   int
}

// more skips to the next challenge, and reports whether there is one.
func (s *scanner) more() bool {
	s.skip(" \t,")
	return s.at < len(s.text)
}

func (s *scanner) skip(bytes string) {
	for s.at < len(s.text) && strings.IndexByte(bytes, s.text[s.at]) >= 0 {
		s.at++
	}
}

// token reads what may be a name. Its characters are those of RFC 9110, section 5.6.2.
func (s *scanner) token() string {
	from := s.at
	for s.at < len(s.text) && isToken(s.text[s.at]) {
		s.at++
	}
	return s.text[from:s.at]
}

func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// challenge reads one challenge. After an error it stands behind the faulty text.
func (s *scanner) challenge() (scheme string, parameters []Parameter, err error) {
	if scheme = s.token(); scheme == "" {
		s.other()
		return "", nil, errors.New("it is no list of challenges")
	}
	for {
		s.skip(" \t")
		end := s.at
		s.skip(" \t,")
		begin := s.at
		name := s.token()
		s.skip(" \t")
		if name == "" || s.at == len(s.text) || s.text[s.at] != '=' {
			if s.at = begin; begin == end && parameters == nil { // credentials of another form, such as base64
				s.other()
			}
			return scheme, parameters, err
		}
		s.at++
		s.skip(" \t")
		value, wrong := s.value()
		if len(parameters) == maxParameters {
			wrong = errors.New("too many parameters")
		}
		if err == nil {
			err = wrong
		}
		if len(parameters) < maxParameters {
			parameters = append(parameters, Parameter{strings.ToLower(name), value})
		}
	}
}

// other skips credentials of another form.
func (s *scanner) other() {
	for s.at < len(s.text) && s.text[s.at] != ',' {
		s.at++
	}
}

// value reads the value of a parameter, a token or a quoted string. mppx writes characters beyond Latin-1 as
// a [unit].
func (s *scanner) value() (string, error) {
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		from := s.at
		for s.at < len(s.text) && s.text[s.at] != ',' {
			s.at++
		}
		return latin(strings.TrimRight(s.text[from:s.at], " \t")), nil
	}
	var value []byte
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case '"':
			s.at++
			return string(value), nil
		case '\\':
			if s.at++; s.at == len(s.text) {
				return "", errors.New("a quoted string does not end")
			}
			if r, n := escaped(s.text[s.at:]); n > 0 {
				value = utf8.AppendRune(value, r)
				s.at += n - 1
			} else {
				value = utf8.AppendRune(value, rune(s.text[s.at]))
			}
		default:
			value = utf8.AppendRune(value, rune(c))
		}
	}
	return "", errors.New("a quoted string does not end")
}

// unit has the form of a character that mppx escapes: u and four digits of its code in UTF-16, behind a backslash.
const unit = "u2014"

// escaped reads a unit at the beginning of a text, and the one behind it if both are a pair. n is 0 for another text.
func escaped(text string) (r rune, n int) {
	read := func(text string) (rune, bool) {
		if len(text) < len(unit) || text[0] != 'u' {
			return 0, false
		}
		code, err := strconv.ParseUint(text[1:5], 16, 16)
		return rune(code), err == nil
	}
	r, ok := read(text)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) && strings.HasPrefix(text[5:], `\`) {
		if low, ok := read(text[6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf16.DecodeRune(r, low), 2*len(unit) + 1
		}
	}
	return r, len(unit)
}

// latin returns bytes of Latin-1 as text.
func latin(bytes string) string {
	text := make([]byte, 0, len(bytes))
	for i := range len(bytes) {
		text = utf8.AppendRune(text, rune(bytes[i]))
	}
	return string(text)
}

// Bytes returns the bytes of a header value that a client has read as text, one character for each.
func Bytes(text string) string {
	var bytes strings.Builder
	for _, r := range text {
		if r > 0xff {
			return text // it is none
		}
		bytes.WriteByte(byte(r))
	}
	return bytes.String()
}

// printable bounds a seller's text for messages.
func printable(text string) string {
	if len(text) > 40 {
		text = text[:40]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// decodeRequest reads the request of a challenge: an object as base64url, as HTTP has it, or as JSON in MCP.
func decodeRequest(request json.RawMessage) (map[string]json.RawMessage, error) {
	if text, is := strictjson.Unquote(request); is {
		decoded, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
		if err != nil {
			return nil, errors.New("the request is no base64url")
		}
		request = decoded
	}
	if strictjson.Kind(request) != '{' || strictjson.Nesting(request) > 32 {
		return nil, errors.New("the request is no JSON object")
	}
	return strictjson.Object(request)
}
