package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
)

// Header names of x402. Protocol version 1 uses those with V1, and sends its challenge in the body
// of the 402.
const (
	HeaderRequired   = "PAYMENT-REQUIRED"
	HeaderSignature  = "PAYMENT-SIGNATURE"
	HeaderResponse   = "PAYMENT-RESPONSE"
	HeaderV1Payment  = "X-PAYMENT"
	HeaderV1Response = "X-PAYMENT-RESPONSE"
)

// maxAccepts bounds the requirements of a challenge that are read. Later ones are left out.
const maxAccepts = 64

var (
	// ErrNotChallenge reports text that is not an x402 challenge of a known version.
	ErrNotChallenge = errors.New("not an x402 challenge")
	// ErrTooLarge reports text beyond a bound of size, nesting or number.
	ErrTooLarge = errors.New("too large")
)

// Challenge holds the payment terms of a 402. Accepts keeps the seller's order. An entry that
// cannot be paid says why in its Problem.
type Challenge struct {
	Version int // 1 or 2
	// Error holds the seller's reason. After a paid attempt it says why the seller refused the
	// payment.
	Error   string
	Accepts []Requirement
	// Resource holds the v2 ResourceInfo as received; nil when absent.
	Resource json.RawMessage
	// ResourceURL names the resource on sale, as the seller claims. It may differ from the
	// requested URL.
	ResourceURL string
	// Extensions holds the v2 extensions as received; nil when absent.
	Extensions json.RawMessage
	// Bare reports that the challenge was a single requirement with nothing around it.
	Bare bool
}

// DecodeHeader decodes a challenge header, plain JSON or base64 of any alphabet and padding: a v2
// PaymentRequired, a v1 body, or one bare requirement. Copies of it that are joined by commas are one, and
// quotes are left out. Errors match ErrNotChallenge or ErrTooLarge. A requirement that cannot be paid is not an error.
func DecodeHeader(value string) (Challenge, error) {
	value, err := only(value)
	if err != nil {
		return Challenge{}, notChallenge(err)
	}
	text, err := decodeText(value)
	if err != nil {
		return Challenge{}, notChallenge(err)
	}
	top, err := readObject(text)
	if err == nil {
		top, err = unwrapped(top)
	}
	if err != nil {
		return Challenge{}, notChallenge(err)
	}
	if _, listed := top.get("accepts"); !listed && isBare(top) {
		r := decodeRequirement(bytes.TrimSpace(text), bareVersion(top)) // nothing was around it
		return Challenge{Version: r.Version, Accepts: []Requirement{r}, ResourceURL: r.Resource, Bare: true}, nil
	}
	return listChallenge(top)
}

// DecodeBody decodes the body of a 402: a v1 challenge, or a v2 challenge that came without its
// header. At most one object of a framework may be around it: see wrappers. Errors are as for DecodeHeader.
func DecodeBody(b []byte) (Challenge, error) {
	b = bytes.TrimPrefix(b, byteOrderMark)
	if strictjson.Kind(b) != '{' {
		return Challenge{}, notChallenge(errors.New("not an object"))
	}
	if len(b) > MaxChallengeBytes {
		return Challenge{}, notChallenge(fmt.Errorf("%w: over %d bytes", ErrTooLarge, MaxChallengeBytes))
	}
	top, err := readObject(bytes.Clone(b)) // the challenge keeps parts of it
	if err == nil {
		top, err = unwrapped(top)
	}
	if err != nil {
		return Challenge{}, notChallenge(err)
	}
	if top.value("x402Version") == nil {
		return Challenge{}, notChallenge(errors.New("no x402Version"))
	}
	return listChallenge(top)
}

