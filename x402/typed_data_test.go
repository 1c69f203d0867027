package x402_test

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"pgregory.net/rapid"

	"github.com/purserpay/purser/x402"
)

// hashOf reads typed data from its JSON form, as a signer does, and hashes it.
func hashOf(t interface{ Fatal(...any) }, data x402.TypedData) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	var read apitypes.TypedData
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	hash, _, err := apitypes.TypedDataAndHash(read)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// A signer that reads the JSON form signs the digest that the token checks.
func TestTypedDataOfAnAuthorization(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthorization(t)
		asset, chainID := drawAsset(t)
		want := a.Digest(asset, chainID)
		if got := hashOf(t, a.TypedData(asset, chainID)); string(got) != string(want[:]) {
			t.Fatalf("hash %x, want %x", got, want)
		}
	})
}

func TestTypedDataOfACancellation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthorization(t)
		c := x402.Cancellation{Authorizer: a.From, Nonce: a.Nonce}
		asset, chainID := drawAsset(t)
		want := c.Digest(asset, chainID)
		if got := hashOf(t, c.TypedData(asset, chainID)); string(got) != string(want[:]) {
			t.Fatalf("hash %x, want %x", got, want)
		}
	})
}

// The domain's type names the members that the domain has: Permit2 has no version.
func TestTypedDataWithoutVersion(t *testing.T) {
	t.Parallel()
	domain := x402.TypedDomain{Name: "Permit2", ChainID: 8453, VerifyingContract: x402.EVMAddress([20]byte{1})}
	types := map[string][]x402.TypedField{
		"Outer": {{Name: "inner", Type: "Inner"}, {Name: "nonce", Type: "uint256"}},
		"Inner": {{Name: "token", Type: "address"}},
	}
	message := map[string]any{"inner": map[string]any{"token": x402.EVMAddress([20]byte{2}).String()}, "nonce": "7"}
	data := x402.NewTypedData(domain, "Outer", types, message)
	if fields := data.Types["EIP712Domain"]; len(fields) != 3 {
		t.Errorf("the domain's type has %v", fields)
	}
	hash := hashOf(t, data)
	message["nonce"] = "8"
	if other := hashOf(t, data); string(other) == string(hash) {
		t.Error("two messages have one hash")
	}
}
