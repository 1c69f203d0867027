package e2e

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/purserpay/purser/e2e/internal/process"
)

// sandboxProcess is a running purser-sandbox and what it says of itself.
type sandboxProcess struct {
	*process.Process
	API, Proxy, Key, Wallet, Seller, Facilitator, RPC, Token, Data string

	mu    sync.Mutex
	lines []string // of standard output
}

// startSandbox starts purser-sandbox on free ports and returns when it has printed a line with the given text.
func startSandbox(t *testing.T, ready string, arguments ...string) *sandboxProcess {
	t.Helper()
	cmd := exec.Command(process.Program(t, process.Offline), append(arguments, "-port", "0")...)
	cmd.Dir = t.TempDir()
	cmd.Env = process.Environment()
	s := &sandboxProcess{}
	s.Process = process.Start(t, cmd, func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, line)
	})
	process.Eventually(t, 60*time.Second, func() string {
		if said := strings.Join(s.said(), "\n"); !strings.Contains(said, ready) {
			return fmt.Sprintf("no %q in what was printed: %s", ready, said)
		}
		return ""
	})
	return s
}

func (s *sandboxProcess) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

// payer is the key that the sandbox made, at the proxy that it names.
func (s *sandboxProcess) payer(t *testing.T) *payer {
	t.Helper()
	proxy, err := url.Parse(s.Proxy)
	if err != nil || proxy.Host == "" {
		t.Fatalf("proxy %q: %v", s.Proxy, err)
	}
	return &payer{proxy.Host, s.Key, common.HexToAddress(s.Wallet), nil}
}

// balance asks the sandbox's own chain what an account owns of the token.
func (s *sandboxProcess) balance(t *testing.T, account common.Address) *big.Int {
	t.Helper()
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"%s","data":"0x70a08231%064x"},"latest"]}`,
		s.Token, account.Bytes()) // balanceOf(account)
	var got struct{ Result string }
	decode(t, send(t, direct, "POST", s.RPC, call), http.StatusOK, &got)
	return new(big.Int).SetBytes(common.FromHex(got.Result))
}

// Two sandboxes side by side, each one a whole paid world: curl gets goods, the token moves, the books say so.
func TestSandbox(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one", "other"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSandbox(t, "{", "-json")
			if err := json.Unmarshal([]byte(s.said()[0]), s); err != nil {
				t.Fatalf("%q: %v", s.said()[0], err)
			}
			payer := s.payer(t)
			before := s.balance(t, payer.wallet)
			got := curl(t, payer, order{method: "GET"}, s.Seller+"/weather")
			requireStatus(t, got, http.StatusOK)
			if !json.Valid([]byte(got.body)) || got.header.Get("Purser-Payment") == "" || got.header.Get("Purser-Transaction") == "" {
				t.Errorf("got %+v", got)
			}
			price, ok := new(big.Int).SetString(got.header.Get("Purser-Amount"), 10)
			if !ok || price.Sign() <= 0 {
				t.Fatalf("Purser-Amount is %q", got.header.Get("Purser-Amount"))
			}
			if after := s.balance(t, payer.wallet); new(big.Int).Sub(before, after).Cmp(price) != 0 {
				t.Errorf("balance went from %s to %s, the price is %s", before, after, price)
			}
			process.Eventually(t, 10*time.Second, func() string {
				if events := payer.spend(t); len(events) != 1 || events[0].Amount != price.String() {
					return fmt.Sprintf("spend events %+v, want one of %s", events, price)
				}
				return ""
			})
			if err := s.Stop(syscall.SIGINT); err != nil {
				t.Errorf("after SIGINT: %v", err)
			}
			if said := s.said(); len(said) != 1 {
				t.Errorf("standard output has more than one line: %q", said)
			}
		})
	}
}

// statusLine finds the statuses in what curl -i prints.
var statusLine = regexp.MustCompile(`(?m)^HTTP/[0-9.]+ ([0-9]{3})`)

// What the sandbox prints for people to try works as it is printed.
func TestSandboxCommands(t *testing.T) {
	t.Parallel()
	s := startSandbox(t, "Ctrl-C ends everything.")
	var title, script string
	tried := 0
	try := func() {
		if script == "" {
			return
		}
		tried++
		out, _ := runAgent(t, exec.Command("sh", "-euc", script))
		for _, status := range statusLine.FindAllStringSubmatch(out, -1) {
			// A title that names a status announces it.
			if code := status[1]; code != "200" && !strings.Contains(title, code) {
				t.Errorf("%s\n%s\ngave\n%s", title, script, out)
			}
		}
		script = ""
	}
	for _, line := range s.said() {
		if command, found := strings.CutPrefix(line, "    "); found && title != "" {
			script += command + "\n"
		} else if strings.HasPrefix(line, "# ") {
			try()
			title = line
		}
	}
	try()
	if tried == 0 {
		t.Errorf("no commands in %q", s.said())
	}
	said := strings.Join(s.said(), "\n")
	if !strings.Contains(said, "never fund") {
		t.Errorf("no warning in %s", said)
	}
	if err := s.Stop(syscall.SIGINT); err != nil {
		t.Errorf("after SIGINT: %v", err)
	}
}
