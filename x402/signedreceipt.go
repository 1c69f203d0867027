package x402

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSignedReceipt bounds a signed receipt, in bytes of compact JSON. That of the reference seller has
// 500 and a URL.
const MaxSignedReceipt = 4 << 10

// ReceiptTerms says what a signed receipt must be about.
type ReceiptTerms struct {
	Network      string // v1 or v2
	Payer, Payee Address
	Signers      []Address // those that may sign beside the payee
	Resources    []string  // the URLs that name the resource; "" is none
	// NotBefore and NotAfter bound the time at which the seller signed.
	NotBefore, NotAfter time.Time
}

// Signed reports whether a receipt may have a signed one in it.
func (r Receipt) Signed() bool { return r.Success && bytes.Contains(r.Raw, []byte(offerReceipt)) }

// SignedReceipt returns the signed receipt that came with a receipt (v2 extension offer-receipt), in
// compact JSON; nil when there is none. It fails when the receipt is not about these terms, or when
// neither the payee nor one of the signers has signed it.
//
// The signature of a JWS is not checked: see [Challenge.SignedOffer]. [VerifiedReceipt] tells the two
// apart.
func (r Receipt) SignedReceipt(of ReceiptTerms) (json.RawMessage, error) {
	if !r.Signed() {
		return nil, nil
	}
	top, err := readObject(r.Raw)
	if err != nil {
		return nil, fmt.Errorf("read signed receipt: %w", err)
	}
	extensions := top.value("extensions")
	if extensions == nil {
		return nil, nil
	}
	if !isObject(extensions) {
		return nil, errors.New("read signed receipt: the extensions are not an object")
	}
	body, err := extension(extensions, offerReceipt)
	if err == nil && body == nil {
		return nil, nil
	}
	var info object
	if err == nil {
		info, err = infoOf(body)
	}
	if err != nil {
		return nil, fmt.Errorf("read signed receipt: %w", err)
	}
	raw := info.value("receipt")
	if raw == nil {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("read signed receipt: %w", err)
	}
	if compact.Len() > MaxSignedReceipt {
		return nil, fmt.Errorf("read signed receipt: %w: over %d bytes", ErrTooLarge, MaxSignedReceipt)
	}
	if err := checkSignedReceipt(compact.Bytes(), of, r.Transaction); err != nil {
		return nil, fmt.Errorf("check signed receipt: %w", err)
	}
	return compact.Bytes(), nil
}

// VerifiedReceipt reports whether the signature of a receipt of [Receipt.SignedReceipt] was checked. If not, it is a
// JWS, and only its own words make it the seller's.
func VerifiedReceipt(signed json.RawMessage) bool {
	top, err := readObject(signed)
	if err != nil {
		return false
	}
	format, _, err := signedText(top)
	return err == nil && format == formatTyped
}

// checkSignedReceipt checks a receipt that came with a settlement in a transaction.
func checkSignedReceipt(raw json.RawMessage, of ReceiptTerms, transaction string) error {
	top, err := members(raw)
	if err != nil {
		return err
	}
	format, sig, err := signedText(top)
	if err != nil {
		return err
	}
	payload := object(nil)
	switch format {
	case formatTyped:
		payload, err = members(top.value("payload"))
	case formatJWS:
		payload, err = jwsPayload(sig)
	default:
		err = &FieldError{"format", "neither " + formatTyped + " nor " + formatJWS}
	}
	if err != nil {
		return fmt.Errorf("payload: %w", err)
	}
	if string(payload.value("version")) != signedVersion {
		return &FieldError{"version", "not " + signedVersion}
	}
	s := signedReceipt{}
	if err = texts(payload, map[string]*string{"network": &s.network, "resourceUrl": &s.resource, "payer": &s.payer}); err != nil {
		return err
	}
	if s.issuedAt, err = wholeNumber(payload, "issuedAt"); err != nil {
		return err
	}
	if s.transaction, err = payload.text("transaction"); err != nil {
		return err
	}
	if err := s.fits(of, transaction); err != nil || format == formatJWS {
		return err
	}
	return signedBy(of.Payee, of.Signers, sig, receiptDomain, receiptType, word(1), textWord(s.network), textWord(s.resource), textWord(s.payer),
		word(s.issuedAt), textWord(s.transaction))
}

var (
	receiptDomain = signedDomain("x402 receipt")
	receiptType   = Keccak256([]byte("Receipt(uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction)"))
)

// signedReceipt holds what the seller has signed. A receipt need not name the transaction.
type signedReceipt struct {
	network, resource, payer, transaction string
	issuedAt                              uint64
}

// fits checks what the receipt says.
func (s signedReceipt) fits(of ReceiptTerms, transaction string) error {
	payer, err := ParseAddress(s.payer)
	issued := time.Unix(int64(s.issuedAt), 0)
	switch {
	case !SameNetwork(s.network, of.Network):
		return &FieldError{"network", printable(s.network)}
	case err != nil || payer != of.Payer:
		return &FieldError{"payer", printable(s.payer)}
	case s.resource == "" || !slices.Contains(of.Resources, s.resource):
		return &FieldError{"resourceUrl", "not what was paid for"}
	case s.transaction != "" && !strings.EqualFold(s.transaction, transaction):
		return &FieldError{"transaction", "not that of the settlement"}
	case issued.Before(of.NotBefore.Truncate(time.Second)) || issued.After(of.NotAfter):
		return &FieldError{"issuedAt", "not the time of the payment"}
	}
	return nil
}

// jwsPayload returns the payload of a compact JWS, without checking its signature.
func jwsPayload(jws string) (object, error) {
	parts := strings.Split(jws, ".")
	if len(parts) != 3 || parts[2] == "" {
		return nil, errors.New("not a compact JWS")
	}
	for _, part := range []string{parts[0], parts[2]} {
		if _, err := base64.RawURLEncoding.DecodeString(part); err != nil {
			return nil, errors.New("not a compact JWS")
		}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("not a compact JWS")
	}
	return readObject(text)
}
