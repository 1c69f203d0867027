package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
)

// OfferFault names what is wrong with a seller's signed offers, by a stable word.
type OfferFault string

// The faults of signed offers.
const (
	OfferUnreadable OfferFault = "unreadable" // they cannot be read, or in two ways
	OfferDiffers    OfferFault = "differs"    // the seller has signed other terms than it asks
	OfferForged     OfferFault = "signature"  // neither the payee nor a known signer has signed the offer
	OfferExpired    OfferFault = "expired"
)

// SignedOfferError reports that a requirement contradicts the signed offers beside it.
type SignedOfferError struct {
	Fault  OfferFault
	Detail string
}

func (e *SignedOfferError) Error() string {
	return "signed offer (" + string(e.Fault) + "): " + e.Detail
}

// OfferWord says what the signed offers of a challenge say of one requirement.
type OfferWord int

// Signed offers can say these words.
const (
	OfferNone      OfferWord = iota // the seller has signed none
	OfferUnchecked                  // only others can check them: see [Challenge.SignedOffer]
	OfferVerified                   // the payee or a known signer has signed these terms
)

// maxForged bounds the offers of one challenge whose signer is none of the seller's. After so many, no
// further signer is recovered, because each costs as much as a signature.
const maxForged = 4

// SignedOffers holds what a seller has signed of the requirements of one challenge. It is not safe for
// concurrent use.
type SignedOffers struct {
	challenge Challenge
	offers    []*signedOffer // those that can be checked
	said      OfferWord      // if there are none
	fault     error          // *SignedOfferError
	forged    int
}

// SignedOffers reads the offers of the challenge once for all requirements.
//
// An offer in another format or version is unchecked. That holds for a JWS, because its key is only
// claimed to be the seller's, and would have to be fetched.
func (c Challenge) SignedOffers() *SignedOffers {
	s := &SignedOffers{challenge: c}
	if c.Version != 2 || !isObject(c.Extensions) || !bytes.Contains(c.Extensions, []byte(offerReceipt)) {
		return s
	}
	offers, err := c.signedOffers()
	if errors.Is(err, errNoOffers) {
		return s
	}
	for _, raw := range offers {
		var o *signedOffer
		if o, err = readSignedOffer(raw); err != nil {
			break
		}
		if o == nil {
			s.said = OfferUnchecked
			continue
		}
		s.offers = append(s.offers, o)
	}
	if err != nil {
		s.fault = &SignedOfferError{OfferUnreadable, err.Error()}
	}
	return s
}

// Of compares the i-th requirement with the offers. If one offer fits, its signer must be the payee,
// because nothing else in a challenge names the seller, or one of the signers that the caller knows to
// be sellers'.
//
// If the seller has signed any offers that can be checked, exactly one of them must fit. The error is
// a *SignedOfferError.
func (s *SignedOffers) Of(i int, now time.Time, signers ...Address) (OfferWord, error) {
	if s.fault != nil {
		return OfferNone, s.fault
	}
	var fitting *signedOffer
	asked := &s.challenge.Accepts[i]
	network := v1Name(asked.Network)
	for _, o := range s.offers {
		switch term := o.differs(asked, network); {
		case term == "" && fitting != nil:
			return OfferNone, &SignedOfferError{OfferDiffers, "two offers are for one requirement"}
		case term == "":
			fitting = o
		case o.index != nil && *o.index == uint64(i):
			return OfferNone, &SignedOfferError{OfferDiffers, o.misfit(term, *asked)}
		}
	}
	switch {
	case fitting != nil && s.forged == maxForged:
		return OfferNone, &SignedOfferError{OfferForged, fmt.Sprintf("%d other offers of this challenge have wrong signatures, so no further one was looked at", maxForged)}
	case fitting != nil:
		if err := fitting.check(s.challenge, i, now, signers); err != nil {
			if err.Fault == OfferForged {
				s.forged++
			}
			return OfferNone, err
		}
		return OfferVerified, nil
	case len(s.offers) > 0:
		return OfferNone, &SignedOfferError{OfferDiffers, "the seller has signed no offer with the terms that it asks"}
	}
	return s.said, nil
}

var errNoOffers = errors.New("no offers")

// signedOffers lists the offers of the extension: errNoOffers.
func (c Challenge) signedOffers() ([]json.RawMessage, error) {
	if !json.Valid(c.Extensions) {
		return nil, errors.New("the extensions are not valid JSON")
	}
	body, err := extension(c.Extensions, offerReceipt)
	if err == nil && body == nil {
		err = errNoOffers
	}
	if err != nil {
		return nil, err
	}
	info, err := infoOf(body)
	if err != nil {
		return nil, err
	}
	raw := info.value("offers")
	if raw == nil {
		return nil, errNoOffers
	}
	list, err := elements(raw, maxAccepts)
	if err == nil && len(list) == 0 {
		err = errNoOffers
	}
	return list, err
}

