package tempo

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/rlp"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// The first bytes of transactions. The second one begins the form that a sponsor completes.
const (
	kindTransaction = 0x76
	kindSponsored   = 0x78
)

// awaitsSponsor stands where a sponsor's signature will stand.
const awaitsSponsor = 0x00

// expiring is the nonce key of transactions that count no nonces: the chain takes their bytes once, until ValidBefore.
var expiring = bytes.Repeat([]byte{0xff}, 32)

// Call is a call of a contract, without value.
type Call struct {
	To   x402.Address
	Data []byte
}

// Transaction is a transaction of Tempo with an expiring nonce. All its calls succeed, or none does.
type Transaction struct {
	ChainID uint64
	// Tip and MaxFee are the most that a unit of gas pays, in billionths of a billionth of a dollar.
	Tip, MaxFee money.Amount
	Gas         uint64 // the most that it uses
	Calls       []Call
	// It is valid at block times from ValidAfter to before ValidBefore, in unix seconds.
	ValidBefore, ValidAfter uint64
	// FeeToken pays for the gas; zero: the chain, or the sponsor, chooses.
	FeeToken x402.Address
	// Sponsored: another account pays for the gas, and signs after the sender.
	Sponsored bool
}

// encode writes the fields with what stands in the place of the sponsor's signature, and what ends the list.
func (t Transaction) encode(kind byte, sponsor []byte, end ...[]byte) []byte {
	calls := make([][]byte, len(t.Calls))
	for i, c := range t.Calls {
		calls[i] = rlp.List(rlp.String(c.To.Bytes()), rlp.Uint(0), rlp.String(c.Data))
	}
	var token []byte
	if !t.FeeToken.IsZero() && !t.Sponsored {
		token = t.FeeToken.Bytes()
	}
	fields := [][]byte{
		rlp.Uint(t.ChainID), rlp.Amount(t.Tip), rlp.Amount(t.MaxFee), rlp.Uint(t.Gas), rlp.List(calls...),
		rlp.List(), // of accesses
		rlp.String(expiring), rlp.Uint(0), rlp.Uint(t.ValidBefore), rlp.Uint(t.ValidAfter), rlp.String(token), rlp.String(sponsor),
		rlp.List(), // of authorizations
	}
	return append([]byte{kind}, rlp.List(slices.Concat(fields, end)...)...)
}

// Unsigned returns the bytes whose hash the sender signs.
func (t Transaction) Unsigned() []byte {
	var sponsor []byte
	if t.Sponsored {
		sponsor = []byte{awaitsSponsor}
	}
	return t.encode(kindTransaction, sponsor)
}

// Digest returns the hash that the sender signs.
func (t Transaction) Digest() [32]byte { return [32]byte(x402.Keccak256(t.Unsigned())) }

// Signed returns the bytes that are sent: to the chain, or to the sponsor, who completes them.
func (t Transaction) Signed(s x402.Signature) ([]byte, error) {
	from, err := x402.Recover(t.Digest(), s)
	if err != nil {
		return nil, err
	}
	if t.Sponsored {
		return t.encode(kindSponsored, from.Bytes(), rlp.String(s[:])), nil
	}
	return t.encode(kindTransaction, nil, rlp.String(s[:])), nil
}

// Hash returns the hash of signed bytes. The chain knows a transaction by it, unless a sponsor has completed it.
func Hash(signed []byte) string { return hexOf(x402.Keccak256(signed)) }

// The number of fields of an unsigned transaction, and the places of some.
const (
	unsignedFields = 13
	sponsorField   = 11
)

// Decode reads what Unsigned and Signed write. The signature is zero for an unsigned transaction.
func Decode(b []byte) (t Transaction, s x402.Signature, err error) {
	if len(b) == 0 || b[0] != kindTransaction && b[0] != kindSponsored {
		return t, s, errors.New("no transaction of Tempo")
	}
	list, err := rlp.Decode(b[1:])
	if err != nil {
		return t, s, err
	}
	if n := len(list.Items); !list.List || n < unsignedFields || n > unsignedFields+1 {
		return t, s, errors.New("a transaction with other fields")
	}
	if t, err = read(list.Items); err != nil {
		return t, s, err
	}
	t.Sponsored = b[0] == kindSponsored || bytes.Equal(list.Items[sponsorField].Bytes, []byte{awaitsSponsor})
	if len(list.Items) == unsignedFields {
		if again := t.Unsigned(); !bytes.Equal(again, b) {
			err = errOtherForm
		}
		return t, s, err
	}
	if signature := list.Items[unsignedFields].Bytes; len(signature) == len(s) {
		s = x402.Signature(signature)
	}
	again, err := t.Signed(s)
	if err == nil && !bytes.Equal(again, b) {
		err = errOtherForm
	}
	return t, s, err
}

var errOtherForm = errors.New("a transaction in another form than purser writes")

// read reads the fields of a transaction. Encoding it again tells whether they are all.
func read(f []rlp.Item) (t Transaction, err error) {
	number := func(i int) uint64 {
		var n uint64
		if len(f[i].Bytes) > 8 {
			err = fmt.Errorf("field %d is too great", i)
		}
		for _, b := range f[i].Bytes {
			n = n<<8 | uint64(b)
		}
		return n
	}
	t.ChainID, t.Tip, t.MaxFee, t.Gas = number(0), money.New(number(1)), money.New(number(2)), number(3)
	t.ValidBefore, t.ValidAfter = number(8), number(9)
	for _, c := range f[4].Items {
		if len(c.Items) != 3 || len(c.Items[0].Bytes) != 20 {
			return t, errors.New("a call without an address")
		}
		t.Calls = append(t.Calls, Call{To: x402.EVMAddress([20]byte(c.Items[0].Bytes)), Data: c.Items[2].Bytes})
	}
	if token := f[10].Bytes; len(token) == 20 {
		t.FeeToken = x402.EVMAddress([20]byte(token))
	}
	return t, err
}

// hexOf and parseHex write and read bytes as 0x and hex digits.
func hexOf(b []byte) string { return "0x" + hex.EncodeToString(b) }

func parseHex(s string) ([]byte, error) {
	digits, prefixed := strings.CutPrefix(s, "0x")
	b, err := hex.DecodeString(digits)
	if err != nil || !prefixed {
		return nil, errors.New("not 0x and hex digits")
	}
	return b, nil
}
