package mpp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// RailTempo is the number of the rail of Tempo.
const RailTempo x402.Rail = x402.OtherRails

// Validity is the longest time for which an authorization is signed: sellers use it at once.
const Validity = 60 * time.Second

// Fields of the HTTP header.
const (
	HeaderChallenge     = "WWW-Authenticate"
	HeaderCredential    = "Authorization"
	HeaderOwnCredential = "Payment-Authorization" // if the challenge asks for it
	HeaderReceipt       = "Payment-Receipt"
	HeaderAccept        = "Accept-Payment"
)

// Field returns the header field that carries the credential. The seller chooses between two: any other one could
// be a cookie, or a credential for another server.
func (c Challenge) Field() (string, error) {
	switch field := http.CanonicalHeaderKey(c.Get("header")); field {
	case "":
		return HeaderCredential, nil
	case HeaderCredential, HeaderOwnCredential:
		return field, nil
	default:
		return "", &x402.UnsupportedError{Kind: "scheme", Value: "Payment", Detail: "it wants the credential in the header " + printable(field)}
	}
}

// Echo is the form in which the books keep a challenge: see [x402.Requirement.Raw].
type Echo struct {
	Scheme  string `json:"scheme"`
	Network string `json:"network"` // CAIP-2
	// Challenge holds its parameters as the seller wrote them.
	Challenge json.RawMessage `json:"challenge"`
}

// Request holds what a charge asks for, in the form that the methods evm and tempo share.
type Request struct {
	Amount          money.Amount
	Currency, Payee x402.Address
	ChainID         uint64
	Details         map[string]json.RawMessage // methodDetails

	scoped bool // the seller has bound the request to its URL
}

// Charge returns the requirement that a challenge makes, if it is a charge by evm or tempo. The error is an
// *x402.UnsupportedError for another way to pay. Other faults of the request are the requirement's Problem.
func (c Challenge) Charge() (x402.Requirement, error) {
	members := make([]byte, 0, 512)
	for _, p := range c.Parameters {
		if slices.Contains(echoed, p.Name) {
			members = appendMember(members, p.Name, p.Value)
		}
	}
	request, _ := json.Marshal(c.Get("request")) // a text
	return charge(c, append(members, '}'), request)
}

