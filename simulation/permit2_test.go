package simulation

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// habits says how transfers by Permit2 come to the chain.
type habits struct {
	// dust counts the transfers of nothing in the block of each settlement. The next block has some, too.
	dust int
	// relayed: another contract calls x402's proxies.
	relayed bool
}

var (
	// facilitatorAddress is the account that settles payments of scheme upto.
	facilitatorAddress = must(x402.ParseAddress("0xFac1117A00000000000000000000000000000001"))
	// relayAddress is a contract that calls others.
	relayAddress = must(x402.ParseAddress("0xc0de000000000000000000000000000000005E1A"))
	// falseToken is a stranger's contract, whose logs say whatever the stranger likes.
	falseToken = must(x402.ParseAddress("0xFa15e0000000000000000000000000000000F415"))
)

// dust is a transfer that a stranger makes: of nothing, which the token takes from anyone, or of a false token.
type dust struct {
	token, from, to x402.Address
	value           money.Amount
	transaction
}

// scatter makes dust around a settlement. It must be called with the lock.
func (l *ledger) scatter(a x402.Authorization, value money.Amount, block uint64) {
	if l.habits.dust == 0 || !a.Rail.Permit2() {
		return
	}
	for range l.habits.dust {
		l.strew(dust{token: l.asset.Address, from: a.From, to: a.To}, block)
	}
	for range l.habits.dust/10 + 1 {
		l.strew(dust{token: l.asset.Address, from: a.From, to: a.To}, block+1)
	}
	l.strew(dust{token: falseToken, from: a.From, to: a.To, value: value}, block)
}

func (l *ledger) strew(d dust, block uint64) {
	d.transaction = l.submit(block)
	d.transaction.to = d.token
	d.input = callData("23b872dd", wordOf(d.from.Bytes()), wordOf(d.to.Bytes()), d.value.Bytes32()) // transferFrom(address,address,uint256)
	l.dust = append(l.dust, d)
}

// next returns the block that an authorization is settled in. For two settlements of a relay in one block purser books
// the larger amount for both, so they come apart. It must be called with the lock.
func (l *ledger) next(a x402.Authorization) uint64 {
	block := l.head() + 1
	for _, m := range l.moves {
		if l.habits.relayed && a.Rail.Permit2() && m.authorization.Rail.Permit2() {
			block = max(block, m.block+1)
		}
	}
	return block
}

// callOf returns the call that uses an authorization.
func (l *ledger) callOf(a x402.Authorization, s x402.Signature, value money.Amount) (to x402.Address, input []byte) {
	if !a.Rail.Permit2() {
		return l.asset.Address, a.Call(s)
	}
	number := func(n uint64) [32]byte { return money.New(n).Bytes32() }
	words := [][32]byte{wordOf(l.asset.Address.Bytes()), a.Value.Bytes32(), a.Nonce, number(a.ValidBefore - 1)}
	to = x402.ExactProxy
	if a.Rail == x402.RailUpto {
		to = x402.UptoProxy
		words = append(words, value.Bytes32())
	}
	words = append(words, wordOf(a.From.Bytes()), wordOf(a.To.Bytes()))
	if a.Rail == x402.RailUpto {
		words = append(words, wordOf(a.Facilitator.Bytes()))
	}
	words = append(words, number(a.ValidAfter))
	if l.habits.relayed {
		to = relayAddress
	}
	return to, append(callData("5e771e00", words...), s[:]...)
}

// callData returns the data of a call.
func callData(selector string, words ...[32]byte) []byte {
	data := must(hex.DecodeString(selector))
	for _, w := range words {
		data = append(data, w[:]...)
	}
	return data
}

func wordOf(b []byte) (w [32]byte) {
	copy(w[32-len(b):], b)
	return w
}

// bits returns a word of Permit2's bitmap at a block. It must be called with the lock.
func (l *ledger) bits(owner x402.Address, word [32]byte, block uint64) (bits [32]byte) {
	for _, m := range l.moves {
		place, bit := m.authorization.NonceSlot()
		if m.authorization.Rail.Permit2() && m.authorization.From == owner && place == word && m.block <= block {
			bits[31-bit/8] |= 1 << (bit % 8)
		}
	}
	return bits
}

// railOf tells how the seller of an order wants to be paid.
func (m mix) railOf(order int) x402.Rail { return m.rails[order%len(m.rails)] }

// charged draws what a seller takes of an authorization.
func (m mix) charged(a x402.Authorization, luck *rand.Rand) money.Amount {
	if a.Rail != x402.RailUpto {
		return a.Value
	}
	all := a.Value.Big().Uint64()
	return money.New([]uint64{all, all/2 + luck.Uint64N(all/2), m.least * (1 + luck.Uint64N(all-1))}[luck.IntN(3)])
}

// accepts returns how the seller of an order wants to be paid, as a member of its challenge.
func (m mix) accepts(order int) map[string]any {
	scheme, extra := x402.SchemeExact, map[string]string{"name": "USD Coin", "version": "2"}
	switch m.railOf(order) {
	case x402.RailEIP3009, x402.OtherRails:
	case x402.RailPermit2:
		extra["assetTransferMethod"] = "permit2"
	case x402.RailUpto:
		scheme, extra["facilitatorAddress"] = x402.SchemeUpto, facilitatorAddress.String()
	}
	return map[string]any{
		"scheme": scheme, "network": "eip155:8453", "amount": fmt.Sprint(priceOf(order)), "payTo": sellerAddress,
		"asset": "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "maxTimeoutSeconds": 60, "extra": extra,
	}
}

// spentReason is a seller's word for an authorization that is used.
func spentReason(a x402.Authorization) string {
	if a.Rail.Permit2() {
		return "permit2_invalid_nonce"
	}
	return "invalid_exact_evm_nonce_already_used"
}

// railMix says by which rails a run pays, and what makes settlements hard to find.
type railMix struct {
	rails []x402.Rail
	// least is 0 if sellers of scheme upto may take nothing.
	least uint64
	habits
	limits
}

// manyDust is more than an RPC tells of in all looks at a payment.
const manyDust = 300

// drawRails draws the rails of a run, and what makes settlements hard to find.
func drawRails(luck *rand.Rand) (m railMix) {
	m.rails = [][]x402.Rail{
		{x402.RailEIP3009}, {x402.RailEIP3009, x402.RailPermit2, x402.RailUpto}, {x402.RailUpto}, {x402.RailPermit2, x402.RailUpto},
	}[luck.IntN(4)]
	m.least = 1
	if !slices.Contains(m.rails, x402.RailUpto) {
		return m
	}
	m.dust = []int{0, 0, 5, manyDust}[luck.IntN(4)]
	m.pruned = luck.IntN(3) == 0
	m.relayed = !m.pruned && luck.IntN(3) == 0
	m.mostLogs = []int{0, 0, 20}[luck.IntN(3)]
	m.lookups = []int{0, 4}[luck.IntN(2)]
	if !m.pruned && m.dust < manyDust { // else a settlement of nothing is not found
		m.least = uint64(luck.IntN(2))
	}
	return m
}
