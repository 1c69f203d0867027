package x402

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
)

// Functions of the token that take a signed EIP-3009 message. Any sender may call them, and pays the
// gas.
const (
	transferFunction = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
	cancelFunction   = "cancelAuthorization(address,bytes32,uint8,bytes32,bytes32)"
	cancellationType = "CancelAuthorization(address authorizer,bytes32 nonce)"
)

// TransferChallenge returns the challenge that asks for a plain transfer. A payer that sends money
// on its own account answers it, so that a facilitator takes the payload like any other.
func TransferChallenge(n Network, a Asset, to Address, amount money.Amount, valid time.Duration) (Challenge, error) {
	raw, err := json.Marshal(map[string]any{
		"scheme": "exact", "network": n.CAIP2(), "amount": amount.String(), "asset": a.Address.String(), "payTo": to.String(),
		"maxTimeoutSeconds": int(valid / time.Second), "extra": map[string]string{"name": a.Name, "version": a.Version},
	})
	if err != nil {
		return Challenge{}, fmt.Errorf("encode requirement: %w", err)
	}
	return Challenge{Version: 2, Accepts: []Requirement{decodeRequirement(raw, 2)}}, nil
}

// Call returns the data of a call of the token contract that uses the authorization.
func (a Authorization) Call(s Signature) []byte {
	value := a.Value.Bytes32()
	return slices.Concat(
		selector(transferFunction), addressWord(a.From), addressWord(a.To), value[:], word(a.ValidAfter), word(a.ValidBefore), a.Nonce[:],
		s.words(),
	)
}

// ValidAfterIn finds the call of an authorization that moved its value in the data of a transaction, also within other
// calls, and returns its ValidAfter. Only From, To, Value and Nonce of the authorization count.
func ValidAfterIn(data []byte, a Authorization) (validAfter uint64, ok bool) {
	value := a.Value.Bytes32()
	begins := slices.Concat(addressWord(a.From), addressWord(a.To), value[:])
	for rest := data; ; {
		i := bytes.Index(rest, begins)
		if i < 0 {
			return 0, false
		}
		rest = rest[i+1:]
		if words := rest[len(begins)-1:]; len(words) >= 96 && bytes.Equal(words[64:96], a.Nonce[:]) {
			return secondsIn([32]byte(words))
		}
	}
}

// Cancellation is the EIP-3009 message CancelAuthorization. Once it is used, the authorization with
// its nonce moves nothing any more. An authorization that was used before stays used.
type Cancellation struct {
	Authorizer Address `json:"authorizer"`
	Nonce      Nonce   `json:"nonce"`
}

// Digest returns the EIP-712 hash that gets signed, as that of an [Authorization].
func (c Cancellation) Digest(asset Asset, chainID uint64) [32]byte {
	domain := separator(asset, chainID)
	message := Keccak256(Keccak256([]byte(cancellationType)), addressWord(c.Authorizer), c.Nonce[:])
	return [32]byte(Keccak256([]byte{0x19, 0x01}, domain[:], message))
}

// Call returns the data of a call of the token contract that cancels the authorization.
func (c Cancellation) Call(s Signature) []byte {
	return slices.Concat(selector(cancelFunction), addressWord(c.Authorizer), c.Nonce[:], s.words())
}

// words returns v, r and s as contracts take them.
func (s Signature) words() []byte { return slices.Concat(word(uint64(s[64])), s[:64]) }

// selector begins the data of a call: the first bytes of the hash of the function.
func selector(function string) []byte { return Keccak256([]byte(function))[:4] }

func addressWord(a Address) []byte { return append(make([]byte, 12), a.evm[:]...) }
