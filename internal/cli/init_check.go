package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/ports"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

// initCheckTime bounds what init asks of a service.
const initCheckTime = 2 * time.Second

// checkListen warns of an address that others than this machine reach.
func checkListen(_ context.Context, _ *Env, told initAnswers) string {
	at, err := netip.ParseAddrPort(told["listen"])
	if err != nil || at.Addr().IsLoopback() {
		return ""
	}
	return "warning: anybody who reaches this address can make API keys there, and keys travel unencrypted: let a firewall " +
		"choose who does. Whoever has a key spends from that key's wallet"
}

// initNetwork is the network that the environment names, and wallets are made for.
func (env *Env) initNetwork() (x402.Network, x402.Asset) {
	names := cmp.Or(env.Getenv(networksVariable), defaultNetworks)
	name, _, _ := strings.Cut(names, ",")
	n, known := x402.NetworkByWire(strings.TrimSpace(name))
	if !known || len(n.Assets) == 0 { // told when the key is made
		n, _ = x402.NetworkByWire(defaultNetworks)
	}
	return n, n.Assets[0]
}

func networkTitle(n x402.Network) string {
	return fmt.Sprintf("%s (chain %d)", n.Title, n.ChainID)
}

func checkRPC(ctx context.Context, env *Env, told initAnswers) string {
	if told["rpc"] == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, initCheckTime)
	defer cancel()
	client, err := chain.New(chain.Options{URL: told["rpc"], Timeout: initCheckTime})
	if err != nil {
		return "warning: " + err.Error()
	}
	defer client.Close()
	network, asset := env.initNetwork()
	id, err := client.Identify(ctx, network, asset)
	var mismatch *chain.MismatchError
	switch {
	case err == nil && env.PublicRPC != nil && told["rpc"] == env.PublicRPC(network):
		return "answers: " + networkTitle(network) + ". It is public, good for the first days: an RPC of your own is better (" + rpcURLVariable + ")"
	case err == nil:
		return "answers: " + networkTitle(network)
	case id.ChainID == 0:
		return "warning: does not answer; kept all the same"
	case id.ChainID != network.ChainID:
		return fmt.Sprintf("warning: answers for chain %d, and purser pays on %s: it will not be believed", id.ChainID, networkTitle(network))
	case errors.As(err, &mismatch):
		return fmt.Sprintf("warning: answers: %s, but with another USDC: it will not be believed", networkTitle(network))
	}
	return fmt.Sprintf("answers: %s, but not to everything that was asked; `purser status` tells", networkTitle(network))
}

// checkBudget warns of payments that are allowed and never made.
func checkBudget(_ context.Context, _ *Env, told initAnswers) string {
	one, err1 := money.ParseUnits(told["max-payment"], usdcDecimals)
	day, err2 := money.ParseUnits(told["daily-budget"], usdcDecimals)
	if err1 != nil || err2 != nil || one.Cmp(day) <= 0 { // off is no amount
		return ""
	}
	return fmt.Sprintf("warning: one payment may cost %s USDC, more than a whole day (%s): such a payment is never made",
		told["max-payment"], told["daily-budget"])
}

// portsInUse are warnings about where other programs listen already.
func (env *Env) portsInUse(ctx context.Context, listen string) (warnings []string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil
	}
	for _, l := range []struct{ what, bind, port, bindVariable, portVariable, change string }{
		{"purser", host, port, "PURSER_BIND", "PURSER_PORT", "or choose another with `purser init --force --listen`"},
		{"the sidecar", DefaultBind, "8406", "PURSER_UPSTREAM_BIND", "PURSER_UPSTREAM_PORT", ""},
		{"metrics", DefaultBind, "8407", "PURSER_METRICS_BIND", "PURSER_METRICS_PORT", ""},
	} {
		where := net.JoinHostPort(cmp.Or(env.Getenv(l.bindVariable), l.bind), cmp.Or(env.Getenv(l.portVariable), l.port))
		if !ports.Occupied(ctx, "tcp", where) {
			continue
		}
		change := l.change
		if change == "" || env.Getenv(l.portVariable) != "" {
			change = "or set another port with " + l.portVariable
		}
		warnings = append(warnings, fmt.Sprintf("%s is taken by another program, and %s is to listen there: end that program first, %s.", where, l.what, change))
	}
	return warnings
}

// sandboxFaucet returns the URL that gives play money away, if an RPC is the sandbox's; sandbox alone
// reports that it is. Both are asked. Only a service that says so, on this machine, counts as the
// sandbox: a real wallet must get real money.
func sandboxFaucet(ctx context.Context, rpc string) (faucet string, sandbox bool) {
	u, err := url.Parse(rpc)
	if err != nil || rpc == "" {
		return "", false
	}
	host := u.Hostname()
	if host == "localhost" {
		host = DefaultBind
	}
	at, err := netip.ParseAddrPort(net.JoinHostPort(host, u.Port()))
	if err != nil || !at.Addr().IsLoopback() {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, initCheckTime)
	defer cancel()
	var answer struct{ Result string }
	status, text := askLoopback(ctx, rpc, "application/json", `{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion","params":[]}`)
	if status != http.StatusOK || json.Unmarshal(text, &answer) != nil || !strings.HasPrefix(answer.Result, "purser-sandbox/") {
		return "", false
	}
	const sellerBelow = 2 // its ports follow each other, unless it was told to pick free ones
	if at.Port() <= sellerBelow {
		return "", true
	}
	faucet = "http://" + netip.AddrPortFrom(at.Addr(), at.Port()-sellerBelow).String() + "/faucet"
	status, text = askLoopback(ctx, faucet, "application/x-www-form-urlencoded", "address=")
	if status != http.StatusBadRequest || !strings.HasPrefix(string(text), "address: ") {
		return "", true
	}
	return faucet, true
}

// askLoopback posts a text to this machine. Status 0 is no answer.
func askLoopback(ctx context.Context, to, kind, text string) (status int, answer []byte) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(text)) //nolint:gosec // loopback, which sandboxFaucet sees to
	if err != nil {
		return 0, nil
	}
	r.Header.Set("Content-Type", kind)
	// Not by way of a proxy: the environment may name purser.
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	const most = 4 << 10
	if answer, err = io.ReadAll(io.LimitReader(resp.Body, most)); err != nil {
		return 0, nil
	}
	return resp.StatusCode, answer
}
