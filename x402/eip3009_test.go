package x402_test

import (
	"crypto/ecdsa"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

func drawAuthorization(t *rapid.T) x402.Authorization {
	fill := func(b []byte, label string) { copy(b, rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, label)) }
	a := x402.Authorization{
		Value:       drawAmount(t, "value"),
		ValidAfter:  rapid.Uint64().Draw(t, "validAfter"),
		ValidBefore: rapid.Uint64().Draw(t, "validBefore"),
	}
	fill(a.From.Bytes(), "from")
	fill(a.To.Bytes(), "to")
	fill(a.Nonce[:], "nonce")
	return a
}

func drawAsset(t *rapid.T) (x402.Asset, uint64) {
	networks := x402.Networks()
	n := networks[rapid.IntRange(0, len(networks)-1).Draw(t, "network")]
	asset := n.Assets[0]
	if rapid.Bool().Draw(t, "foreign") {
		text := rapid.StringN(1, -1, -1) // apitypes takes "" for missing
		asset.Name, asset.Version = text.Draw(t, "name"), text.Draw(t, "version")
		return asset, rapid.Uint64Range(1, 1<<53).Draw(t, "chain")
	}
	return asset, n.ChainID
}

// fields reads EIP-712 fields, each "type name".
func fields(texts ...string) (list []apitypes.Type) {
	for _, text := range texts {
		kind, name, _ := strings.Cut(text, " ")
		list = append(list, apitypes.Type{Name: name, Type: kind})
	}
	return list
}

func TestDigestIsTheHashOfTypedData(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := drawAuthorization(t)
		asset, chainID := drawAsset(t)
		want, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
			PrimaryType: "TransferWithAuthorization",
			Types: apitypes.Types{
				"EIP712Domain": fields("string name", "string version", "uint256 chainId", "address verifyingContract"),
				"TransferWithAuthorization": fields("address from", "address to", "uint256 value",
					"uint256 validAfter", "uint256 validBefore", "bytes32 nonce"),
			},
			Domain: apitypes.TypedDataDomain{
				Name: asset.Name, Version: asset.Version, ChainId: math.NewHexOrDecimal256(int64(chainID)),
				VerifyingContract: asset.Address.String(),
			},
			Message: apitypes.TypedDataMessage{
				"from": a.From.String(), "to": a.To.String(), "value": a.Value.String(), "nonce": a.Nonce.String(),
				"validAfter": strconv.FormatUint(a.ValidAfter, 10), "validBefore": strconv.FormatUint(a.ValidBefore, 10),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Digest(asset, chainID); string(got[:]) != string(want) {
			t.Fatalf("digest %x, want %x", got, want)
		}
	})
}

// A pinned separator serves the pinned pair alone: whatever differs is hashed.
func TestDigestOfAnAssetThatIsNotPinned(t *testing.T) {
	t.Parallel()
	var a x402.Authorization
	base, sepolia := x402.Networks()[0], x402.Networks()[1]
	usdc := base.Assets[0]
	renamed := usdc
	renamed.Name = "USDC"
	forged := usdc
	forged.DomainSeparator = [32]byte{1}
	want := a.Digest(usdc, base.ChainID)
	if a.Digest(forged, base.ChainID) != want {
		t.Error("a separator that is not pinned was used")
	}
	if a.Digest(renamed, base.ChainID) == want || a.Digest(usdc, sepolia.ChainID) == want {
		t.Error("the pinned separator was used for another domain")
	}
}

func TestDigestCommitsToEveryField(t *testing.T) {
	t.Parallel()
	asset := x402.Networks()[0].Assets[0]
	base := x402.Authorization{From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{2}), Value: money.New(3), ValidBefore: 4}
	seen := map[[32]byte]string{base.Digest(asset, 8453): "unchanged", base.Digest(asset, 1): "other chain"}
	for name, change := range map[string]func(*x402.Authorization){
		"from":        func(a *x402.Authorization) { a.From = x402.EVMAddress([20]byte{1, 19: 1}) },
		"to":          func(a *x402.Authorization) { a.To = x402.EVMAddress([20]byte{2, 19: 1}) },
		"value":       func(a *x402.Authorization) { a.Value = money.New(4) },
		"validAfter":  func(a *x402.Authorization) { a.ValidAfter++ },
		"validBefore": func(a *x402.Authorization) { a.ValidBefore++ },
		"nonce":       func(a *x402.Authorization) { a.Nonce[31]++ },
	} {
		changed := base
		change(&changed)
		digest := changed.Digest(asset, 8453)
		if other, ok := seen[digest]; ok {
			t.Errorf("%s: same digest as %s", name, other)
		}
		seen[digest] = name
	}
}

func drawKey(t *rapid.T) *ecdsa.PrivateKey {
	secret := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
	key, err := crypto.ToECDSA(secret)
	if err != nil {
		t.Skip("not a key")
	}
	return key
}

func TestSignedIsRecovered(t *testing.T) {
	t.Parallel()
	halfOrder := new(big.Int).Rsh(crypto.S256().Params().N, 1)
	rapid.Check(t, func(t *rapid.T) {
		key := drawKey(t)
		digest := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		s := must(x402.Sign(digest, key))
		if v := s[64]; v != 27 && v != 28 {
			t.Fatalf("v is %d", v)
		}
		if new(big.Int).SetBytes(s[32:64]).Cmp(halfOrder) > 0 {
			t.Fatalf("high s: %v", s)
		}
		if again, err := x402.ParseSignature(s.String()); err != nil || again != s {
			t.Fatalf("%v came back as %v, %v", s, again, err)
		}
		want := x402.EVMAddress(crypto.PubkeyToAddress(key.PublicKey))
		if got, err := x402.Recover(digest, s); err != nil || got != want {
			t.Fatalf("recovered %v, %v, want %v", got, err, want)
		}
		digest[0] ^= 1
		if got, err := x402.Recover(digest, s); err == nil && got == want {
			t.Fatal("the signature fits another digest")
		}
	})
}

func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	digest := [32]byte{1}
	good := must(x402.Sign(digest, must(crypto.ToECDSA(append(make([]byte, 31), 7)))))
	for _, v := range []byte{0, 1, 2, 26, 29, 35, 255} {
		s := good
		s[64] = v
		if a, err := x402.Recover(digest, s); err == nil {
			t.Errorf("v %d: recovered %v", v, a)
		}
	}
	high := good // the same signature's other form: n-s, v flipped
	new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(good[32:64])).FillBytes(high[32:64])
	high[64] = 27 + 28 - good[64]
	if a, err := x402.Recover(digest, high); err == nil {
		t.Errorf("high s: recovered %v", a)
	}
	for name, s := range map[string]x402.Signature{"zero": {64: 27}, "zero r": {63: 1, 64: 27}, "zero s": {31: 1, 64: 27}} {
		if a, err := x402.Recover(digest, s); err == nil {
			t.Errorf("%s: recovered %v", name, a)
		}
	}
	if _, err := x402.Sign(digest, nil); err == nil {
		t.Error("signed without a key")
	}
	for _, text := range []string{"", "0x", good.String()[2:], good.String() + "00", good.String()[:130]} {
		if s, err := x402.ParseSignature(text); err == nil {
			t.Errorf("ParseSignature(%q) = %v", text, s)
		}
	}
}
