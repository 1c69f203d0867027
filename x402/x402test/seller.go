// Package x402test signs as sellers and other wallets do, for tests. It hashes and signs by go-ethereum's own
// code, which package x402 does not use.
package x402test

import (
	"crypto/ecdsa"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/purserpay/purser/x402"
)

// Fields are the members of a signed payload.
type Fields map[string]any

// With returns the fields with another value of one; nil takes it out.
func (f Fields) With(name string, value any) Fields {
	changed := maps.Clone(f)
	if changed[name] = value; value == nil {
		delete(changed, name)
	}
	return changed
}

// Seller has a key, and is paid at its address.
type Seller struct {
	t   testing.TB
	key *ecdsa.PrivateKey
}

// NewSeller makes a seller.
func NewSeller(t testing.TB) Seller {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return Seller{t, key}
}

// Address returns the address at which the seller is paid.
func (s Seller) Address() x402.Address {
	return x402.EVMAddress(crypto.PubkeyToAddress(s.key.PublicKey))
}

// Offer signs the payload of an offer.
func (s Seller) Offer(payload Fields) Fields {
	return s.sign("x402 offer", "Offer", payload, "version uint256", "resourceUrl string", "scheme string", "network string",
		"asset string", "payTo string", "amount string", "validUntil uint256")
}

// Receipt signs the payload of a receipt.
func (s Seller) Receipt(payload Fields) Fields {
	return s.sign("x402 receipt", "Receipt", payload, "version uint256", "network string", "resourceUrl string", "payer string",
		"issuedAt uint256", "transaction string")
}

// Extensions returns the extensions of a challenge or receipt whose offer-receipt has one member in its info.
func Extensions(t testing.TB, name string, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(Fields{"offer-receipt": Fields{"info": Fields{name: value}, "schema": Fields{"type": "object"}}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (s Seller) sign(domain, primary string, payload Fields, members ...string) Fields {
	s.t.Helper()
	message := apitypes.TypedDataMessage{}
	types := []apitypes.Type{}
	for _, member := range members {
		name, kind, _ := strings.Cut(member, " ")
		types = append(types, apitypes.Type{Name: name, Type: kind})
		switch value := payload[name].(type) {
		case nil: // a member that is left out is signed as nothing
			message[name] = map[string]any{"string": "", "uint256": "0"}[kind]
		case int:
			message[name] = math.NewHexOrDecimal256(int64(value))
		case int64:
			message[name] = math.NewHexOrDecimal256(value)
		default:
			message[name] = value
		}
	}
	hash, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			primary:        types,
			"EIP712Domain": {{Name: "name", Type: "string"}, {Name: "version", Type: "string"}, {Name: "chainId", Type: "uint256"}},
		},
		PrimaryType: primary, Domain: apitypes.TypedDataDomain{Name: domain, Version: "1", ChainId: math.NewHexOrDecimal256(1)}, Message: message,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	signature, err := Sign([32]byte(hash), s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	return Fields{"format": "eip712", "payload": payload, "signature": signature.String()}
}
