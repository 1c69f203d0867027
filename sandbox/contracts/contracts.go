// Package contracts holds the contracts of the sandbox chain as compiled artifacts: Token.sol, purser's own stand-in
// for USDC, and Multicall3. README.md says how the artifacts come about. Nothing here runs outside the sandbox.
package contracts

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

//go:embed Token.json
var tokenJSON []byte

//go:embed Multicall3.json
var multicall3JSON []byte

// Artifact is what a chain needs of a compiled contract.
type Artifact struct {
	// ABI is the contract's JSON interface; empty for Multicall3, whose callers bring their own.
	ABI json.RawMessage `json:"abi"`
	// DeployedBytecode is the code that an account runs, to be placed by a genesis allocation.
	DeployedBytecode hexutil.Bytes `json:"deployedBytecode"`
}

// Token returns the sandbox token, compiled from Token.sol.
func Token() (Artifact, error) { return parse("Token", tokenJSON) }

// Multicall3 returns the contract that payment libraries use to read several values in one call.
func Multicall3() (Artifact, error) { return parse("Multicall3", multicall3JSON) }

func parse(name string, raw []byte) (Artifact, error) {
	var a Artifact
	if err := json.Unmarshal(raw, &a); err != nil {
		return Artifact{}, fmt.Errorf("read the artifact of %s: %w", name, err)
	}
	if len(a.DeployedBytecode) == 0 {
		return Artifact{}, fmt.Errorf("the artifact of %s has no code", name)
	}
	return a, nil
}
