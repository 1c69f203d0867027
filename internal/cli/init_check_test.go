package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/x402"
)

// chainStandIn is an RPC of a chain, by its id and what it calls itself. With a token's domain
// separator missing, it is that of USDC on Base.
func chainStandIn(t *testing.T, id, version, separator string) string {
	t.Helper()
	base, _ := x402.NetworkByWire("base")
	if separator == "" {
		separator = fmt.Sprintf("0x%x", base.Assets[0].DomainSeparator)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, "no call", http.StatusBadRequest)
			return
		}
		result := map[string]string{
			"eth_chainId": `"` + id + `"`, "web3_clientVersion": `"` + version + `"`, "eth_call": `"` + separator + `"`,
			"eth_getBlockByNumber": `{"number":"0x0","timestamp":"0x1","hash":"0x` + strings.Repeat("1", 64) + `"}`,
		}[call.Method]
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

var freePorts ports.Free

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freePorts.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	return port[0]
}

// init says what is wrong with an answer, and keeps the answer.
func TestInitChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flag, value, want string }{
		{"rpc", chainStandIn(t, "0x2105", "Geth/v1", ""), "--rpc: answers: Base (chain 8453)\n"},
		{"rpc", chainStandIn(t, "0x1", "Geth/v1", ""), "--rpc: warning: answers for chain 1, and purser pays on Base (chain 8453)"},
		{"rpc", chainStandIn(t, "0x2105", "Geth/v1", "0x"+strings.Repeat("1", 64)), "with another USDC"},
		{"rpc", fmt.Sprintf("http://127.0.0.1:%d/s3cret", freePort(t)), "--rpc: warning: does not answer; kept all the same"},
		{"max-payment", "10.5", "warning: one payment may cost 10.5 USDC, more than a whole day (10)"},
		{"listen", "0.0.0.0:9402", "--listen: warning: anybody who reaches this address can make API keys"},
	} {
		var dir string
		o := patiently(c.want, func() clitest.Outcome {
			dir = t.TempDir()
			return initIn(t, dir, "", nil, "--yes", "--"+c.flag, c.value)
		})
		if o.Status != 0 || !strings.Contains(o.Stdout, c.want) || strings.Contains(o.Stdout+o.Stderr, "s3cret") || clitest.Written(t, dir) != clitest.InitMade {
			t.Errorf("%s %s: %d, %s%s", c.flag, c.value, o.Status, o.Stdout, o.Stderr)
		}
		if c.flag == "rpc" && !strings.Contains(clitest.ReadText(t, dir, "purser.env"), "\nPURSER_RPC_URL="+c.value+"\n") {
			t.Errorf("%s was not kept", c.value)
		}
	}
	if o := initIn(t, t.TempDir(), "", nil, "--yes", "--listen", "[::1]:9402", "--max-payment", "10", "--daily-budget", "off"); strings.Contains(o.Stdout, "warning") {
		t.Errorf("warned of nothing: %s", o.Stdout)
	}
}

// init says what is in the way of the first start: each port that is taken, with what moves it, and
// a folder that others can enter. A purser that was named is asked, or nothing is done.
func TestInitSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if o := initIn(t, dir, "", nil, "--yes", "--admin", "unix/"+dir+"/no.sock"); o.Status != 1 || !strings.Contains(o.Stderr, "no answer") ||
		clitest.Written(t, dir) != "" {
		t.Errorf("%d, %s: %s%s", o.Status, clitest.Written(t, dir), o.Stdout, o.Stderr)
	}
	if err := os.Mkdir(filepath.Join(dir, "purser-data"), 0o755); err != nil { //nolint:gosec // init has to tell of it
		t.Fatal(err)
	}
	ports := make([]string, 3)
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
	}
	o := initIn(t, dir, "", []string{"PURSER_UPSTREAM_PORT=" + ports[1], "PURSER_METRICS_PORT=" + ports[2]}, "--yes", "--listen", ports[0])
	for _, want := range []string{
		"chmod 700 purser-data",
		ports[0] + " is taken by another program, and purser is to listen there: end that program first, or choose another with `purser init --force --listen`",
		ports[1] + " is taken by another program, and the sidecar is to listen there: end that program first, or set another port with PURSER_UPSTREAM_PORT",
		ports[2] + " is taken by another program, and metrics is to listen there: end that program first, or set another port with PURSER_METRICS_PORT",
	} {
		if !strings.Contains(o.Stdout, want) {
			t.Errorf("does not say %q: %s", want, o.Stdout)
		}
	}
	var environ []string
	for _, name := range []string{"PURSER_PORT", "PURSER_UPSTREAM_PORT", "PURSER_METRICS_PORT"} {
		environ = append(environ, fmt.Sprintf("%s=%d", name, freePort(t)))
	}
	free := initIn(t, t.TempDir(), "", environ, "--yes")
	if strings.Contains(free.Stdout, "taken") {
		t.Errorf("%s", free.Stdout)
	}
}

