package tempo

import (
	"bytes"
	"encoding/hex"
	"slices"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// Memo goes with a transfer, and is a topic of its log.
type Memo = x402.Nonce

// ClientSize is the length of the client's part of a memo.
const ClientSize = 10

// memoVersion is that of the memos of MPP.
const memoVersion = 1

var memoTag = x402.Keccak256([]byte("mpp"))[:4]

// Attribution returns the memo that binds a transfer to a challenge of MPP. The client's part tells its payments
// apart: two challenges can have one id.
func Attribution(realm, id string, client [ClientSize]byte) (m Memo) {
	parts := slices.Concat(memoTag, []byte{memoVersion}, x402.Keccak256([]byte(realm))[:10], client[:], x402.Keccak256([]byte(id))[:7])
	copy(m[:], parts)
	return m
}

// Attributed reports whether a memo is one of MPP, and returns the client's part.
func Attributed(m Memo) (client [ClientSize]byte, is bool) {
	copy(client[:], m[15:])
	return client, bytes.HasPrefix(m[:], append(slices.Clone(memoTag), memoVersion))
}

// Transfer moves tokens of the sender. A zero memo: none.
type Transfer struct {
	To     x402.Address
	Amount money.Amount
	Memo   Memo
}

// Selectors of the token (TIP-20).
var (
	selectorTransfer = must(hex.DecodeString("a9059cbb")) // transfer(address,uint256)
	selectorWithMemo = must(hex.DecodeString("95777d59")) // transferWithMemo(address,uint256,bytes32)
)

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err) // a constant
	}
	return b
}

// Call returns the call of the token that makes the transfer.
func (t Transfer) Call(token x402.Address) Call {
	value := t.Amount.Bytes32()
	args := slices.Concat(make([]byte, 12), t.To.Bytes(), value[:])
	if t.Memo == (Memo{}) {
		return Call{token, slices.Concat(selectorTransfer, args)}
	}
	return Call{token, slices.Concat(selectorWithMemo, args, t.Memo[:])}
}

// transferIn reads what Transfer.Call writes.
func transferIn(c Call) (t Transfer, ok bool) {
	const words = 4 + 32 + 32
	if len(c.Data) != words && len(c.Data) != words+32 {
		return t, false
	}
	t.To, t.Amount = x402.EVMAddress([20]byte(c.Data[16:36])), money.FromBytes32([32]byte(c.Data[36:68]))
	if len(c.Data) > words {
		t.Memo = Memo(c.Data[words:])
	}
	again := t.Call(c.To)
	return t, bytes.Equal(again.Data, c.Data)
}
