package docs

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

const (
	commandTime = 90 * time.Second // one block
	fetchTime   = 5 * time.Minute  // one that fetches packages
	bookTime    = 10 * time.Second // until the books have what was paid
)

// binaries makes a folder with purser and purser-sandbox: those that are named, else new ones.
func binaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"purser", "purser-sandbox"} {
		if err := os.Symlink(process.Program(t, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// sandbox is a running purser-sandbox.
type sandbox struct {
	*process.Sandbox
	keyID string
}

func startSandbox(t *testing.T, bin string) *sandbox {
	t.Helper()
	s := &sandbox{Sandbox: process.StartSandbox(t, nil, nil)}
	s.keyID = s.findKey(t, bin)
	return s
}

// findKey is the id of the sandbox's key, which is not the one of `purser exec`.
func (s *sandbox) findKey(t *testing.T, bin string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(bin, "purser"), "keys", "--json", "--admin", s.Admin)
	text, err := c.Output()
	if err != nil {
		t.Fatalf("purser keys: %v", err)
	}
	var list struct{ Keys []struct{ ID, Label string } }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, k := range list.Keys {
		if k.Label != "exec" {
			return k.ID
		}
	}
	t.Fatalf("no key: %s", text)
	return ""
}

// challenge returns the seller's challenge.
func (s *sandbox) challenge(t *testing.T) string {
	t.Helper()
	got, err := process.Ask(t.Context(), http.DefaultClient, http.MethodGet, "http://127.0.0.1:"+portOf(t, s.Seller)+"/weather", "")
	if err != nil {
		t.Fatal(err)
	}
	return got.Header.Get("Payment-Required")
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		t.Fatalf("no port in %q", address)
	}
	return u.Port()
}
