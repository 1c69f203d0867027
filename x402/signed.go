package x402

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/purserpay/purser/internal/strictjson"
)

// The extension offer-receipt lets a seller sign requirements and receipts. Both have the form
// {"format","payload","signature"}. The chain id of their EIP-712 domains is 1 on every network
// (x402's specification, extension offer-receipt).
const (
	offerReceipt = "offer-receipt"

	formatTyped = "eip712" // the payload is beside the signature
	formatJWS   = "jws"    // the signature is a JWS that holds the payload

	// signedVersion is the only version of signed payloads that there is.
	signedVersion = "1"
)

// signedDomain returns the EIP-712 domain hash of offers or receipts.
func signedDomain(name string) []byte {
	return Keccak256(
		Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId)")),
		Keccak256([]byte(name)), Keccak256([]byte("1")), word(1),
	)
}

// signedBy checks that the payee or one of some other signers has signed a struct of EIP-712, given by
// its encoded members.
func signedBy(payee Address, others []Address, signature string, domain, structType []byte, fields ...[]byte) error {
	s, err := ParseForeignSignature(signature)
	if err != nil {
		return err
	}
	message := Keccak256(slices.Concat(structType, slices.Concat(fields...)))
	by, err := Recover([32]byte(Keccak256([]byte{0x19, 0x01}, domain, message)), s)
	if err != nil {
		return err
	}
	if by != payee && !slices.Contains(others, by) {
		return fmt.Errorf("%s has signed it, and the seller is paid at %s", by, payee)
	}
	return nil
}

// textWord returns a string as a member of an EIP-712 struct.
func textWord(s string) []byte { return Keccak256([]byte(s)) }

// extension returns the body of an extension, nil when the seller does not advertise it. The text is valid
// JSON.
func extension(extensions json.RawMessage, name string) (object, error) {
	raw, err := find(extensions, name)
	if raw == nil || err != nil || string(raw) == "null" {
		return nil, err
	}
	return members(raw)
}

// infoOf returns the info of an extension.
func infoOf(body object) (object, error) {
	info, err := members(body.value("info"))
	if err != nil {
		return nil, fmt.Errorf("info: %w", err)
	}
	return info, nil
}

// wholeNumber reads a JSON number without sign, fraction or exponent; 0 when it is absent.
func wholeNumber(o object, key string) (uint64, error) {
	raw := o.value(key)
	if raw == nil {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(raw), 10, 53)
	if err != nil {
		return 0, &FieldError{key, "not a whole number"}
	}
	return n, nil
}

// texts reads required string members.
func texts(o object, into map[string]*string) error {
	for key, target := range into {
		var err error
		if *target, err = o.required(key); err != nil {
			return err
		}
	}
	return nil
}

// signedText returns the format of a signed object, and its signature.
func signedText(o object) (format, signature string, err error) {
	if format, err = o.required("format"); err == nil {
		signature, err = o.required("signature")
	}
	return format, signature, err
}

// isObject reports whether a JSON value is an object.
func isObject(raw json.RawMessage) bool { return strictjson.Kind(raw) == '{' }
