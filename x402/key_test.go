package x402_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"pgregory.net/rapid"

	"github.com/purserpay/purser/x402"
	"github.com/purserpay/purser/x402/x402test"
)

// order is that of the curve.
var order = crypto.S256().Params().N

// drawWord draws 32 bytes. Some are the numbers at which a check of a key or a signature turns.
func drawWord(t *rapid.T, label string) [32]byte {
	half, prime := new(big.Int).Rsh(order, 1), crypto.S256().Params().P
	var edges []*big.Int
	for _, n := range []*big.Int{new(big.Int), half, order, prime} {
		for _, off := range []int64{-1, 0, 1, 2} {
			if edge := new(big.Int).Add(n, big.NewInt(off)); edge.Sign() >= 0 {
				edges = append(edges, edge)
			}
		}
	}
	if rapid.Bool().Draw(t, label+" at an edge") {
		return [32]byte(rapid.SampledFrom(edges).Draw(t, label).FillBytes(make([]byte, 32)))
	}
	return [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, label))
}

func drawKey(t *rapid.T) *x402.Key {
	parsed := func(secret [32]byte) *x402.Key {
		key, _ := x402.ParseKey(secret[:])
		return key
	}
	words := rapid.Custom(func(t *rapid.T) [32]byte { return drawWord(t, "key") })
	return parsed(words.Filter(func(secret [32]byte) bool { return parsed(secret) != nil }).Draw(t, "key"))
}

// The examples of EIP-712 and of bitcoin's RFC 6979.
func TestKnownSignatures(t *testing.T) {
	t.Parallel()
	satoshi := sha256.Sum256([]byte("Satoshi Nakamoto"))
	for _, c := range []struct{ key, address, digest, signature string }{
		{
			key: hex.EncodeToString(x402.Keccak256([]byte("cow"))), address: "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826",
			digest: "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2",
			signature: "0x4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d" +
				"07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b915621c",
		},
		{
			key: "0000000000000000000000000000000000000000000000000000000000000001", address: "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf",
			digest: hex.EncodeToString(satoshi[:]),
			signature: "0x934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8" +
				"2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e51c",
		},
	} {
		key := must(x402.ParseKey(must(hex.DecodeString(c.key))))
		got, err := key.Sign([32]byte(must(hex.DecodeString(c.digest))))
		if err != nil || got.String() != c.signature || key.Address().String() != c.address {
			t.Errorf("%s signed %s, %v; want %s by %s", key.Address(), got, err, c.signature, c.address)
		}
	}
}

func TestKeccak256(t *testing.T) {
	t.Parallel()
	if got := hex.EncodeToString(x402.Keccak256()); got != "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470" {
		t.Errorf("of nothing: %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 4).Draw(t, "parts")
		if got, want := x402.Keccak256(parts...), crypto.Keccak256(parts...); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}

func TestChecksumsAsTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := [20]byte(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "address"))
		if got, want := x402.EVMAddress(b).String(), common.Address(b).Hex(); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// ParseKey takes what go-ethereum takes for a key, and finds the same account.
func TestParsesKeysAsTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := drawWord(t, "secret")
		secret := rapid.SampledFrom([][]byte{word[:], word[1:], bytes.TrimLeft(word[:], "\x00"), append([]byte{0}, word[:]...), nil}).Draw(t, "form")
		want, bad := crypto.ToECDSA(secret)
		key, err := x402.ParseKey(secret)
		if (err != nil) != (bad != nil) {
			t.Fatalf("%x: %v, and go-ethereum says %v", secret, err, bad)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(key.Bytes(), secret) || key.Address() != x402.EVMAddress(crypto.PubkeyToAddress(want.PublicKey)) {
			t.Fatalf("%x: read as %x, of %s", secret, key.Bytes(), key.Address())
		}
	})
}

