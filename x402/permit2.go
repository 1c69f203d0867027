package x402

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/purserpay/purser/money"
)

// The proxies, which are at the same addresses on every network, as [Permit2] is.
var (
	// ExactProxy (x402ExactPermit2Proxy) has Permit2 move the signed amount to the signed payee.
	ExactProxy = must(ParseAddress("0x402085c248EeA27D92E8b30b2C58ed07f9E20001"))
	// UptoProxy (x402UptoPermit2Proxy) has it move up to that amount, and obeys the signed facilitator
	// only.
	UptoProxy = must(ParseAddress("0x4020A4f3b7b90ccA423B9fabCc0CE57C6C240002"))
)

// EIP-712 type strings of a Permit2 transfer. The domain has no version.
const (
	permit2DomainName = "Permit2"
	permit2DomainType = "EIP712Domain(string name,uint256 chainId,address verifyingContract)"
	permitType        = "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,Witness witness)" +
		tokenPermissionsType
	tokenPermissionsType = "TokenPermissions(address token,uint256 amount)"
	exactWitnessType     = "Witness(address to,uint256 validAfter)"
	uptoWitnessType      = "Witness(address to,address facilitator,uint256 validAfter)"
)

// spender returns the proxy that alone may use the authorization.
func (a Authorization) spender() Address {
	if a.Rail == RailUpto {
		return UptoProxy
	}
	return ExactProxy
}

// deadline returns the last second at which Permit2 takes the authorization. The token takes an
// EIP-3009 one before ValidBefore, and Permit2 takes one at its deadline as well.
func (a Authorization) deadline() uint64 {
	if a.ValidBefore == 0 {
		return 0
	}
	return a.ValidBefore - 1
}

// NonceSlot returns where Permit2 keeps whether the nonce is used: the word of the owner's bitmap, and
// the bit of that word.
func (a Authorization) NonceSlot() (word [32]byte, bit uint) {
	copy(word[1:], a.Nonce[:31])
	return word, uint(a.Nonce[31])
}

// invalidateFunction is the one of Permit2 by which an owner gives nonces up.
const invalidateFunction = "invalidateUnorderedNonces(uint256,uint256)"

// GiveUpCall returns the data of a call of Permit2 after which the authorization moves nothing any more.
// The owner must send it. An authorization that was used before stays used.
func (a Authorization) GiveUpCall() []byte {
	place, bit := a.NonceSlot()
	var mask [32]byte
	mask[31-bit/8] = 1 << (bit % 8)
	return slices.Concat(selector(invalidateFunction), place[:], mask[:])
}

// permit2Digest returns the EIP-712 hash of a message to Permit2.
func (a Authorization) permit2Digest(asset Asset, chainID uint64) [32]byte {
	domain := Keccak256(
		Keccak256([]byte(permit2DomainType)), Keccak256([]byte(permit2DomainName)), word(chainID), addressWord(Permit2),
	)
	value, witness := a.Value.Bytes32(), exactWitnessType
	parts := [][]byte{nil, addressWord(a.To), word(a.ValidAfter)}
	if a.Rail == RailUpto {
		witness = uptoWitnessType
		parts = [][]byte{nil, addressWord(a.To), addressWord(a.Facilitator), word(a.ValidAfter)}
	}
	parts[0] = Keccak256([]byte(witness))
	message := Keccak256(
		Keccak256([]byte(permitType+witness)),
		Keccak256(Keccak256([]byte(tokenPermissionsType)), addressWord(asset.Address), value[:]),
		addressWord(a.spender()), a.Nonce[:], word(a.deadline()),
		Keccak256(parts...),
	)
	return [32]byte(Keccak256([]byte{0x19, 0x01}, domain, message))
}

