package process

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/x402"
)

// NewKey makes a key with a wallet as an operator does, who may make more in a minute than a stranger.
func NewKey(t testing.TB, p *Purser) (secret string, wallet x402.Address) {
	t.Helper()
	var made adminapi.CreatedKey
	out := p.Must(t, "keys", "create", "--label", strings.ReplaceAll(t.Name(), "/", " "), "--daily-budget", "1", "--wallet", "new", "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil || made.Address == nil {
		t.Fatalf("%v: %s", err, out)
	}
	wallet, err := x402.ParseAddress(*made.Address)
	if err != nil {
		t.Fatal(err)
	}
	return made.Key, wallet
}

// Results runs a client's command to its end, and reads the n lines of JSON that it prints. It ends a client that takes
// longer than patience.
func Results[R any](t testing.TB, cmd *exec.Cmd, patience time.Duration, n int) (results []R) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	stop()
	if err != nil {
		t.Fatalf("the client: %v\n%s\n%s", err, stdout.String(), ends(stderr.String()))
	}
	for line := range strings.Lines(stdout.String()) {
		var r R
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("the client said %q: %v", line, err)
		}
		results = append(results, r)
	}
	if len(results) != n {
		t.Fatalf("%d results, want %d\n%s", len(results), n, ends(stderr.String()))
	}
	return results
}

// ends returns the last lines of a text.
func ends(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
