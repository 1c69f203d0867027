package x402

import (
	"bytes"
	"math"

	"github.com/purserpay/purser/money"
)

// Permit2Use is the use of an authorization, as the data of a call of a proxy tells it.
type Permit2Use struct {
	Authorization Authorization // ValidBefore is one second after the deadline
	Moved         money.Amount  // of its Value
}

// Words of a proxy's call, counted from the token. After the deadline the upto proxy has the amount to
// move, and in its witness the facilitator. settle and settleWithPermit have them in the same order,
// so they are found also in the call of another contract that calls the proxy.
const (
	permitWords = 4 // token, amount, nonce, deadline
	exactWords  = permitWords + 3
	uptoWords   = permitWords + 5
)

// Permit2Uses lists what could be uses of authorizations in the data of a transaction: the layout is
// that of a proxy's call. Only the transfer in its logs shows that one of them moved money.
func Permit2Uses(token Address, input []byte) (uses []Permit2Use) {
	mark := addressWord(token)
	for at := 0; ; at++ {
		next := bytes.Index(input[at:], mark)
		if next < 0 {
			return uses
		}
		at += next
		words := wordsOf(input[at:])
		if u, ok := exactUse(words); ok {
			uses = append(uses, u)
		}
		if u, ok := uptoUse(words); ok {
			uses = append(uses, u)
		}
	}
}

// wordsOf splits data into words, of which a call of a proxy has at most uptoWords.
func wordsOf(data []byte) (words [][32]byte) {
	for ; len(data) >= 32 && len(words) < uptoWords; data = data[32:] {
		words = append(words, [32]byte(data))
	}
	return words
}

func exactUse(w [][32]byte) (u Permit2Use, ok bool) {
	if len(w) < exactWords {
		return u, false
	}
	a, ok := permitted(w, RailPermit2, w[4], w[5], w[6])
	return Permit2Use{Authorization: a, Moved: a.Value}, ok
}

func uptoUse(w [][32]byte) (u Permit2Use, ok bool) {
	if len(w) < uptoWords {
		return u, false
	}
	a, ok := permitted(w, RailUpto, w[5], w[6], w[8])
	facilitator, isAddress := addressIn(w[7])
	a.Facilitator = facilitator
	u = Permit2Use{Authorization: a, Moved: money.FromBytes32(w[4])}
	return u, ok && isAddress && u.Moved.Cmp(a.Value) <= 0
}

// permitted reads the words of a permit, and those behind it.
func permitted(w [][32]byte, rail Rail, owner, to, validAfter [32]byte) (a Authorization, ok bool) {
	from, hasOwner := addressIn(owner)
	payee, hasPayee := addressIn(to)
	after, hasAfter := secondsIn(validAfter)
	deadline, hasDeadline := secondsIn(w[3])
	ok = hasOwner && hasPayee && hasAfter && hasDeadline && deadline < math.MaxUint64
	return Authorization{
		From: from, To: payee, Value: money.FromBytes32(w[1]), ValidAfter: after, ValidBefore: deadline + 1, Nonce: w[2], Rail: rail,
	}, ok
}

func addressIn(w [32]byte) (a Address, ok bool) {
	a = EVMAddress([20]byte(w[12:]))
	return a, bytes.Equal(w[:], addressWord(a))
}

func secondsIn(w [32]byte) (uint64, bool) {
	n := money.FromBytes32(w).Big()
	return n.Uint64(), n.IsUint64()
}