// FromResponse finds the challenge of a 402 in PAYMENT-REQUIRED, then in the extra headers, then in
// the body. If the first cannot be decoded, the others are ignored, as by every x402 client. The
// bool is true when a challenge was found, even one that cannot be decoded.
func FromResponse(header http.Header, body []byte, extra ...string) (Challenge, bool, error) {
	value, err := single(header, HeaderRequired)
	if err != nil {
		return Challenge{}, true, notChallenge(err)
	}
	if value != "" {
		c, err := DecodeHeader(value)
		return c, true, err
	}
	for _, name := range extra {
		value, err := single(header, name)
		if err != nil || value == "" {
			continue
		}
		c, err := DecodeHeader(value)
		if err == nil || !errors.Is(err, ErrNotChallenge) {
			return c, true, err
		}
	}
	c, err := DecodeBody(body)
	if err != nil && !bytes.Contains(body, []byte(`"x402Version"`)) && !bytes.Contains(body, []byte(`\"x402Version\"`)) {
		return Challenge{}, false, nil
	}
	return c, true, err
}

// isBare reports whether top looks like a requirement. It may still be incomplete.
func isBare(top object) bool {
	if top.value("network") == nil {
		return false
	}
	for _, key := range []string{"scheme", "payTo", "amount", "maxAmountRequired"} {
		if top.value(key) != nil {
			return true
		}
	}
	return false
}

// bareVersion infers the version of a requirement: only v2 has an amount or a network with a colon.
func bareVersion(o object) int {
	if _, ok := o.get("amount"); ok {
		return 2
	}
	if network, _ := o.text("network"); strings.Contains(network, ":") {
		return 2
	}
	return 1
}

// entryVersion returns the version of an entry. Some sellers put entries of version 1 into a challenge of
// version 2; they take payloads of version 1.
func entryVersion(raw json.RawMessage, of int) int {
	entry, err := members(raw)
	if err != nil || of == 1 || entry.value("amount") != nil || entry.value("maxAmountRequired") == nil {
		return of
	}
	return bareVersion(entry)
}

// challengeVersion reads x402Version. When that is absent, it infers the version from the first
// requirement.
func challengeVersion(top object) (int, error) {
	switch string(top.value("x402Version")) {
	case "1", "1.0":
		return 1, nil
	case "2", "2.0":
		return 2, nil
	case "":
		if list, err := firstElements(top.value("accepts"), maxAccepts); err == nil && len(list) > 0 {
			if first, err := members(list[0]); err == nil {
				return bareVersion(first), nil
			}
		}
		return 0, notChallenge(errors.New("neither x402Version nor requirements"))
	}
	return 0, notChallenge(errors.New("unknown x402Version"))
}

func listChallenge(top object) (Challenge, error) {
	version, err := challengeVersion(top)
	if err != nil {
		return Challenge{}, err
	}
	list, err := firstElements(top.value("accepts"), maxAccepts)
	if err != nil {
		return Challenge{}, notChallenge(fmt.Errorf("accepts: %w", err))
	}
	c := Challenge{Version: version, Accepts: make([]Requirement, 0, len(list))}
	c.Error, _ = top.text("error") // text for people; a value of another type reads as absent
	for _, raw := range list {
		r := decodeRequirement(raw, entryVersion(raw, version))
		if c.ResourceURL == "" {
			c.ResourceURL = r.Resource
		}
		c.Accepts = append(c.Accepts, r)
	}
	if version == 1 {
		return c, nil
	}
	c.Extensions = top.value("extensions")
	c.Resource = top.value("resource")
	if url, ok := strictjson.Unquote(c.Resource); ok {
		c.ResourceURL = url
	} else if c.Resource != nil {
		info, err := members(c.Resource)
		if err != nil {
			return Challenge{}, notChallenge(fmt.Errorf("resource: %w", err))
		}
		c.ResourceURL, _ = info.text("url")
	}
	return c, nil
}

// notChallenge adds ErrNotChallenge to err, unless err is ErrTooLarge.
func notChallenge(err error) error {
	if errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("decode challenge: %w", err)
	}
	return fmt.Errorf("decode challenge: %w: %w", ErrNotChallenge, err)
}
