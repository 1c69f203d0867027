package official

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/x402"
)

// Seller is one that runs.
type Seller struct {
	*process.Process
	// PayTo receives the money of this seller and of no other. It has no known private key.
	PayTo x402.Address
	URL   string `json:"url"`
	TLS   string `json:"tls"`
	// Taken is held by a test that has the seller alone.
	Taken sync.Mutex
}

// Seller returns the seller of a name, which runs as long as the tests do. command starts it, with more variables than
// those of the town.
func (w *Town) Seller(t testing.TB, name string, command []string, settings ...string) *Seller {
	t.Helper()
	w.mu.Lock()
	start := w.sellers[name]
	if start == nil {
		start = sync.OnceValues(func() (*Seller, error) { return w.start(name, command, settings) })
		w.sellers[name] = start
	}
	w.mu.Unlock()
	s, err := start()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// start starts a seller, which says in its first line where it is.
func (w *Town) start(name string, command, settings []string) (*Seller, error) {
	s := &Seller{PayTo: x402.EVMAddress([20]byte(crypto.Keccak256([]byte(name))[12:]))}
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec // a seller of the tests
	cmd.Env = append(process.Environment(settings...), "FACILITATOR_URL="+w.Money.FacilitatorURL(), "PAY_TO="+s.PayTo.String(),
		"TLS_CERT="+w.Certificates.File, "TLS_KEY="+w.Certificates.KeyFile)
	p, line, err := process.Announced(cmd, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.running = append(w.running, p)
	w.mu.Unlock()
	s.Process = p
	if err := json.Unmarshal([]byte(line), s); err != nil {
		return nil, fmt.Errorf("its first line is %q: %w", line, err)
	}
	return s, nil
}

// Under is an address with a name in place of the host.
func Under(t testing.TB, name, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = name + ":" + u.Port()
	return u.String()
}

// Node returns a Node.js whose fetch heeds the proxy variables: the one among the packages of e2e/peers.
func Node(t testing.TB) string {
	t.Helper()
	path := node()
	if path == "" {
		needed.Missing(t, "no Node 24 in e2e/peers, run `make e2e-deps`")
	}
	return path
}

var node = sync.OnceValue(func() string {
	found, _ := filepath.Glob(filepath.Join(process.Root(), "e2e", "peers", "node_modules", "node-*", "bin", "node")) // the pattern is one
	for _, path := range found {
		if exec.Command(path, "--version").Run() == nil { // else it is for another kind of machine
			return path
		}
	}
	return ""
})

// Behind is a client's command behind `purser exec` of a key.
func (w *Town) Behind(p *process.Purser, key string, command []string, settings ...string) *exec.Cmd {
	cmd := exec.Command(p.Binary, append([]string{"exec", "--admin", p.Admin(), "--key", key, "--proxy", "http://" + p.Host(), "--"}, command...)...) //nolint:gosec // a client of the tests
	cmd.Env = p.Environment(append(settings, "XDG_CACHE_HOME="+filepath.Join(w.Dir, "cache"))...)
	return cmd
}

// Results runs a client's command to its end, with few others beside it, and reads its n results.
func Results[R any](t testing.TB, w *Town, cmd *exec.Cmd, patience time.Duration, n int) []R {
	t.Helper()
	w.turns <- struct{}{}
	defer func() { <-w.turns }()
	return process.Results[R](t, cmd, patience, n)
}
