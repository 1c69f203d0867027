package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
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

// What signed offers can say.
const (
	OfferNone      OfferWord = iota // the seller has signed none
	OfferUnchecked                  // only others can check them: see [Challenge.SignedOffer]
	OfferVerified                   // the payee or a known signer has signed these terms
)

// SignedOffer compares the i-th requirement with the offers that the seller has signed. If one offer
// fits, its signer must be the payee, because nothing else in a challenge names the seller, or one of
// the signers that the caller knows to be sellers'. An offer in
// another format or version is unchecked. That holds for a JWS, because its key is only claimed to be
// the seller's, and would have to be fetched.
//
// If the seller has signed any offers that can be checked, exactly one of them must fit. The error is
// a *SignedOfferError.
func (c Challenge) SignedOffer(i int, now time.Time, signers ...Address) (OfferWord, error) {
	if c.Version != 2 || !isObject(c.Extensions) || !bytes.Contains(c.Extensions, []byte(offerReceipt)) {
		return OfferNone, nil
	}
	offers, err := c.signedOffers()
	if errors.Is(err, errNoOffers) {
		return OfferNone, nil
	}
	if err != nil {
		return OfferNone, &SignedOfferError{OfferUnreadable, err.Error()}
	}
	var fitting *signedOffer
	said, others := OfferNone, 0
	for _, raw := range offers {
		o, err := readSignedOffer(raw)
		switch {
		case err != nil:
			return OfferNone, &SignedOfferError{OfferUnreadable, err.Error()}
		case o == nil:
			said = OfferUnchecked
			continue
		}
		switch why := o.misfit(c.Accepts[i]); {
		case why == "" && fitting != nil:
			return OfferNone, &SignedOfferError{OfferDiffers, "two offers are for one requirement"}
		case why == "":
			fitting = o
		case o.index != nil && *o.index == uint64(i):
			return OfferNone, &SignedOfferError{OfferDiffers, why}
		default:
			others++
		}
	}
	switch {
	case fitting != nil:
		if err := fitting.check(c, i, now, signers); err != nil {
			return OfferNone, err
		}
		return OfferVerified, nil
	case others > 0:
		return OfferNone, &SignedOfferError{OfferDiffers, "the seller has signed no offer with the terms that it asks"}
	}
	return said, nil
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
	return o, nil
}

// misfit names the first term that differs from a requirement, for people; "" if none does.
func (o *signedOffer) misfit(r Requirement) string {
	asset, assetErr := ParseAddress(o.asset)
	payTo, payToErr := ParseAddress(o.payTo)
	amount, amountErr := ParseAmount(o.amount)
	signed := o.amount
	if amountErr == nil {
		signed = r.money(amount)
	}
	for _, term := range []struct {
		name, signed, asked string
		same                bool
	}{
		{"scheme", o.scheme, r.Scheme, o.scheme == r.Scheme},
		{"network", o.network, r.Network, SameNetwork(o.network, r.Network)},
		{"asset", o.asset, r.Asset.String(), assetErr == nil && asset == r.Asset},
		{"payTo", o.payTo, r.PayTo.String(), payToErr == nil && payTo == r.PayTo},
		{"amount", signed, r.money(r.Amount), amountErr == nil && amount.Cmp(r.Amount) == 0},
	} {
		if !term.same {
			return fmt.Sprintf("%s: the seller has signed %s and asks %s", term.name, printable(term.signed), printable(term.asked))
		}
	}
	return ""
}

// money writes an amount of the asset for people.
func (r Requirement) money(a Amount) string {
	_, asset, err := r.Supports()
	if err != nil {
		return a.String()
	}
	return a.Format(asset.Decimals) + " " + asset.Symbol
}

var (
	offerDomain = signedDomain("x402 offer")
	offerType   = crypto.Keccak256([]byte("Offer(uint256 version,string resourceUrl,string scheme,string network," +
		"string asset,string payTo,string amount,uint256 validUntil)"))
)

// check checks what a fitting offer has beside the terms. The resource is compared with the
// challenge's own: sellers behind a TLS proxy are reached by another URL.
func (o *signedOffer) check(c Challenge, i int, now time.Time, signers []Address) error {
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