// The signatures are go-ethereum's, byte for byte. Only for a digest above the order does libsecp256k1, which
// go-ethereum uses with cgo, derive another nonce than RFC 6979 has it. No hash is known that is so high.
func TestSignsAsTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key, digest := drawKey(t), drawWord(t, "digest")
		s := must(key.Sign(digest))
		want := must(x402test.Sign(digest, must(crypto.ToECDSA(key.Bytes()))))
		if s != want && new(big.Int).SetBytes(digest[:]).Cmp(order) < 0 {
			t.Fatalf("%s, want %s", s, want)
		}
		if v := s[64]; v != 27 && v != 28 {
			t.Fatalf("v is %d", v)
		}
		if new(big.Int).SetBytes(s[32:64]).Cmp(new(big.Int).Rsh(order, 1)) > 0 {
			t.Fatalf("high s: %v", s)
		}
		if again, err := x402.ParseSignature(s.String()); err != nil || again != s {
			t.Fatalf("%v came back as %v, %v", s, again, err)
		}
		if got, err := x402.Recover(digest, s); err != nil || got != key.Address() {
			t.Fatalf("recovered %v, %v, want %v", got, err, key.Address())
		}
		digest[0] ^= 1
		if got, err := x402.Recover(digest, s); err == nil && got == key.Address() {
			t.Fatal("the signature fits another digest")
		}
	})
}

// recoverByLibrary recovers as [x402.Recover] should, by go-ethereum's code.
func recoverByLibrary(digest [32]byte, s x402.Signature) (x402.Address, error) {
	s[64] -= 27
	if !crypto.ValidateSignatureValues(s[64], new(big.Int).SetBytes(s[:32]), new(big.Int).SetBytes(s[32:64]), true) {
		return x402.Address{}, errors.New("out of range")
	}
	public, err := crypto.SigToPub(digest[:], s[:])
	if err != nil {
		return x402.Address{}, err
	}
	return x402.EVMAddress(crypto.PubkeyToAddress(*public)), nil
}

// Signatures of any numbers are taken or refused as by go-ethereum, and tell the same signer.
func TestRecoversAsTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		digest := drawWord(t, "digest")
		s := must(drawKey(t).Sign(digest))
		r, low, v := drawWord(t, "r"), drawWord(t, "s"), rapid.SampledFrom([]byte{0, 1, 2, 26, 27, 28, 29, 30, 31, 34, 255}).Draw(t, "v")
		switch rapid.IntRange(0, 4).Draw(t, "spoilt") {
		case 0:
			copy(s[:32], r[:])
		case 1:
			copy(s[32:], low[:])
		case 2:
			s[64] = v
		case 3:
			s = x402.Signature(slices.Concat(r[:], low[:], []byte{v}))
		case 4:
			high := new(big.Int).Sub(order, new(big.Int).SetBytes(s[32:64]))
			high.FillBytes(s[32:64])
			s[64] ^= 27 ^ 28
		}
		want, bad := recoverByLibrary(digest, s)
		got, err := x402.Recover(digest, s)
		if (err != nil) != (bad != nil) || got != want {
			t.Fatalf("%s: %s, %v; go-ethereum says %s, %v", s, got, err, want, bad)
		}
	})
}

func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	digest := [32]byte{1}
	good := must(must(x402.ParseKey(append(make([]byte, 31), 7))).Sign(digest))
	for _, v := range []byte{0, 1, 2, 26, 29, 35, 255} {
		s := good
		s[64] = v
		if a, err := x402.Recover(digest, s); err == nil {
			t.Errorf("v %d: recovered %v", v, a)
		}
	}
	high := good // the same signature's other form: n-s, v flipped
	new(big.Int).Sub(order, new(big.Int).SetBytes(good[32:64])).FillBytes(high[32:64])
	high[64] = 27 + 28 - good[64]
	if a, err := x402.Recover(digest, high); err == nil {
		t.Errorf("high s: recovered %v", a)
	}
	for name, s := range map[string]x402.Signature{"zero": {64: 27}, "zero r": {63: 1, 64: 27}, "zero s": {31: 1, 64: 27}} {
		if a, err := x402.Recover(digest, s); err == nil {
			t.Errorf("%s: recovered %v", name, a)
		}
	}
	for _, text := range []string{"", "0x", good.String()[2:], good.String() + "00", good.String()[:130]} {
		if s, err := x402.ParseSignature(text); err == nil {
			t.Errorf("ParseSignature(%q) = %v", text, s)
		}
	}
}

func TestNoKeySignsNothing(t *testing.T) {
	t.Parallel()
	wiped := must(x402.NewKey())
	if _, err := wiped.Sign([32]byte{1}); err != nil {
		t.Fatal(err)
	}
	wiped.Wipe()
	for name, key := range map[string]*x402.Key{"wiped": wiped, "zero": {}} {
		if s, err := key.Sign([32]byte{1}); err == nil || s != (x402.Signature{}) {
			t.Errorf("%s: signed %s", name, s)
		}
	}
}
