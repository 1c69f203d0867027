package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// peerReady is the first line that a listening peer prints.
type peerReady struct{ URL, TLS string }

// startPeer starts one of the programs in peers and returns where it listens.
func startPeer(script string, environment map[string]string) (*process.Process, peerReady, error) {
	p, line, err := process.Announced(peerCommand(context.Background(), script, environment), func(string) bool { return true })
	if err != nil {
		return nil, peerReady{}, fmt.Errorf("%s: %w", script, err)
	}
	var ready peerReady
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		p.Kill()
		return nil, ready, fmt.Errorf("%s: first line %q: %w", script, line, err)
	}
	return p, ready, nil
}

// runPeer runs one of the programs in peers to its end and decodes the line that it prints.
func runPeer(t *testing.T, script string, environment map[string]string, answer any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := peerCommand(ctx, script, environment)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, stderr.String())
	}
	if err := json.Unmarshal(out, answer); err != nil {
		t.Fatalf("%s printed %q: %v", script, out, err)
	}
}

func peerCommand(ctx context.Context, script string, environment map[string]string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", filepath.Join("peers", script))
	cmd.Env = process.Environment(assignments(environment)...)
	return cmd
}

func assignments(environment map[string]string) (list []string) {
	for name, value := range environment {
		list = append(list, name+"="+value)
	}
	return list
}
