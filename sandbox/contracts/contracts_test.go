package contracts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

// An artifact must be compiled again after a change of its source. build.mjs --check compares the
// rest.
func TestArtifactsAreCompiledFromTheirSources(t *testing.T) {
	t.Parallel()
	for _, compiled := range [][]byte{tokenJSON, permit2JSON, exactProxyJSON, uptoProxyJSON} {
		var artifact struct{ Source, SourceSha256 string }
		if err := json.Unmarshal(compiled, &artifact); err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(artifact.Source)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != artifact.SourceSha256 {
			t.Errorf(`an artifact was compiled from another %s; run "node build.mjs"`, artifact.Source)
		}
	}
}