// Only an RPC that says it is the sandbox's, on this machine and with the sandbox's faucet where it
// is to be, is taken for it: the command for play money names the wallet.
func TestInitSandbox(t *testing.T) {
	t.Parallel()
	play := chainStandIn(t, "0x2105", "purser-sandbox/linux", "")
	const playing = "play money only"
	o := patiently(playing, func() clitest.Outcome { return initIn(t, t.TempDir(), "", nil, "--yes", "--rpc", play) })
	if !strings.Contains(o.Stdout, playing) || strings.Contains(o.Stdout, "Send USDC on Base") || strings.Contains(o.Stdout, "curl -X POST") {
		t.Errorf("without a faucet: %s", o.Stdout)
	}
	for _, rpc := range []string{strings.Replace(play, "127.0.0.1", "localhost", 1), chainStandIn(t, "0x2105", "Geth/purser-sandbox/", "")} {
		named := patiently(playing, func() clitest.Outcome { return initIn(t, t.TempDir(), "", []string{"PURSER_RPC_URL=" + rpc}, "--yes") })
		if strings.Contains(named.Stdout, playing) != strings.Contains(rpc, "localhost") {
			t.Errorf("%s: %s", rpc, named.Stdout)
		}
	}
	at := netip.MustParseAddrPort(strings.TrimPrefix(play, "http://"))
	below := netip.AddrPortFrom(at.Addr(), at.Port()-2).String()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", below)
	if err != nil {
		t.Skipf("%s is not free for a faucet", below)
	}
	faucet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/faucet" && r.PostFormValue("address") == "" {
			http.Error(w, "address: nothing", http.StatusBadRequest)
		}
	}))
	_ = faucet.Listener.Close()
	faucet.Listener = l
	faucet.Start()
	t.Cleanup(faucet.Close)
	o = patiently("/faucet -d", func() clitest.Outcome { return initIn(t, t.TempDir(), "", nil, "--yes", "--rpc", play) })
	if !strings.Contains(o.Stdout, "    curl -X POST http://"+below+"/faucet -d address=0x") || !strings.Contains(o.Stdout, "curl -i http://"+below+"/weather") || strings.Contains(o.Stdout, "Send USDC on Base") {
		t.Errorf("with a faucet: %s", o.Stdout)
	}
}

// A public RPC is proposed where nothing else is named, and said to be one.
func TestInitProposesAPublicRPC(t *testing.T) {
	t.Parallel()
	public := chainStandIn(t, "0x2105", "Geth/v1", "")
	for _, c := range []struct {
		name    string
		environ []string
		args    []string
		stdin   string
		kept    string
	}{
		{"--yes", nil, []string{"--yes"}, "", public},
		{"Enter", nil, nil, "\n\n\n\n\n\n", public},
		{"none", nil, nil, "\nnone\n\n\n\n\n", ""},
		{"--rpc none", nil, []string{"--yes", "--rpc", "none"}, "", ""},
		{"one of the environment", []string{"PURSER_RPC_URL=http://127.0.0.1:1"}, []string{"--yes"}, "", ""},
		{"a network without one", []string{"PURSER_NETWORKS=polygon"}, []string{"--yes"}, "", ""},
	} {
		dir := t.TempDir()
		said := "It is public"
		if c.kept == "" {
			said = ""
		}
		o := patiently(said, func() clitest.Outcome {
			dir = t.TempDir()
			l := clitest.Line{
				Dir: dir, Environ: c.environ, Stdin: strings.NewReader(c.stdin),
				MakeKey: func(context.Context) (cli.FirstKey, error) { return firstKey(dir) },
				PublicRPC: func(n x402.Network) string {
					return map[string]string{"base": public}[n.Name]
				},
			}
			return l.Run(t, append([]string{"init"}, c.args...)...)
		})
		text, err := os.ReadFile(filepath.Join(dir, "purser.env"))
		if want := "PURSER_RPC_URL=" + c.kept + "\n"; err != nil || !strings.Contains(string(text), want) || strings.Contains(o.Stdout, "It is public") != (c.kept != "") {
			t.Errorf("%s: %v\n%s\n%s", c.name, err, text, o.Stdout)
		}
	}
}

func TestPublicRPCs(t *testing.T) {
	t.Parallel()
	for _, n := range x402.Networks() {
		url := cli.PublicRPC(n)
		if (url != "") != (n.Name == "base" || n.Name == "base-sepolia") {
			t.Errorf("%s: %q", n.Name, url)
		}
	}
}
