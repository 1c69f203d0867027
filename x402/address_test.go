package x402_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/purserpay/purser/x402"
)

func TestAddressChecksum(t *testing.T) {
	t.Parallel()
	for _, want := range []string{ // examples of EIP-55
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
		"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
		"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
		"0x52908400098527886E0F7030069857D2E4169EE7",
		"0xde709f2102306220921060314715629080e2fb77",
	} {
		for _, spelling := range []string{want, strings.ToLower(want), "0x" + strings.ToUpper(want[2:])} {
			a, err := x402.ParseAddress(spelling)
			if err != nil || a.String() != want {
				t.Errorf("ParseAddress(%q) = %v, %v", spelling, a, err)
			}
		}
	}
}

func TestHexForms(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("aB", 20)
	for _, s := range []string{"", "0x", digits, "0X" + digits, "0x" + digits[1:], "0x" + digits + "0", "0xg" + digits[1:], " 0x" + digits} {
		if a, err := x402.ParseAddress(s); err == nil {
			t.Errorf("ParseAddress(%q) = %v", s, a)
		}
	}
	long := "0x" + strings.Repeat("aB", 32)
	nonce, err := x402.ParseNonce(long)
	if err != nil || nonce.String() != strings.ToLower(long) {
		t.Errorf("ParseNonce(%q) = %v, %v", long, nonce, err)
	}
	if _, err := x402.ParseNonce(long + "00"); err == nil {
		t.Error("a nonce of 33 bytes was accepted")
	}
	if !x402.ValidTransaction(long) {
		t.Errorf("%q is a transaction hash", long)
	}
	for _, s := range []string{"", "0x", long[2:], long + "0", long[:65], "0x" + strings.Repeat("z", 64)} {
		if x402.ValidTransaction(s) {
			t.Errorf("%q is no transaction hash", s)
		}
	}
}

func TestHexJSON(t *testing.T) {
	t.Parallel()
	type all struct {
		A x402.Address
		N x402.Nonce
		S x402.Signature
	}
	in := all{A: x402.EVMAddress([20]byte{1}), N: x402.Nonce{2}, S: x402.Signature{3}}
	var out all
	if err := json.Unmarshal(must(json.Marshal(in)), &out); err != nil || out != in {
		t.Errorf("came back as %v, %v", out, err)
	}
	for _, bad := range []string{`{"A":"0x1"}`, `{"N":"0x1"}`, `{"S":"0x1"}`} {
		if err := json.Unmarshal([]byte(bad), &out); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	if !(x402.Address{}).IsZero() || in.A.IsZero() {
		t.Error("IsZero is wrong")
	}
}

// An address that a person typed must fit its checksum. An address from a seller need not.
func TestMistypedAddress(t *testing.T) {
	t.Parallel()
	const right = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	for _, s := range []string{right, strings.ToLower(right), "0x" + strings.ToUpper(right[2:]), "0x" + strings.Repeat("1", 40)} {
		checked, err := x402.ParseCheckedAddress(s)
		plain, _ := x402.ParseAddress(s)
		if err != nil || checked != plain {
			t.Errorf("%s: %v, %v", s, checked, err)
		}
	}
	for _, s := range []string{
		strings.Replace(right, "6053", "6054", 1), // a wrong digit
		strings.Replace(right, "Ae", "AE", 1),
		"0x" + strings.ToLower(right[2:41]) + "D",
	} {
		if _, err := x402.ParseAddress(s); err != nil {
			t.Errorf("a seller's %s: %v", s, err)
		}
		var a x402.Address
		for _, err := range []error{func() error { _, err := x402.ParseCheckedAddress(s); return err }(), json.Unmarshal([]byte(`"`+s+`"`), &a)} {
			if err == nil || !strings.Contains(err.Error(), "mistyped") || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: error %v", s, err)
			}
		}
	}
	for _, s := range []string{"", right[2:], right + "0", "0X" + right[2:]} {
		if _, err := x402.ParseCheckedAddress(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
