package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
)

// Offer holds the parts of a challenge that a payload echoes, byte for byte as received. Its JSON
// form loses no byte.
type Offer struct {
	Version                        int
	Accepted, Resource, Extensions json.RawMessage
}

// offerJSON keeps the echoed parts as strings. As raw JSON they would be compacted and escaped.
type offerJSON struct {
	Version    int    `json:"version"`
	Accepted   string `json:"accepted"`
	Resource   string `json:"resource,omitempty"`
	Extensions string `json:"extensions,omitempty"`
}

// Offer returns the parts that a payload for the i-th requirement echoes.
func (c Challenge) Offer(i int) Offer {
	r := c.Accepts[i]
	return Offer{Version: r.Version, Accepted: r.Raw, Resource: c.Resource, Extensions: c.Extensions}
}

// ResourceURL returns the seller's name of the resource, "" when it gave none.
func (o Offer) ResourceURL() string {
	from, key := o.Resource, "url"
	if o.Version == 1 {
		from, key = o.Accepted, "resource"
	}
	if url, ok := strictjson.Unquote(from); ok {
		return url
	}
	parts, err := readObject(from)
	if err != nil {
		return ""
	}
	url, _ := parts.text(key) // of another type it is no URL
	return url
}

// Description returns the seller's words about the resource, "" when it gave none.
func (o Offer) Description() string {
	from := o.Resource
	if o.Version == 1 {
		from = o.Accepted
	}
	parts, err := readObject(from)
	if err != nil {
		return ""
	}
	text, _ := parts.text("description")
	return text
}

// Fits reports whether the offer's JSON form has at most so many bytes.
func (o Offer) Fits(most int) bool {
	const longest = 6 // what one byte becomes at most: \u0000
	n := len(o.Accepted) + len(o.Resource) + len(o.Extensions)
	if n > most {
		return false // a seller could have it encoded for each of its requirements
	}
	if longest*n+100 <= most && o.text() {
		return true // mostly: encoding it only to count takes 1 % of a payment's CPU
	}
	kept, err := o.MarshalJSON()
	return err == nil && len(kept) <= most
}

// text reports whether all parts are valid UTF-8.
func (o Offer) text() bool {
	return utf8.Valid(o.Accepted) && utf8.Valid(o.Resource) && utf8.Valid(o.Extensions)
}

// MarshalJSON writes the form that loses no byte. It fails when a part is not valid UTF-8.
func (o Offer) MarshalJSON() ([]byte, error) {
	if !o.text() {
		return nil, errors.New("encode offer: not UTF-8")
	}
	return json.Marshal(offerJSON{o.Version, string(o.Accepted), string(o.Resource), string(o.Extensions)})
}

// UnmarshalJSON reads the form of MarshalJSON.
func (o *Offer) UnmarshalJSON(b []byte) error {
	var kept offerJSON
	if err := json.Unmarshal(b, &kept); err != nil {
		return fmt.Errorf("decode offer: %w", err)
	}
	*o = Offer{Version: kept.Version, Accepted: optional(kept.Accepted), Resource: optional(kept.Resource), Extensions: optional(kept.Extensions)}
	return nil
}

// Payload holds a signed payment, as the seller and the facilitator receive it.
type Payload struct {
	Version int
	JSON    json.RawMessage
}

// OtherProtocols is the first version that belongs to another protocol than x402.
const OtherProtocols = 100

// hasForm2 reports whether payloads of a version have the members of version 2.
func hasForm2(version int) bool { return version == 2 || version >= OtherProtocols }

// Payload joins the echoed parts with the signed authorization. It fails when they cannot be sent. Versions
// of other protocols have the form of version 2, for them to put into their own words.
// It writes the text by itself: json.Marshal would compact and escape the echoed parts.
func (o Offer) Payload(a Authorization, s Signature) (Payload, error) {
	accepted, err := readObject(o.Accepted)
	if err != nil {
		return Payload{}, fmt.Errorf("encode payload: accepted: %w", err)
	}
	scheme, network := accepted.value("scheme"), accepted.value("network")
	if scheme == nil || network == nil {
		return Payload{}, errors.New("encode payload: accepted: no scheme or network")
	}
	signed, err := signedJSON(o, accepted, a, s)
	if err != nil {
		return Payload{}, fmt.Errorf("encode payload: %w", err)
	}
	parts := object{{"scheme", scheme}, {"network", network}, {"payload", signed}}
	switch {
	case o.Version == 1:
	case hasForm2(o.Version):
		for _, part := range []json.RawMessage{o.Resource, o.Extensions} {
			if part != nil && !json.Valid(part) {
				return Payload{}, errors.New("encode payload: the offer is not valid JSON")
			}
		}
		parts = object{{"resource", o.Resource}, {"accepted", o.Accepted}, {"payload", signed}, {"extensions", o.Extensions}}
	default:
		return Payload{}, fmt.Errorf("encode payload: unknown x402Version %d", o.Version)
	}
	out := make([]byte, 0, len(o.Accepted)+len(o.Resource)+len(o.Extensions)+len(signed)+100)
	out = strconv.AppendInt(append(out, `{"x402Version":`...), int64(o.Version), 10)
	for _, part := range parts {
		if part.value != nil {
			out = append(append(append(append(out, `,"`...), part.key...), `":`...), part.value...)
		}
	}
	return Payload{o.Version, append(out, '}')}, nil
}

