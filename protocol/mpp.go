package protocol

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/purserpay/purser/protocol/mpp"
	"github.com/purserpay/purser/x402"
)

// ErrInUse: a seller wants its credential in the field Authorization, which the request needs for itself.
var ErrInUse = errors.New("the request has its own Authorization, where the seller wants the payment; it names no other header for that")

// MPP is the HTTP authentication scheme Payment.
type MPP struct{}

// Offers implements [Protocol]. The charges that a request has room for are offers. Without one, the error says
// why purser pays none. Over HTTP the header has all of them.
func (m MPP) Offers(asked, h http.Header, body []byte) (x402.Challenge, bool, error) {
	if asked == nil {
		if list, found, err := mpp.ParseMCP(body); found {
			c, found, err := challenge(list, err)
			c.Error = said(mpp.ProblemMCP(body))
			return c, found, err
		}
	}
	return m.read(asked, h.Values(mpp.HeaderChallenge))
}

// challenge returns the offers of MCP, where a credential has a place of its own.
func challenge(offers []x402.Requirement, problem error) (x402.Challenge, bool, error) {
	if len(offers) > 0 {
		problem = nil
	}
	return x402.Challenge{Version: mpp.Version, Accepts: offers}, true, problem
}

func (m MPP) read(asked http.Header, values []string) (c x402.Challenge, found bool, err error) {
	list, found, problem := mpp.Parse(values)
	c.Version = mpp.Version
	for _, one := range list {
		r, unpaid := one.Charge()
		if unpaid == nil {
			unpaid = room(asked, one)
		}
		if unpaid == nil {
			c.Accepts = append(c.Accepts, r)
		} else if problem == nil {
			problem = unpaid
		}
	}
	if len(c.Accepts) > 0 {
		problem = nil
	}
	return c, found, problem
}

// room returns [ErrInUse] if a request has no place for the credential that answers a challenge.
func room(asked http.Header, c mpp.Challenge) error {
	if field, err := c.Field(); err == nil && len(asked.Values(field)) > 0 {
		return ErrInUse
	}
	return nil
}

// Carries implements [Protocol].
func (MPP) Carries(h http.Header) bool {
	return len(h.Values(mpp.HeaderOwnCredential)) > 0 || slices.ContainsFunc(h.Values(mpp.HeaderCredential), mpp.IsCredential)
}

// Room implements [Protocol].
func (MPP) Room(asked http.Header, p x402.Payload) error {
	c, err := mpp.Answered(p)
	if err != nil {
		return err
	}
	return room(asked, c)
}

// Writes implements [Protocol].
func (MPP) Writes(version int) bool { return version == mpp.Version }

// Credential implements [Protocol].
func (MPP) Credential(p x402.Payload) (name, value string) {
	c, err := mpp.Answered(p)
	credential, unwritten := mpp.Credential(p)
	if err != nil || unwritten != nil {
		return mpp.HeaderCredential, mpp.Scheme // no seller takes it
	}
	name, _ = c.Field() // a challenge with another field is no offer
	return name, mpp.Field(credential)
}

// Answer implements [Protocol]. After a credential, 403 and 409 with a problem of MPP's say that it was used.
func (m MPP) Answer(status int, h http.Header, body []byte) (a Answer) {
	if field := h.Values(mpp.HeaderReceipt); len(field) > 0 {
		receipt, err := mpp.DecodeReceipt(field[0])
		if a.Problem = err; err == nil {
			a.Receipt = &receipt
		}
	}
	name, detail := mpp.Problem(body)
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	used := status == http.StatusForbidden || status == http.StatusConflict
	a.Refuses = used && (name != "" || body == nil && kind == "application/problem+json")
	if status == http.StatusPaymentRequired {
		a.Challenge, a.Found, _ = m.read(nil, h.Values(mpp.HeaderChallenge))
	}
	a.Challenge.Error = said(name, detail)
	a.Used = used && name != ""
	a.Found = a.Found || a.Used
	a.Speaks = a.Receipted() || a.Found || name != ""
	return a
}

// said joins the name of a problem and what the seller says beside.
func said(name, detail string) string {
	if detail != "" {
		name += ": " + detail
	}
	return name
}

// WrongNonce implements [Binding].
func (MPP) WrongNonce(p x402.Payload, words string) (realm string, other, is bool) {
	return mpp.WrongNonce(p, words)
}

// Insists implements [Protocol]: a seller that rotates its challenges asks for another one each time.
func (MPP) Insists() bool { return true }

// Withhold implements [Protocol].
func (MPP) Withhold(h http.Header) {
	values := slices.DeleteFunc(slices.Clone(h.Values(mpp.HeaderChallenge)), func(value string) bool {
		_, found, _ := mpp.Parse([]string{value})
		return found
	})
	if h.Del(mpp.HeaderChallenge); len(values) > 0 {
		h[http.CanonicalHeaderKey(mpp.HeaderChallenge)] = values
	}
}

// Decode implements [Protocol]: clients hand in the whole value of WWW-Authenticate, or what MCP has in its place in
// base64.
func (m MPP) Decode(field string) (x402.Challenge, error) {
	if terms, err := base64.StdEncoding.DecodeString(field); err == nil {
		if list, found, err := mpp.ParseMCP(terms); found {
			c, _, err := challenge(list, err)
			return c, err
		}
	}
	c, found, err := m.read(nil, []string{mpp.Bytes(field)})
	if !found {
		err = fmt.Errorf("%w: no challenge of MPP", x402.ErrNotChallenge)
	}
	return c, err
}

// DecodeReceipt implements [Protocol].
func (MPP) DecodeReceipt(field string) (x402.Receipt, error) { return mpp.DecodeReceipt(field) }

// Secrets implements [Protocol].
func (MPP) Secrets() []string {
	return []string{mpp.HeaderOwnCredential, mpp.HeaderReceipt, "Payment-Session", "Payment-Session-Snapshot"}
}