// permit2TypedData returns the message whose hash is permit2Digest.
func (a Authorization) permit2TypedData(asset Asset, chainID uint64) TypedData {
	const primary = "PermitWitnessTransferFrom"
	types := map[string][]TypedField{
		primary: {
			{"permitted", "TokenPermissions"},
			{"spender", "address"},
			{"nonce", "uint256"},
			{"deadline", "uint256"},
			{"witness", "Witness"},
		},
		"TokenPermissions": {{"token", "address"}, {"amount", "uint256"}},
		"Witness":          {{"to", "address"}, {"validAfter", "uint256"}},
	}
	witness := map[string]any{"to": a.To.String(), "validAfter": strconv.FormatUint(a.ValidAfter, 10)}
	if a.Rail == RailUpto {
		types["Witness"] = []TypedField{{"to", "address"}, {"facilitator", "address"}, {"validAfter", "uint256"}}
		witness["facilitator"] = a.Facilitator.String()
	}
	domain := TypedDomain{Name: permit2DomainName, ChainID: chainID, VerifyingContract: Permit2}
	return NewTypedData(domain, primary, types, map[string]any{
		"permitted": map[string]any{"token": asset.Address.String(), "amount": a.Value.String()},
		"spender":   a.spender().String(), "nonce": a.Nonce.decimal(), "deadline": strconv.FormatUint(a.deadline(), 10),
		"witness": witness,
	})
}

// decimal returns the nonce as the number that Permit2 takes it for.
func (n Nonce) decimal() string { return new(big.Int).SetBytes(n[:]).String() }

// nonceOf reads what decimal writes.
func nonceOf(text string) (n Nonce, err error) {
	number, err := money.Parse(text)
	return number.Bytes32(), err
}

// appendPermit2 appends the JSON of a signed message to Permit2. No value needs escaping.
func appendPermit2(out []byte, a Authorization, token Address, s Signature) []byte {
	out = append(append(out, `{"signature":"`...), s.String()...)
	out = append(append(out, `","permit2Authorization":{"from":"`...), a.From.String()...)
	out = append(append(out, `","permitted":{"token":"`...), token.String()...)
	out = append(append(out, `","amount":"`...), a.Value.String()...)
	out = append(append(out, `"},"spender":"`...), a.spender().String()...)
	out = append(append(out, `","nonce":"`...), a.Nonce.decimal()...)
	out = strconv.AppendUint(append(out, `","deadline":"`...), a.deadline(), 10)
	out = append(append(out, `","witness":{"to":"`...), a.To.String()...)
	if a.Rail == RailUpto {
		out = append(append(out, `","facilitator":"`...), a.Facilitator.String()...)
	}
	out = strconv.AppendUint(append(out, `","validAfter":"`...), a.ValidAfter, 10)
	return append(out, `"}}}`...)
}

// readPermit2 reads the message that appendPermit2 writes. The spender tells its rail.
func readPermit2(message json.RawMessage) (a Authorization, err error) {
	fields, err := members(message)
	if err != nil {
		return a, err
	}
	permitted, err := members(fields.value("permitted"))
	if err != nil {
		return a, &FieldError{"permitted", err.Error()}
	}
	witness, err := members(fields.value("witness"))
	if err != nil {
		return a, &FieldError{"witness", err.Error()}
	}
	var errs [9]error
	var spender Address
	a.From, errs[0] = parsed(fields, "from", ParseAddress)
	_, errs[1] = parsed(permitted, "token", ParseAddress)
	a.Value, errs[2] = parsed(permitted, "amount", money.Parse)
	spender, errs[3] = parsed(fields, "spender", ParseAddress)
	a.Nonce, errs[4] = parsed(fields, "nonce", nonceOf)
	a.ValidBefore, errs[5] = parsed(fields, "deadline", parseSeconds)
	a.To, errs[6] = parsed(witness, "to", ParseAddress)
	a.ValidAfter, errs[7] = parsed(witness, "validAfter", parseSeconds)
	switch spender {
	case ExactProxy:
		a.Rail = RailPermit2
	case UptoProxy:
		a.Rail = RailUpto
		a.Facilitator, errs[8] = parsed(witness, "facilitator", ParseAddress)
	default:
		errs[8] = errors.New("the spender is no proxy of x402")
	}
	if a.ValidBefore == math.MaxUint64 {
		return a, errors.New("deadline: not a unix time in seconds")
	}
	a.ValidBefore++
	return a, errors.Join(errs[:]...)
}
