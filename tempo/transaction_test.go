package tempo_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/tempo"
	"github.com/purserpay/purser/x402"
)

// vectors were made by the official client: testdata/README.md.
type vectors struct {
	Key     string
	From    x402.Address
	Charges []charge
	// Transfers were made without a challenge.
	Transfers []struct {
		fees
		Name, Memo, Amount string
		Currency, Payee    x402.Address
	}
}

type fees struct {
	Gas                     uint64 `json:",string"`
	MaxFee, Tip             money.Amount
	ValidBefore, ValidAfter uint64
	Signed, Hash            string
}

type charge struct {
	fees
	Name, ID, Realm, Expires, Client string
	Now                              int64
	Request                          request
}

type request struct {
	Amount              money.Amount
	Currency, Recipient x402.Address
	MethodDetails       struct {
		FeePayer bool
		Splits   []struct {
			Recipient x402.Address
			Amount    money.Amount
			Memo      string
		}
	}
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (f fees) transaction(calls ...tempo.Call) tempo.Transaction {
	return tempo.Transaction{ChainID: 4217, Tip: f.Tip, MaxFee: f.MaxFee, Gas: f.Gas, Calls: calls, ValidBefore: f.ValidBefore, ValidAfter: f.ValidAfter}
}

// Transactions, memos and signatures have the bytes of the official client.
func TestTransactionsAreTheOfficialOnes(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	key, err := x402.ParseKey(unhex(t, v.Key))
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string, tx tempo.Transaction, f fees) {
		t.Helper()
		s, err := key.Sign(tx.Digest())
		if err != nil {
			t.Fatal(err)
		}
		signed, err := tx.Signed(s)
		if err != nil || !bytes.Equal(signed, unhex(t, f.Signed)) || tempo.Hash(signed) != f.Hash {
			t.Errorf("%s: %v\n%x instead of\n%s", name, err, signed, f.Signed)
		}
		for _, b := range [][]byte{signed, tx.Unsigned()} {
			again, by, err := tempo.Decode(b)
			if err != nil || !bytes.Equal(again.Unsigned(), tx.Unsigned()) || by != s && by != (x402.Signature{}) {
				t.Errorf("%s: read as %+v, %v", name, again, err)
			}
			for i := range b {
				bad := bytes.Clone(b)
				bad[i] ^= 0x80
				if other, sig, err := tempo.Decode(bad); err == nil && bytes.Equal(other.Unsigned(), tx.Unsigned()) && sig == by {
					t.Errorf("%s: byte %d does not count", name, i)
				}
			}
		}
	}
	for _, c := range v.Charges {
		memo := tempo.Attribution(c.Realm, c.ID, [tempo.ClientSize]byte(unhex(t, c.Client)))
		if client, is := tempo.Attributed(memo); !is || !bytes.Equal(client[:], unhex(t, c.Client)) {
			t.Errorf("%s: memo %s", c.Name, memo)
		}
		first := tempo.Transfer{To: c.Request.Recipient, Amount: c.Request.Amount, Memo: memo}
		var rest []tempo.Call
		for _, s := range c.Request.MethodDetails.Splits {
			first.Amount = first.Amount.SubSaturated(s.Amount)
			split := tempo.Transfer{To: s.Recipient, Amount: s.Amount}
			if s.Memo != "" {
				split.Memo = tempo.Memo(unhex(t, s.Memo))
			}
			rest = append(rest, split.Call(c.Request.Currency))
		}
		tx := c.transaction(append([]tempo.Call{first.Call(c.Request.Currency)}, rest...)...)
		tx.Sponsored = c.Request.MethodDetails.FeePayer
		check(c.Name, tx, c.fees)
	}
	for _, c := range v.Transfers {
		amount, err := money.Parse(c.Amount)
		if err != nil {
			t.Fatal(err)
		}
		tx := c.transaction(tempo.Transfer{To: c.Payee, Amount: amount, Memo: tempo.Memo(unhex(t, c.Memo))}.Call(c.Currency))
		tx.FeeToken = c.Currency
		check(c.Name, tx, c.fees)
	}
}

func TestOtherTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "02c0", "76", "76c0", "7680", "76cd80808080c0c0808080808080c0", "78c0", "76ff"} {
		if tx, _, err := tempo.Decode(unhex(t, text)); err == nil {
			t.Errorf("%s is read as %+v", text, tx)
		}
	}
	a := tempo.Attribution("r", "i", [tempo.ClientSize]byte{1})
	for _, b := range []tempo.Memo{
		tempo.Attribution("s", "i", [tempo.ClientSize]byte{1}), tempo.Attribution("r", "j", [tempo.ClientSize]byte{1}), tempo.Attribution("r", "i", [tempo.ClientSize]byte{2}),
	} {
		if a == b {
			t.Errorf("%s twice", a)
		}
	}
	if _, is := tempo.Attributed(tempo.Memo{}); is {
		t.Error("an empty memo is one of MPP")
	}
}
