package x402_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/math"
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
	networks := slices.DeleteFunc(x402.Networks(), func(n x402.Network) bool { return n.Rail != 0 })
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
