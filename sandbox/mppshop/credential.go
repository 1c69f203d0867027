package mppshop

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// maxValidity bounds how far ahead an authorization may be valid, beyond the end of its challenge.
const maxValidity = time.Hour

// credential answers a challenge.
type credential struct {
	Challenge challenge     `json:"challenge"`
	Payload   authorization `json:"payload"`
	Source    string        `json:"source"`
}

// authorization is the payload of evm: an EIP-3009 message with its signature.
type authorization struct {
	Type        string `json:"type"`
	From        string `json:"from"`
	To          string `json:"to"`
	Value       string `json:"value"`
	ValidAfter  string `json:"validAfter"`
	ValidBefore string `json:"validBefore"`
	Nonce       string `json:"nonce"`
	Signature   string `json:"signature"`
}

// refusal says why a credential is not taken.
type refusal struct {
	kind   problem
	detail string
}

func refuse(kind problem, format string, args ...any) *refusal {
	return &refusal{kind, fmt.Sprintf(format, args...)}
}

// schemeValue returns what follows the scheme Payment.
func schemeValue(header string) (value string, found bool) {
	scheme, value, found := strings.Cut(header, " ")
	return strings.TrimSpace(value), found && strings.EqualFold(scheme, "Payment")
}

// presented returns the credential of a request, and whether it is one of x402.
func (v *visit) presented() (text string, byX402, found bool) {
	place := HeaderAuthorization
	if v.play.place != "" {
		place = v.play.place
	}
	if values := v.r.Header.Values(place); len(values) > 0 {
		if text, found = schemeValue(values[0]); found {
			return text, false, true
		}
	}
	if v.play.x402 {
		if text = v.r.Header.Get(x402.HeaderSignature); text != "" {
			return text, true, true
		}
	}
	return "", false, false
}

// read decodes a credential. Unknown members of all but the challenge are refused, although a real seller overlooks them:
// purser sends none.
func read(text string) (c credential, no *refusal) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return c, refuse(problemMalformed, "not base64url: %v", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, refuse(problemMalformed, "not a credential: %v", err)
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // as json documents it
		return c, refuse(problemMalformed, "more than one value")
	}
	return c, nil
}

// verify checks a credential against the challenge that it echoes, and returns what pays for it.
func (v *visit) verify(c credential) (paid x402.Payload, no *refusal) {
	echo := c.Challenge
	issued, known := v.issuedAs(echo)
	switch {
	case v.identify(echo) != echo.ID:
		return paid, refuse(problemChallenge, "challenge %q was not issued by this server", echo.ID)
	case !known || !echo.echoes(issued):
		return paid, refuse(problemChallenge, "challenge %q is not echoed as it was", echo.ID)
	case echo.Method != methodEVM || echo.Intent != intentCharge:
		return paid, refuse(problemChallenge, "no method %s/%s here", echo.Method, echo.Intent)
	}
	if echo.Digest != "" && echo.Digest != digestOf(v.body) {
		return paid, refuse(problemVerify, "the body is not the one of the challenge")
	}
	expires := time.Time{}
	if echo.Expires != "" {
		var err error
		if expires, err = time.Parse(time.RFC3339Nano, echo.Expires); err != nil || !v.o.Now().Before(expires) {
			return paid, refuse(problemExpired, "the challenge expired at %s", echo.Expires)
		}
	}
	return v.checked(c, issued, expires)
}

// checked verifies the authorization of a credential.
func (v *visit) checked(c credential, issued challenge, expires time.Time) (paid x402.Payload, no *refusal) {
	p, now := c.Payload, v.o.Now()
	base, usdc := honest.Network()
	a, signature, err := p.message()
	if err != nil {
		return paid, refuse(problemPayload, "%v", err)
	}
	source := fmt.Sprintf("did:pkh:%s:%s", base.CAIP2(), a.From)
	latest := now.Add(maxValidity)
	if expires.After(latest) {
		latest = expires
	}
	switch signer, err := x402.Recover(a.Digest(usdc, base.ChainID), signature); {
	case p.Type != typeEIP3009:
		return paid, refuse(problemPayload, "type %q", p.Type)
	case a.To != v.o.PayTo:
		return paid, refuse(problemVerify, "EVM authorization recipient mismatch")
	case p.Value != v.price():
		return paid, refuse(problemVerify, "EVM authorization amount mismatch")
	case a.Nonce != issued.bound():
		return paid, refuse(problemVerify, "EVM authorization challenge hash mismatch")
	case a.ValidAfter > uint64(now.Unix()): //nolint:gosec // the time is after 1970
		return paid, refuse(problemVerify, "EVM authorization is not valid yet")
	case a.ValidBefore <= uint64(now.Unix()): //nolint:gosec // the time is after 1970
		return paid, refuse(problemVerify, "EVM authorization has expired")
	case a.ValidBefore > uint64(latest.Unix()): //nolint:gosec // the time is after 1970
		return paid, refuse(problemVerify, "EVM authorization is valid for too long")
	case err != nil || signer != a.From:
		return paid, refuse(problemVerify, "EVM authorization signature mismatch")
	case c.Source != "" && !strings.EqualFold(c.Source, source):
		return paid, refuse(problemVerify, "EVM authorization source mismatch")
	}
	return v.asPayload(p), nil
}

