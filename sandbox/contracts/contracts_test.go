package contracts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// Token.json must be compiled again after a change of Token.sol. build.mjs --check compares the
// rest.
func TestTokenIsCompiledFromItsSource(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("Token.sol")
	if err != nil {
		t.Fatal(err)
	}
	var artifact struct {
		SourceSha256 string `json:"sourceSha256"`
	}
	if err := json.Unmarshal(tokenJSON, &artifact); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != artifact.SourceSha256 {
		t.Error(`Token.json was compiled from another Token.sol; run "node build.mjs"`)
	}
}
