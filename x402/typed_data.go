package x402

import "strconv"

// TypedData is an EIP-712 message in the JSON form of eth_signTypedData_v4. Signers that do not take
// a digest take this form. Numbers of 256 bits are decimal strings in Message, addresses and bytes
// are 0x-hex.
type TypedData struct {
	Types       map[string][]TypedField `json:"types"`
	PrimaryType string                  `json:"primaryType"`
	Domain      TypedDomain             `json:"domain"`
	Message     map[string]any          `json:"message"`
}

// TypedField is one member of an EIP-712 struct type.
type TypedField struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// TypedDomain names the contract and the chain that a message is for. A contract without a version,
// such as Permit2, has Version "".
type TypedDomain struct {
	Name              string  `json:"name"`
	Version           string  `json:"version,omitempty"`
	ChainID           uint64  `json:"chainId"`
	VerifyingContract Address `json:"verifyingContract"`
}

// domainTypeName is the name that EIP-712 gives to the type of a domain.
const domainTypeName = "EIP712Domain"

// Fields returns the members of the domain's own type: those that it has.
func (d TypedDomain) Fields() []TypedField {
	fields := []TypedField{{"name", "string"}}
	if d.Version != "" {
		fields = append(fields, TypedField{"version", "string"})
	}
	return append(fields, TypedField{"chainId", "uint256"}, TypedField{"verifyingContract", "address"})
}

// NewTypedData returns typed data whose Types also have that of the domain.
func NewTypedData(domain TypedDomain, primary string, types map[string][]TypedField, message map[string]any) TypedData {
	all := map[string][]TypedField{domainTypeName: domain.Fields()}
	for name, fields := range types {
		all[name] = fields
	}
	return TypedData{Types: all, PrimaryType: primary, Domain: domain, Message: message}
}

// authorizationFields has the members of authorizationType.
var authorizationFields = []TypedField{
	{"from", "address"},
	{"to", "address"},
	{"value", "uint256"},
	{"validAfter", "uint256"},
	{"validBefore", "uint256"},
	{"nonce", "bytes32"},
}

// TypedData returns the message whose EIP-712 hash is [Authorization.Digest] of the same asset and
// chain.
func (a Authorization) TypedData(asset Asset, chainID uint64) TypedData {
	if a.Rail.Permit2() {
		return a.permit2TypedData(asset, chainID)
	}
	const primary = "TransferWithAuthorization"
	return NewTypedData(domainOf(asset, chainID), primary, map[string][]TypedField{primary: authorizationFields}, map[string]any{
		"from": a.From.String(), "to": a.To.String(), "value": a.Value.String(),
		"validAfter": strconv.FormatUint(a.ValidAfter, 10), "validBefore": strconv.FormatUint(a.ValidBefore, 10),
		"nonce": a.Nonce.String(),
	})
}

// TypedData returns the message whose EIP-712 hash is [Cancellation.Digest] of the same asset and
// chain.
func (c Cancellation) TypedData(asset Asset, chainID uint64) TypedData {
	const primary = "CancelAuthorization"
	fields := []TypedField{{"authorizer", "address"}, {"nonce", "bytes32"}}
	return NewTypedData(domainOf(asset, chainID), primary, map[string][]TypedField{primary: fields}, map[string]any{
		"authorizer": c.Authorizer.String(), "nonce": c.Nonce.String(),
	})
}

// domainOf returns the domain of a token on a chain.
func domainOf(asset Asset, chainID uint64) TypedDomain {
	return TypedDomain{Name: asset.Name, Version: asset.Version, ChainID: chainID, VerifyingContract: asset.Address}
}
