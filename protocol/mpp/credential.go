package mpp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/x402"
)

// credential is the text that answers a challenge.
type credential struct {
	Challenge json.RawMessage `json:"challenge"`
	Payload   json.RawMessage `json:"payload"`
	Source    string          `json:"source,omitempty"` // did:pkh:<network>:<address>
}

// Payload returns the payload of a rail's own, which answers an offer. payload is what MPP calls so.
func Payload(o x402.Offer, from x402.Address, payload any) (x402.Payload, error) {
	var kept Echo
	if err := json.Unmarshal(o.Accepted, &kept); err != nil {
		return x402.Payload{}, fmt.Errorf("encode credential: %w", err)
	}
	signed, err := json.Marshal(payload)
	if err != nil {
		return x402.Payload{}, fmt.Errorf("encode credential: %w", err)
	}
	text, err := json.Marshal(map[string]any{"accepted": o.Accepted, "payload": json.RawMessage(signed), "source": source(kept.Network, from.String())})
	return x402.Payload{Version: o.Version, JSON: text}, err
}

func source(network, address string) string { return "did:pkh:" + network + ":" + address }

// Credential returns the credential for a payload, as JSON. A payload may be a credential already.
func Credential(p x402.Payload) (json.RawMessage, error) {
	top, err := strictjson.Object(p.JSON)
	if err != nil {
		return nil, fmt.Errorf("encode credential: %w", err)
	}
	if top["challenge"] != nil {
		return p.JSON, nil
	}
	kept, err := strictjson.Object(top["accepted"])
	if err != nil {
		return nil, fmt.Errorf("encode credential: accepted: %w", err)
	}
	c := credential{Challenge: kept["challenge"], Payload: top["payload"]}
	if c.Source, _ = strictjson.Unquote(top["source"]); c.Source == "" {
		network, _ := strictjson.Unquote(kept["network"])
		if c.Payload, c.Source, err = authorization(network, top["payload"]); err != nil {
			return nil, fmt.Errorf("encode credential: %w", err)
		}
	}
	return json.Marshal(c)
}

// Answered returns the challenge that a payload answers.
func Answered(p x402.Payload) (Challenge, error) {
	c, _, err := answered(p)
	return c, err
}

func answered(p x402.Payload) (Challenge, Request, error) {
	top, err := strictjson.Object(p.JSON)
	if err != nil {
		return Challenge{}, Request{}, fmt.Errorf("read payload: %w", err)
	}
	return ReadEcho(top["accepted"])
}

// authorization returns the payload of type authorization, and its source.
func authorization(network string, signed json.RawMessage) (json.RawMessage, string, error) {
	members, err := strictjson.Object(signed)
	if err != nil {
		return nil, "", err
	}
	message, err := strictjson.Object(members["authorization"])
	if err != nil {
		return nil, "", err
	}
	from, is := strictjson.Unquote(message["from"])
	if !is || members["signature"] == nil {
		return nil, "", errors.New("no signed authorization")
	}
	message["signature"], message["type"] = members["signature"], json.RawMessage(`"authorization"`)
	payload, err := json.Marshal(message)
	return payload, source(network, from), err
}

// Field returns the value of the header field that carries a credential.
func Field(credential json.RawMessage) string {
	return Scheme + " " + base64.RawURLEncoding.EncodeToString(credential)
}

// DecodeField returns the payload in the value of a header field: see [Field].
func DecodeField(value string) (x402.Payload, error) {
	scheme, text, _ := strings.Cut(value, " ")
	credential, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || !strings.EqualFold(scheme, Scheme) || !json.Valid(credential) {
		return x402.Payload{}, errors.New("read credential: it is none of MPP")
	}
	return x402.Payload{Version: Version, JSON: credential}, nil
}

// IsCredential reports whether the value of a header field has a credential of MPP.
func IsCredential(value string) bool {
	for part := range strings.SplitSeq(value, ",") {
		if scheme, _, _ := strings.Cut(strings.TrimSpace(part), " "); strings.EqualFold(scheme, Scheme) {
			return true
		}
	}
	return false
}

// DecodeReceipt reads the text of a receipt, as base64url or as JSON. It names no network: the method and the
// reference are all that sellers say.
func DecodeReceipt(value string) (x402.Receipt, error) {
	value = strings.TrimSpace(value)
	text := []byte(value)
	if len(value) > x402.MaxHeaderBytes {
		return x402.Receipt{}, fmt.Errorf("decode receipt: %w", x402.ErrTooLarge)
	}
	if strictjson.Kind(text) != '{' {
		encoding := base64.RawURLEncoding
		if strings.ContainsAny(value, "+/") {
			encoding = base64.RawStdEncoding
		}
		var err error
		if text, err = encoding.DecodeString(strings.TrimRight(value, "=")); err != nil {
			return x402.Receipt{}, errors.New("decode receipt: neither base64url nor JSON")
		}
	}
	top, err := strictjson.Object(text)
	if err != nil {
		return x402.Receipt{}, fmt.Errorf("decode receipt: %w", err)
	}
	status, _ := strictjson.Unquote(top["status"])
	reference, _ := strictjson.Unquote(top["reference"])
	if status != "success" || reference == "" {
		return x402.Receipt{}, errors.New("decode receipt: no success with a reference")
	}
	return x402.Receipt{Success: true, Transaction: reference, Raw: text}, nil
}

// problems begins the types of the problems that the specification names.
const problems = "https://paymentauth.org/problems/"

// Problem reads a problem document (RFC 9457). It returns the name that MPP has for it, such as verification-failed,
// and what the seller says beside; "": the body is none of MPP's.
func Problem(body []byte) (name, detail string) {
	top, err := strictjson.Object(body)
	if err != nil {
		return "", ""
	}
	kind, _ := strictjson.Unquote(top["type"])
	name, is := strings.CutPrefix(kind, problems)
	if !is {
		return "", ""
	}
	detail, _ = strictjson.Unquote(top["detail"])
	return name, detail
}
