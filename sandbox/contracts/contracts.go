// Package contracts embeds the compiled contracts of the sandbox chain: purser's own substitutes for
// USDC, for Permit2 and for the proxies of x402, and Multicall3. README.md explains how they are compiled. No contract here
// runs outside the sandbox.
package contracts

import (
	_ "embed"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

//go:embed Token.json
var tokenJSON []byte

//go:embed Permit2.json
var permit2JSON []byte

//go:embed ExactProxy.json
var exactProxyJSON []byte

//go:embed UptoProxy.json
var uptoProxyJSON []byte

//go:embed Multicall3.json
var multicall3JSON []byte

// Artifact holds the parts of a compiled contract that a chain needs.
type Artifact struct {
	// ABI is the contract's JSON interface. It is empty for Multicall3, whose callers have their
	// own.
	ABI json.RawMessage `json:"abi"`
	// DeployedBytecode is the code of the account. A genesis block puts it there.
	DeployedBytecode hexutil.Bytes `json:"deployedBytecode"`
}

// Token returns the sandbox token, compiled from Token.sol.
func Token() Artifact { return parse(tokenJSON) }

// Permit2 returns the contract that moves approved tokens by signed messages, compiled from Permit2.sol.
func Permit2() Artifact { return parse(permit2JSON) }

// ExactProxy returns the only spender of Permit2 messages of scheme exact, compiled from Proxies.sol.
func ExactProxy() Artifact { return parse(exactProxyJSON) }

// UptoProxy returns the only spender of those of scheme upto, compiled from Proxies.sol.
func UptoProxy() Artifact { return parse(uptoProxyJSON) }

// Multicall3 returns the contract that payment libraries use to read several values in one call.
func Multicall3() Artifact { return parse(multicall3JSON) }

func parse(raw []byte) (a Artifact) {
	if err := json.Unmarshal(raw, &a); err != nil {
		panic(err) // an embedded file cannot become unreadable
	}
	return a
}
