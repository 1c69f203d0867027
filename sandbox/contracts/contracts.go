// Package contracts embeds the compiled contracts of the sandbox chain: Token.sol, purser's own
// substitute for USDC, and Multicall3. README.md explains how they are compiled. No contract here
// runs outside the sandbox.
package contracts

import (
	_ "embed"
	"encoding/json"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

//go:embed Token.json
var tokenJSON []byte

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

// Multicall3 returns the contract that payment libraries use to read several values in one call.
func Multicall3() Artifact { return parse(multicall3JSON) }

func parse(raw []byte) (a Artifact) {
	if err := json.Unmarshal(raw, &a); err != nil {
		panic(err) // an embedded file cannot become unreadable
	}
	return a
}