// signedOffer is an offer in EIP-712. Its texts are as the seller signed them.
type signedOffer struct {
	index                                                *uint64 // of the requirement, as the seller says without signing it
	resource, scheme, network, asset, payTo, amount, sig string
	validUntil                                           uint64 // 0: it has no end

	// terms holds what the texts say, with the v1 name of the network. Its Problem is the first text that
	// cannot be read.
	terms Requirement
}

// readSignedOffer returns nil for an offer that is not in EIP-712, or of a later version.
func readSignedOffer(raw json.RawMessage) (*signedOffer, error) {
	top, err := members(raw)
	if err != nil {
		return nil, err
	}
	format, sig, err := signedText(top)
	if err != nil || format != formatTyped {
		return nil, err
	}
	payload, err := members(top.value("payload"))
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if string(payload.value("version")) != signedVersion {
		return nil, nil
	}
	o := &signedOffer{sig: sig}
	if err = texts(payload, map[string]*string{
		"resourceUrl": &o.resource, "scheme": &o.scheme, "network": &o.network, "asset": &o.asset, "payTo": &o.payTo, "amount": &o.amount,
	}); err != nil {
		return nil, err
	}
	if o.validUntil, err = wholeNumber(payload, "validUntil"); err != nil {
		return nil, err
	}
	if top.value("acceptIndex") != nil {
		index, err := wholeNumber(top, "acceptIndex")
		if err != nil {
			return nil, err
		}
		o.index = &index
	}
	o.readTerms()
	return o, nil
}

// readTerms parses the texts. A text that cannot be read is no error: the offer then fits no requirement.
func (o *signedOffer) readTerms() {
	o.terms.Network = v1Name(o.network)
	var err error
	o.terms.Asset, err = ParseAddress(o.asset)
	o.terms.note("asset", err)
	o.terms.PayTo, err = ParseAddress(o.payTo)
	o.terms.note("payTo", err)
	o.terms.Amount, err = money.Parse(o.amount)
	o.terms.note("amount", err)
}

// differs names the first term that differs from a requirement on a network, given by its v1 name; ""
// if none does.
func (o *signedOffer) differs(r *Requirement, network string) string {
	unread := ""
	if o.terms.Problem != nil {
		unread = o.terms.Problem.Field
	}
	switch {
	case o.scheme != r.Scheme:
		return "scheme"
	case o.terms.Network != network:
		return "network"
	case unread == "asset" || o.terms.Asset != r.Asset:
		return "asset"
	case unread == "payTo" || o.terms.PayTo != r.PayTo:
		return "payTo"
	case unread == "amount" || o.terms.Amount != r.Amount:
		return "amount"
	}
	return ""
}

// misfit tells people of a term that differs from a requirement.
func (o *signedOffer) misfit(term string, r Requirement) string {
	text := map[string][2]string{
		"scheme":  {o.scheme, r.Scheme},
		"network": {o.network, r.Network},
		"asset":   {o.asset, r.Asset.String()},
		"payTo":   {o.payTo, r.PayTo.String()},
		"amount":  {o.amount, r.money(r.Amount)},
	}[term]
	if term == "amount" && o.terms.Problem == nil {
		text[0] = r.money(o.terms.Amount)
	}
	return fmt.Sprintf("%s: the seller has signed %s and asks %s", term, printable(text[0]), printable(text[1]))
}

// money writes an amount of the asset for people.
func (r Requirement) money(a money.Amount) string {
	_, asset, err := r.Supports()
	if err != nil {
		return a.String()
	}
	return a.Format(asset.Decimals) + " " + asset.Symbol
}

var (
	offerDomain = signedDomain("x402 offer")
	offerType   = Keccak256([]byte("Offer(uint256 version,string resourceUrl,string scheme,string network," +
		"string asset,string payTo,string amount,uint256 validUntil)"))
)

// check checks what a fitting offer has beside the terms. The resource is compared with the
// challenge's own: sellers behind a TLS proxy are reached by another URL.
func (o *signedOffer) check(c Challenge, i int, now time.Time, signers []Address) *SignedOfferError {
	if c.ResourceURL != "" && o.resource != c.ResourceURL {
		return &SignedOfferError{OfferDiffers, fmt.Sprintf("resourceUrl: the seller has signed %s and asks for %s", printable(o.resource), printable(c.ResourceURL))}
	}
	if o.validUntil != 0 && uint64(max(now.Unix(), 0)) > o.validUntil {
		return &SignedOfferError{OfferExpired, "it was valid until " + time.Unix(int64(o.validUntil), 0).UTC().Format(time.RFC3339)}
	}
	err := signedBy(c.Accepts[i].PayTo, signers, o.sig, offerDomain, offerType, word(1), textWord(o.resource), textWord(o.scheme),
		textWord(o.network), textWord(o.asset), textWord(o.payTo), textWord(o.amount), word(o.validUntil))
	if err != nil {
		return &SignedOfferError{OfferForged, strings.TrimPrefix(err.Error(), "recover signer: ")}
	}
	return nil
}