// appendMember appends a member to an object whose end is missing.
func appendMember(object []byte, name, value string) []byte {
	open := byte(',')
	if len(object) == 0 {
		open = '{'
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(name) // texts can always be written
	text.Truncate(text.Len() - 1)
	text.WriteByte(':')
	_ = e.Encode(value)
	text.Truncate(text.Len() - 1)
	return append(append(object, open), text.Bytes()...)
}

// charge reads a challenge whose members and request are known.
func charge(c Challenge, challenge, request json.RawMessage) (x402.Requirement, error) {
	method, intent := c.Get("method"), c.Get("intent")
	if !strings.EqualFold(intent, x402.SchemeCharge) || method != "evm" && method != "tempo" {
		return x402.Requirement{}, &x402.UnsupportedError{Kind: "scheme", Value: "MPP " + printable(method) + "/" + printable(intent), Detail: notPaid(intent)}
	}
	if _, err := c.Field(); err != nil {
		return x402.Requirement{}, err
	}
	r := x402.Requirement{
		Version: Version, Scheme: x402.SchemeCharge, MaxTimeout: Validity, Way: x402.WayMPP,
	}
	asked, err := readRequest(request)
	if err != nil {
		err = &x402.FieldError{Field: "request", Reason: err.Error()}
		if asked.ChainID == 0 { // it is none of a network
			return x402.Requirement{}, err
		}
		note(&r, "request", err)
	}
	r.Network, r.Amount, r.Asset, r.PayTo = network(method, asked.ChainID), asked.Amount, asked.Currency, asked.Payee
	if method == "evm" {
		nonce, other := c.nonces(asked.scoped)
		r.Nonce, r.OtherNonce, r.Realm = &nonce, other, c.Get("realm")
		if unsigned := signable(asked.Details); err == nil && unsigned != nil {
			return x402.Requirement{}, unsigned
		}
	} else {
		r.OtherRail, r.Way = RailTempo, x402.WayTempo
		if string(bytes.TrimSpace(asked.Details["feePayer"])) == "true" {
			r.Way = x402.WayTempoSponsored
		}
	}
	if text := c.Get("expires"); text != "" {
		if r.Expires, err = time.Parse(time.RFC3339Nano, text); err != nil {
			note(&r, "expires", errors.New("not a time (RFC 3339)"))
		}
	}
	if text := c.Get("digest"); text != "" {
		if r.Body, err = digest(text); err != nil {
			note(&r, "digest", err)
		}
	}
	r.Raw, err = json.Marshal(Echo{r.Scheme, r.Network, challenge})
	if err != nil {
		return x402.Requirement{}, fmt.Errorf("keep a challenge: %w", err)
	}
	return r, nil
}

func note(r *x402.Requirement, field string, err error) {
	if r.Problem == nil {
		r.Problem, _ = errors.AsType[*x402.FieldError](err)
	}
	if r.Problem == nil {
		r.Problem = &x402.FieldError{Field: field, Reason: err.Error()}
	}
}

// notPaid says why purser does not pay by an intent.
func notPaid(intent string) string {
	if intent == "session" {
		return "purser opens no channels, and pays single charges"
	}
	return "purser pays charges by evm and tempo"
}

// network returns the name of a chain. tempo without a chain means its test network.
func network(method string, chainID uint64) string {
	const tempoTest = 42431
	if chainID == 0 && method == "tempo" {
		chainID = tempoTest
	}
	if chainID == 0 {
		return ""
	}
	return "eip155:" + strconv.FormatUint(chainID, 10)
}

// readRequest reads what all requests have.
func readRequest(request json.RawMessage) (r Request, err error) {
	top, err := decodeRequest(request)
	if err != nil {
		return r, err
	}
	r.scoped = top["_mppx_scope"] != nil
	if details := top["methodDetails"]; details != nil {
		if r.Details, err = strictjson.Object(details); err != nil {
			return r, fmt.Errorf("methodDetails: %w", err)
		}
	}
	if id := bytes.TrimSpace(r.Details["chainId"]); id != nil {
		if r.ChainID, err = strconv.ParseUint(string(id), 10, 64); err != nil {
			return r, errors.New("methodDetails.chainId: not a number of a chain")
		}
	}
	amount, is := strictjson.Unquote(top["amount"])
	if !is {
		return r, errors.New("amount: missing, or not a text")
	}
	if r.Amount, err = money.Parse(amount); err != nil {
		return r, fmt.Errorf("amount: %w", err)
	}
	for _, field := range []struct {
		name string
		into *x402.Address
	}{{"currency", &r.Currency}, {"recipient", &r.Payee}} {
		text, is := strictjson.Unquote(top[field.name])
		if !is {
			return r, fmt.Errorf("%s: missing, or not a text", field.name)
		}
		if *field.into, err = x402.ParseAddress(text); err != nil {
			return r, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if r.Payee.IsZero() {
		return r, errors.New("recipient: the zero address")
	}
	return r, nil
}

// signable refuses a charge by evm that wants more than one signed message of the token's own.
func signable(details map[string]json.RawMessage) error {
	no := func(why string) error {
		return &x402.UnsupportedError{Kind: "scheme", Value: "MPP evm/charge", Detail: why}
	}
	if splits := bytes.TrimSpace(details["splits"]); splits != nil && string(splits) != "[]" && string(splits) != "null" {
		return no("one authorization has one payee, and it wants several")
	}
	types := details["credentialTypes"]
	if types == nil || string(bytes.TrimSpace(types)) == "null" {
		return nil
	}
	if strictjson.Kind(types) == '[' {
		for one := range strictjson.Elements(types) {
			if text, _ := strictjson.Unquote(one); text == "authorization" {
				return nil
			}
		}
	}
	return no("it takes no authorization (EIP-3009)")
}

// digest reads the digest of a request's body (RFC 9530, or its form in drafts, which mppx writes).
func digest(text string) (*[sha256.Size]byte, error) {
	value, is := strings.CutPrefix(text, "sha-256=")
	if !is {
		return nil, errors.New("not a SHA-256")
	}
	value = strings.Trim(value, ":")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if sum, err := encoding.DecodeString(strings.TrimRight(value, "=")); err == nil && len(sum) == sha256.Size {
			return new([sha256.Size]byte(sum)), nil
		}
	}
	return nil, errors.New("not a SHA-256")
}

// ReadEcho reads a kept challenge and its request.
func ReadEcho(raw json.RawMessage) (c Challenge, r Request, err error) {
	kept, err := strictjson.Object(raw)
	if err != nil {
		return c, r, fmt.Errorf("kept challenge: %w", err)
	}
	members, err := strictjson.Object(kept["challenge"])
	if err != nil {
		return c, r, fmt.Errorf("kept challenge: %w", err)
	}
	for name, value := range strictjson.Members(kept["challenge"]) {
		if text, is := strictjson.Unquote(value); is {
			c.Parameters = append(c.Parameters, Parameter{name, text})
		}
	}
	r, err = readRequest(members["request"])
	return c, r, err
}

// Accepts names the ways for sellers that want to know, in [HeaderAccept].
const Accepts = "evm/charge, tempo/charge"