// message reads the texts of an authorization.
func (p authorization) message() (a x402.Authorization, s x402.Signature, err error) {
	if a.From, err = x402.ParseAddress(p.From); err != nil {
		return a, s, fmt.Errorf("from: %w", err)
	}
	if a.To, err = x402.ParseAddress(p.To); err != nil {
		return a, s, fmt.Errorf("to: %w", err)
	}
	if a.Value, err = money.Parse(p.Value); err != nil {
		return a, s, fmt.Errorf("value: %w", err)
	}
	if a.ValidAfter, err = strconv.ParseUint(p.ValidAfter, 10, 64); err != nil {
		return a, s, fmt.Errorf("validAfter: %w", err)
	}
	if a.ValidBefore, err = strconv.ParseUint(p.ValidBefore, 10, 64); err != nil {
		return a, s, fmt.Errorf("validBefore: %w", err)
	}
	if a.Nonce, err = x402.ParseNonce(p.Nonce); err != nil {
		return a, s, fmt.Errorf("nonce: %w", err)
	}
	if s, err = x402.ParseSignature(p.Signature); err != nil {
		return a, s, fmt.Errorf("signature: %w", err)
	}
	return a, s, nil
}

// asPayload writes an authorization as the facilitator wants it.
func (v *visit) asPayload(p authorization) x402.Payload {
	text := compact(object{
		"x402Version": 2, "accepted": v.requirement(),
		"payload": object{"signature": p.Signature, "authorization": object{
			"from": p.From, "to": p.To, "value": p.Value, "validAfter": p.ValidAfter, "validBefore": p.ValidBefore, "nonce": p.Nonce,
		}},
	})
	return x402.Payload{Version: 2, JSON: text}
}

// requirement is the shop's offer in the words of x402.
func (v *visit) requirement() honest.Requirement {
	_, usdc := honest.Network()
	return honest.Requirement{
		Scheme: honest.Scheme, Network: honest.WireNetwork(2), PayTo: v.o.PayTo.String(), Asset: usdc.Address.String(),
		Amount: v.price(), MaxTimeoutSeconds: 60, Extra: &honest.Extra{Name: usdc.Name, Version: usdc.Version},
	}
}

// price of the good, in the smallest unit.
func (v *visit) price() string {
	if v.play.dear {
		return strconv.Itoa(v.times(2_500_000))
	}
	return v.o.Price.String()
}

// required is the header of x402 with the shop's offer.
func (v *visit) required(reason string) object {
	scheme := "http"
	if v.r.TLS != nil {
		scheme = "https"
	}
	return object{
		"x402Version": 2, "error": reason, "accepts": []honest.Requirement{v.requirement()},
		"resource": object{"url": scheme + "://" + v.r.Host + v.r.RequestURI, "description": "A good of the sandbox", "mimeType": "application/json"},
	}
}

// digestOf is the digest of a body, as mppx writes it.
func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=" + base64.StdEncoding.EncodeToString(sum[:])
}

// receipt writes the header of a paid answer.
func receipt(transaction string, at time.Time) string {
	return base64.RawURLEncoding.EncodeToString(compact(object{
		"method": methodEVM, "status": "success", "reference": transaction, "timestamp": stamp(at),
	}))
}

// accepts reports whether the caller says that it can pay.
func accepts(h http.Header) bool {
	for _, value := range h.Values(headerPreference) {
		for one := range strings.SplitSeq(value, ",") {
			method, _, _ := strings.Cut(strings.TrimSpace(one), ";")
			if method == "*" || method == methodEVM+"/"+intentCharge || method == methodEVM+"/*" || method == "*/*" {
				return true
			}
		}
	}
	return false
}
