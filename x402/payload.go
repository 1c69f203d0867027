package x402

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
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

// Size returns the length of the offer's JSON form, in bytes.
func (o Offer) Size() int {
	kept, err := o.MarshalJSON()
	if err != nil {
		return math.MaxInt
	}
	return len(kept)
}

// MarshalJSON writes the form that loses no byte. It fails when a part is not valid UTF-8.
func (o Offer) MarshalJSON() ([]byte, error) {
	for _, part := range []json.RawMessage{o.Accepted, o.Resource, o.Extensions} {
		if !utf8.Valid(part) {
			return nil, errors.New("encode offer: not UTF-8")
		}
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

// Payload joins the echoed parts with the signed authorization. It fails when they cannot be sent.
func (o Offer) Payload(a Authorization, s Signature) (Payload, error) {
	signed, err := json.Marshal(struct {
		Signature     Signature     `json:"signature"`
		Authorization Authorization `json:"authorization"`
	}{s, a})
	if err != nil {
		return Payload{}, fmt.Errorf("encode payload: %w", err)
	}
	accepted, err := readObject(o.Accepted)
	if err != nil {
		return Payload{}, fmt.Errorf("encode payload: accepted: %w", err)
	}
	scheme, network := accepted.value("scheme"), accepted.value("network")
	if scheme == nil || network == nil {
		return Payload{}, errors.New("encode payload: accepted: no scheme or network")
	}
	parts := object{{"x402Version", json.RawMessage(strconv.Itoa(o.Version))}}
	switch o.Version {
	case 1:
		parts = append(parts, member{"scheme", scheme}, member{"network", network}, member{"payload", signed})
	case 2:
		parts = append(parts,
			member{"resource", o.Resource}, member{"accepted", o.Accepted}, member{"payload", signed},
			member{"extensions", o.Extensions})
	default:
		return Payload{}, fmt.Errorf("encode payload: unknown x402Version %d", o.Version)
	}
	// Not json.Marshal: it would compact and escape the echoed parts.
	out := []byte{'{'}
	for _, part := range parts {
		if part.value != nil {
			out = fmt.Appendf(out, "%q:%s,", part.key, part.value)
		}
	}
	out[len(out)-1] = '}' // in the place of the last comma
	if !json.Valid(out) {
		return Payload{}, errors.New("encode payload: the offer is not valid JSON")
	}
	return Payload{o.Version, out}, nil
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
	message, err := members(signed.value("authorization"))
	if err != nil {
		return a, s, fmt.Errorf("authorization: %w", err)
	}
	var errs [7]error
	s, errs[0] = parsed(signed, "signature", ParseSignature)
	a.From, errs[1] = parsed(message, "from", ParseAddress)
	a.To, errs[2] = parsed(message, "to", ParseAddress)
	a.Value, errs[3] = parsed(message, "value", ParseAmount)
	a.ValidAfter, errs[4] = parsed(message, "validAfter", parseSeconds)
	a.ValidBefore, errs[5] = parsed(message, "validBefore", parseSeconds)
	a.Nonce, errs[6] = parsed(message, "nonce", ParseNonce)
	return a, s, errors.Join(errs[:]...)
}

// parseSeconds reads a unix time, which payloads carry as a decimal string.
func parseSeconds(s string) (uint64, error) {
	amount, err := ParseAmount(s)
	if err != nil || !amount.n.IsUint64() {
		return 0, errors.New("not a unix time in seconds")
	}
	return amount.n.Uint64(), nil
}

// optional returns nil for "", so that an absent part stays absent.
func optional(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
