package money_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/money"
)

const (
	maxUint256     = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	maxUint256Next = "115792089237316195423570985008687907853269984665640564039457584007913129639936"
)

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"0", "1", "1000000", "18446744073709551616", maxUint256} {
		a, err := money.Parse(s)
		if err != nil || a.String() != s {
			t.Errorf("ParseAmount(%q) = %v, %v", s, a, err)
		}
	}
	for _, s := range []string{
		"", "-1", "+1", " 1", "1 ", "1.0", "1e6", "0x10", "00", "01", "1_000", "١", "NaN",
		maxUint256Next, strings.Repeat("9", 90), strings.Repeat("1", 1<<20),
	} {
		if a, err := money.Parse(s); err == nil {
			t.Errorf("ParseAmount(%.40q) = %v, want an error", s, a)
		}
	}
}

func TestAmountZeroValueAndEquality(t *testing.T) {
	t.Parallel()
	var zero money.Amount
	if !zero.IsZero() || zero.String() != "0" || zero != money.New(0) {
		t.Errorf("the zero value is %v, want 0", zero)
	}
	if money.New(7) != mustBe(money.Parse("7")) {
		t.Error("equal amounts differ")
	}
}

func TestAmountBounds(t *testing.T) {
	t.Parallel()
	top := mustBe(money.Parse(maxUint256))
	if _, overflow := top.Add(money.New(1)); !overflow {
		t.Error("2^256-1 + 1 did not overflow")
	}
	if _, underflow := money.New(1).Sub(money.New(2)); !underflow {
		t.Error("1 - 2 did not underflow")
	}
	over, _ := new(big.Int).SetString(maxUint256Next, 10)
	for _, b := range []*big.Int{nil, big.NewInt(-1), over} {
		if a, ok := money.FromBig(b); ok {
			t.Errorf("AmountFromBig(%v) = %v", b, a)
		}
	}
}

// anAmount draws from the whole range, small amounts more often than not.
func anAmount(t *rapid.T, label string) money.Amount {
	b := rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label)
	a, ok := money.FromBig(new(big.Int).SetBytes(b))
	if !ok {
		t.Fatalf("32 bytes are no amount: %x", b)
	}
	return a
}

func TestAmountAgreesWithBigInt(t *testing.T) {
	t.Parallel()
	modulus := new(big.Int).Lsh(big.NewInt(1), 256)
	rapid.Check(t, func(t *rapid.T) {
		a, b := anAmount(t, "a"), anAmount(t, "b")
		if again := mustBe(money.Parse(a.Big().String())); again != a {
			t.Fatalf("%v came back as %v", a, again)
		}
		word := a.Bytes32()
		if new(big.Int).SetBytes(word[:]).Cmp(a.Big()) != 0 {
			t.Fatalf("Bytes32 of %v is %x", a, word)
		}
		if short := a.AppendBytes([]byte{7}); !bytes.Equal(short, append([]byte{7}, a.Big().Bytes()...)) {
			t.Fatalf("AppendBytes of %v makes %x", a, short)
		}
		if a.Cmp(b) != a.Big().Cmp(b.Big()) {
			t.Fatalf("Cmp(%v, %v) = %d", a, b, a.Cmp(b))
		}
		want := new(big.Int).Add(a.Big(), b.Big())
		if sum, overflow := a.Add(b); overflow != (want.Cmp(modulus) >= 0) || (!overflow && sum.Big().Cmp(want) != 0) {
			t.Fatalf("%v + %v = %v, %v", a, b, sum, overflow)
		}
		want = new(big.Int).Sub(a.Big(), b.Big())
		if diff, underflow := a.Sub(b); underflow != (want.Sign() < 0) || (!underflow && diff.Big().Cmp(want) != 0) {
			t.Fatalf("%v - %v = %v, %v", a, b, diff, underflow)
		}
	})
}

func TestParseUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, units, out string }{
		{"1", "1000000", "1"},
		{"10", "10000000", "10"},
		{"0.25", "250000", "0.25"},
		{"0", "0", "0"},
		{"0.0", "0", "0"},
		{"1.500000", "1500000", "1.5"},
		{"0.000001", "1", "0.000001"},
		{"007.1", "7100000", "7.1"},
	} {
		a, err := money.ParseUnits(c.in, 6)
		if err != nil || a.String() != c.units || a.Format(6) != c.out {
			t.Errorf("ParseUnits(%q) = %v, %v, formatted %q", c.in, a, err, a.Format(6))
		}
	}
	for _, s := range []string{"", ".", "1.", ".5", "-1", "+1", "1e6", "1,5", "0x1", "1.2.3", "0.0000001", "1.0000000", maxUint256} {
		if a, err := money.ParseUnits(s, 6); err == nil {
			t.Errorf("ParseUnits(%q) = %v, want an error", s, a)
		}
	}
	for _, decimals := range []int{-1, 78, 1 << 30} {
		if _, err := money.ParseUnits("1", decimals); err == nil {
			t.Errorf("ParseUnits with %d decimals succeeded", decimals)
		}
	}
	if got := money.New(15).Format(0); got != "15" {
		t.Errorf("Format(0) = %q", got)
	}
}

func TestFormatParsesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, decimals := anAmount(t, "a"), rapid.IntRange(0, 77).Draw(t, "decimals")
		again, err := money.ParseUnits(a.Format(decimals), decimals)
		if err != nil || again != a {
			t.Fatalf("%v formatted as %q came back as %v, %v", a, a.Format(decimals), again, err)
		}
	})
}

func TestAmountJSON(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(map[string]money.Amount{"a": money.New(1500000)})
	if err != nil || string(encoded) != `{"a":"1500000"}` {
		t.Fatalf("encoded as %s, %v", encoded, err)
	}
	var a money.Amount
	if err := json.Unmarshal([]byte(`"42"`), &a); err != nil || a != money.New(42) {
		t.Errorf("decoded as %v, %v", a, err)
	}
	for _, bad := range []string{`42`, `"-1"`, `""`, `"1.5"`} {
		if err := json.Unmarshal([]byte(bad), &a); err == nil {
			t.Errorf("%s decoded as %v", bad, a)
		}
	}
}

// mustBe returns a value that the test knows to be good.
func mustBe[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func FuzzParseAmount(f *testing.F) {
	for _, s := range []string{"0", "1", "01", "-1", "+1", "0x1", "1e3", "1.5", "", maxUint256, maxUint256Next} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := money.Parse(s)
		want, decimal := new(big.Int).SetString(s, 10)
		canonical := decimal && want.Sign() >= 0 && want.BitLen() <= 256 && want.String() == s
		if (err == nil) != canonical {
			t.Fatalf("ParseAmount(%q) = %v, %v", s, a, err)
		}
		if err == nil && a.Big().Cmp(want) != 0 {
			t.Fatalf("ParseAmount(%q) = %v", s, a)
		}
		if units, err := money.ParseUnits(s, 6); err == nil {
			if again, err := money.ParseUnits(units.Format(6), 6); err != nil || again != units {
				t.Fatalf("%q is %v, came back as %v, %v", s, units, again, err)
			}
		}
	})
}