// signedJSON returns the member payload of a payload.
func signedJSON(o Offer, accepted object, a Authorization, s Signature) ([]byte, error) {
	room := make([]byte, 0, 640)
	switch {
	case !a.Rail.Known():
		return nil, fmt.Errorf("unknown %s", a.Rail)
	case !a.Rail.Permit2():
		return appendSigned(room, a, s), nil
	case !hasForm2(o.Version):
		return nil, fmt.Errorf("x402Version %d does not have %s", o.Version, a.Rail)
	}
	token, err := parsed(accepted, "asset", ParseAddress)
	if err != nil {
		return nil, fmt.Errorf("accepted: %w", err)
	}
	return appendPermit2(room, a, token, s), nil
}

// appendSigned appends the JSON of an authorization with its signature. No value needs escaping.
func appendSigned(out []byte, a Authorization, s Signature) []byte {
	out = append(append(out, `{"signature":"`...), s.String()...)
	out = append(append(out, `","authorization":{"from":"`...), a.From.String()...)
	out = append(append(out, `","to":"`...), a.To.String()...)
	out = append(append(out, `","value":"`...), a.Value.String()...)
	out = strconv.AppendUint(append(out, `","validAfter":"`...), a.ValidAfter, 10)
	out = strconv.AppendUint(append(out, `","validBefore":"`...), a.ValidBefore, 10)
	out = append(append(out, `","nonce":"`...), a.Nonce.String()...)
	return append(out, `"}}`...)
}

// DecodePayload reads PAYMENT-SIGNATURE or X-PAYMENT, like sellers as padded standard base64 only.
func DecodePayload(header string) (Payload, error) {
	if len(header) > MaxHeaderBytes {
		return Payload{}, fmt.Errorf("decode payload: %w: over %d bytes", ErrTooLarge, MaxHeaderBytes)
	}
	text, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return Payload{}, fmt.Errorf("decode payload: %w", err)
	}
	top, err := readObject(text)
	if err != nil {
		return Payload{}, fmt.Errorf("decode payload: %w", err)
	}
	switch string(top.value("x402Version")) {
	case "1":
		return Payload{1, text}, nil
	case "2":
		return Payload{2, text}, nil
	}
	return Payload{}, errors.New("decode payload: unknown x402Version")
}

// Header returns the value to send: standard base64 with padding, which every seller accepts.
func (p Payload) Header() string { return base64.StdEncoding.EncodeToString(p.JSON) }

// HeaderName returns the request header that carries the payload.
func (p Payload) HeaderName() string {
	if p.Version == 1 {
		return HeaderV1Payment
	}
	return HeaderSignature
}

// Authorization returns the signed message. It checks the form of the fields, not the signature.
func (p Payload) Authorization() (Authorization, Signature, error) {
	top, err := readObject(p.JSON)
	if err != nil {
		return Authorization{}, Signature{}, fmt.Errorf("read payload: %w", err)
	}
	a, s, err := readSigned(top.value("payload"))
	if err != nil {
		return Authorization{}, Signature{}, fmt.Errorf("read payload: %w", err)
	}
	return a, s, nil
}

func readSigned(payload json.RawMessage) (a Authorization, s Signature, err error) {
	signed, err := members(payload)
	if err != nil {
		return a, s, fmt.Errorf("payload: %w", err)
	}
	if permit := signed.value("permit2Authorization"); permit != nil && signed.value("authorization") == nil {
		s, err = parsed(signed, "signature", ParseSignature)
		if err != nil {
			return a, s, err
		}
		a, err = readPermit2(permit)
		return a, s, err
	}
	message, err := members(signed.value("authorization"))
	if err != nil {
		return a, s, fmt.Errorf("authorization: %w", err)
	}
	var errs [7]error
	s, errs[0] = parsed(signed, "signature", ParseSignature)
	a.From, errs[1] = parsed(message, "from", ParseAddress)
	a.To, errs[2] = parsed(message, "to", ParseAddress)
	a.Value, errs[3] = parsed(message, "value", money.Parse)
	a.ValidAfter, errs[4] = parsed(message, "validAfter", parseSeconds)
	a.ValidBefore, errs[5] = parsed(message, "validBefore", parseSeconds)
	a.Nonce, errs[6] = parsed(message, "nonce", ParseNonce)
	return a, s, errors.Join(errs[:]...)
}

// parseSeconds reads a unix time, which payloads carry as a decimal string.
func parseSeconds(s string) (uint64, error) {
	_, canonical := money.Parse(s)
	seconds, err := strconv.ParseUint(s, 10, 64)
	if canonical != nil || err != nil {
		return 0, errors.New("not a unix time in seconds")
	}
	return seconds, nil
}

// optional returns nil for "", so that an absent part stays absent.
func optional(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
