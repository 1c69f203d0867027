// Package protocol has the ways in which sellers ask for money, and clients pay, as they stand on the
// wire: [X402] and [MPP].
//
// A [Protocol] reads and writes words. It does no I/O, keeps nothing, and decides nothing about money.
// The carrier of package proxy knows where in a message the words travel. The rail knows how the money
// moves (docs/design/surfaces.md, protocols and carriers).
package protocol

import (
	"errors"
	"net/http"
	"slices"

	"github.com/purserpay/purser/x402"
)

// Protocol is one wire format. A challenge has the form that the pay core takes; its version, and that
// of the payloads that answer it, say whose it is: x402 has the versions 1 and 2, and others begin at
// [x402.OtherProtocols].
type Protocol interface {
	// Offers reads what an answer asks for. asked is the header of the request; nil: the answer is one of MCP, and body
	// holds its terms. A nil body means that only the header is known. A challenge that is there, and cannot be read, is
	// found with an error, and so is one that the request has no room to answer.
	Offers(asked, h http.Header, body []byte) (c x402.Challenge, found bool, err error)
	// Carries reports whether a request has a credential: its client pays by itself.
	Carries(h http.Header) bool
	// Room says why a request has no place for a payload; nil: it has.
	Room(asked http.Header, p x402.Payload) error
	// Writes reports whether payloads of a version are in this protocol.
	Writes(version int) bool
	// Credential returns the header field that carries a payload.
	Credential(p x402.Payload) (name, value string)
	// Answer reads what an answer to a credential says of the payment. body is nil if only the header is
	// known.
	Answer(status int, h http.Header, body []byte) Answer
	// Insists reports whether a seller's 402 to a payload is answered by the same payload, because sellers ask so
	// without having looked at it. Another payload would pay twice.
	Insists() bool
	// Withhold takes the challenge out of an answer's header, and leaves those of other protocols.
	Withhold(h http.Header)
	// Decode reads the header field of a challenge. Clients hand it to the REST API.
	Decode(field string) (x402.Challenge, error)
	// DecodeReceipt does so for the field of a receipt.
	DecodeReceipt(field string) (x402.Receipt, error)
	// Secrets lists the header fields that logs must not have.
	Secrets() []string
}

// Binding is a further method of a [Protocol] whose challenges choose the nonce. A seller may want it in another form than
// its challenge tells.
type Binding interface {
	// WrongNonce reads the words with which a seller has refused a payload. is reports that the nonce is not the one
	// that it wants. other: the payload has [x402.Requirement.OtherNonce]. realm is as there.
	WrongNonce(p x402.Payload, words string) (realm string, other, is bool)
}

// Answer holds what an answer to a credential says of the payment.
type Answer struct {
	Speaks  bool          // it says something in words of the protocol
	Receipt *x402.Receipt // nil: there is none that can be read
	Problem error         // says why a receipt that is there cannot be read

	// Failed: the answer is an error of the seller's, although its status says otherwise.
	Failed bool
	// Refuses: the answer refuses the credential, although its status is not 402.
	Refuses bool
	// Used: the refusal says by its status that the credential was used.
	Used bool
	// Challenge holds the terms of a refusal. Its Error has the seller's reason.
	Challenge x402.Challenge
	Found     bool // there is a challenge, perhaps one that cannot be read
}

// Receipted reports whether the answer has a receipt, perhaps one that cannot be read.
func (a Answer) Receipted() bool { return a.Receipt != nil || a.Problem != nil }

// List holds the protocols that a door speaks, in the order of choice.
type List []Protocol

// Spoken returns the protocols of this purser, in the order of choice. challengeHeaders name further fields that may
// hold a challenge of x402.
func Spoken(challengeHeaders ...string) List { return List{X402{challengeHeaders}, MPP{}} }

// Offers reads what an answer to a request asks for, in all protocols: see [Protocol]. The version of the challenge is
// that of the first one that can be read, and each requirement has its own. The error is that of the first protocol
// without one.
func (l List) Offers(asked, h http.Header, body []byte) (c x402.Challenge, seen bool, problem error) {
	read := false
	for _, p := range l {
		one, found, err := p.Offers(asked, h, body)
		switch {
		case !found:
		case err == nil && read:
			c.Accepts = append(slices.Clip(c.Accepts), one.Accepts...)
		case err == nil:
			c, seen, problem, read = one, true, nil, true
		case !seen:
			c, seen, problem = one, true, err
		}
	}
	return c, seen, problem
}

// Carries reports whether a request has a credential of any of the protocols.
func (l List) Carries(h http.Header) bool {
	for _, p := range l {
		if p.Carries(h) {
			return true
		}
	}
	return false
}

// Of returns the protocol of a payload; nil: the door does not speak it.
func (l List) Of(p x402.Payload) Protocol {
	for _, one := range l {
		if one.Writes(p.Version) {
			return one
		}
	}
	return nil
}

// Decode reads the header field of a challenge. The error is that of the protocol that the field is in, if that is
// known, else that of the first one.
func (l List) Decode(field string) (x402.Challenge, error) {
	return decode(l, func(p Protocol) (x402.Challenge, error) { return p.Decode(field) })
}

// DecodeReceipt reads the header field of a receipt. The error is that of the first protocol.
func (l List) DecodeReceipt(field string) (x402.Receipt, error) {
	return decode(l, func(p Protocol) (x402.Receipt, error) { return p.DecodeReceipt(field) })
}

func decode[T any](l List, read func(Protocol) (T, error)) (first T, problem error) {
	for i, p := range l {
		v, err := read(p)
		if err == nil {
			return v, nil
		}
		if i == 0 || errors.Is(problem, x402.ErrNotChallenge) && !errors.Is(err, x402.ErrNotChallenge) {
			first, problem = v, err
		}
	}
	return first, problem
}

// Withhold takes the challenges of all protocols out of an answer's header.
func (l List) Withhold(h http.Header) {
	for _, p := range l {
		p.Withhold(h)
	}
}

// Secrets lists the header fields of all protocols that logs must not have, in canonical form.
func (l List) Secrets() (names []string) {
	for _, p := range l {
		for _, name := range p.Secrets() {
			names = append(names, http.CanonicalHeaderKey(name))
		}
	}
	return names
}
