package x402

import (
	"slices"

	"github.com/purserpay/purser/money"
)

// EIP-712 type strings of an EIP-3009 transfer. The fields stand in the order in which the contract
// hashes them.
const (
	domainType        = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
	authorizationType = "TransferWithAuthorization(address from,address to,uint256 value," +
		"uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)

// Authorization is the signed message that moves money: on most rails the EIP-3009 message
// TransferWithAuthorization. Once signed, any sender can use it, once, at a block time between
// ValidAfter and ValidBefore, both unix seconds. On [RailUpto] the sender is Facilitator, and Value is
// the most that it can move.
type Authorization struct {
	From        Address      `json:"from"`
	To          Address      `json:"to"`
	Value       money.Amount `json:"value"`
	ValidAfter  uint64       `json:"validAfter,string"`
	ValidBefore uint64       `json:"validBefore,string"`
	Nonce       Nonce        `json:"nonce"`
	Rail        Rail         `json:"rail,omitzero"`
	Facilitator Address      `json:"facilitator,omitzero"` // [RailUpto] only

	// Message holds what is signed on a rail that this package does not know, in the rail's own words.
	Message string `json:"message,omitzero"`
	// Height holds the block by which such an authorization dies, if that is no time. ValidBefore is then the
	// latest time at which the block can come. 0: ValidBefore counts.
	Height uint64 `json:"height,omitzero"`
}

var authorizationTypeHash = Keccak256([]byte(authorizationType))

// DomainSeparator returns the EIP-712 domain hash of a token contract.
func DomainSeparator(name, version string, chainID uint64, contract Address) [32]byte {
	return [32]byte(Keccak256(
		Keccak256([]byte(domainType)),
		Keccak256([]byte(name)),
		Keccak256([]byte(version)),
		word(chainID),
		addressWord(contract),
	))
}

// separator returns the domain hash of an asset on a chain. A pinned pair has it in the table, which
// saves most hashing of a digest.
func separator(asset Asset, chainID uint64) [32]byte {
	for _, n := range pinned {
		if n.ChainID == chainID && slices.Contains(n.Assets, asset) {
			return asset.DomainSeparator
		}
	}
	return DomainSeparator(asset.Name, asset.Version, chainID, asset.Address)
}

// Digest returns the EIP-712 hash that gets signed. Its domain is that of the asset on the chain, or
// that of Permit2. A mismatched pair therefore never yields a valid signature.
func (a Authorization) Digest(asset Asset, chainID uint64) [32]byte {
	if a.Rail.Permit2() {
		return a.permit2Digest(asset, chainID)
	}
	domain, value := separator(asset, chainID), a.Value.Bytes32()
	message := Keccak256(
		authorizationTypeHash,
		addressWord(a.From), addressWord(a.To), value[:],
		word(a.ValidAfter), word(a.ValidBefore), a.Nonce[:],
	)
	return [32]byte(Keccak256([]byte{0x19, 0x01}, domain[:], message))
}

// word returns n as an ABI uint256.
func word(n uint64) []byte {
	b := money.New(n).Bytes32()
	return b[:]
}
