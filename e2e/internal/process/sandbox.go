package process

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Sandbox is a running purser-sandbox, with what it says of itself when it is told -json.
type Sandbox struct {
	*Process
	API, Proxy, Key, Wallet, Seller, Facilitator, RPC, Metrics, Data string

	SellerTLS string `json:"seller_tls"`
	Token     string // the contract's address
	CA        string // file of the root that opens HTTPS
	Admin     string // unix/ and the socket's path
}

// StartSandbox starts purser-sandbox with arguments, and with variables beside those of every
// program. The test ends it, and fails if it does not end well.
func StartSandbox(t testing.TB, arguments, variables []string) *Sandbox {
	t.Helper()
	cmd := exec.Command(Program(t, Offline), append([]string{"-json", "-port", "0"}, arguments...)...)
	cmd.Dir, cmd.Env = t.TempDir(), Environment(variables...)
	p, line, err := Announced(cmd, func(line string) bool { return strings.HasPrefix(line, "{") })
	if err != nil {
		t.Fatal(err)
	}
	p.Cleanup(t)
	s := &Sandbox{Process: p}
	if err := json.Unmarshal([]byte(line), s); err != nil {
		t.Fatalf("purser-sandbox said %q: %v", line, err)
	}
	return s
}

// AdminClient returns a client of the admin endpoint, whatever host a URL names.
func (s *Sandbox) AdminClient() *http.Client {
	return AdminClient(strings.TrimPrefix(s.Admin, "unix/"))
}

// AdminClient returns a client of the admin endpoint at a socket, whatever host a URL names.
func AdminClient(socket string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
}
