package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/purserpay/purser"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

type initQuestion struct {
	flag, text string
	more       string // what `?` answers
	unset      string // the answer of Enter; "" is none
	read       func(string) (string, error)
	proposes   func(*Env) string                               // the answer of Enter, where it depends; nil: unset
	check      func(context.Context, *Env, initAnswers) string // says what there is to know of an answer; nil: nothing
}

// initQuestions lists the questions that matter on the first day. Everything else has a variable.
var initQuestions = []initQuestion{
	{
		"listen", "Where shall purser listen?",
		"An address with a port, or one of them. 127.0.0.1 is for programs on this machine only; name another address only\n" +
			"where a firewall decides who reaches it.",
		net.JoinHostPort(DefaultBind, DefaultPort), readListen, nil, checkListen,
	},
	{
		"rpc", "RPC URL? purser reads balances there, and what became of payments (none = do without; sandbox: http://127.0.0.1:9405)",
		"Without one balances are unknown, an empty wallet is not noticed before the seller refuses, and a payment that\n" +
			"nobody confirms stays open. A public one is for the first days: it is slow at times, bounds how often it is asked,\n" +
			"and sees your wallet's address. One of your own, from any provider, is better. It is kept in " + initEnvFile + ",\n" +
			"because it often holds a key.",
		"", readServiceURL, proposeRPC, checkRPC,
	},
	{
		"facilitator", "x402 facilitator URL? Most people: none",
		"Who sends payments to the chain for purser. Ordinary sellers have one of their own; it is needed only for sellers\n" +
			"that want to be paid before they are asked (settlement \"payer\").",
		"", readServiceURL, nil, nil,
	},
	{
		"max-payment", "How much may one payment cost, in USDC? (off = only the wallet's balance limits it)",
		"What costs more is not paid: the program gets the 402, and why. It holds for keys without limits of their own;\n" +
			"'purser limits' changes those at any time.",
		defaultMaxPayment, readLimit, nil, nil,
	},
	{
		"daily-budget", "How much may a key spend in a day, in USDC? (off = only the wallet's balance limits it)",
		"Days are those of UTC. It holds for each key without limits of its own; 'purser limits' changes those at any time.",
		defaultDailyBudget, readLimit, nil, checkBudget,
	},
	{
		hostsFlag, "Which hosts may be paid? (names with commas between; ask = a person approves the first payment to each new host; any)",
		"A budget bounds how much is spent, and not by whom: a text that an agent reads can lead it to a seller that nobody\n" +
			"knows. Names are such as api.example.com, api.example.com:8443 or *.example.com. With ask, a request to a new host\n" +
			"waits until you say: purser approvals. It holds for keys without such limits of their own.",
		hostsAsk, readHosts, nil, nil,
	},
}

// hostsFlag names the question about hosts. These answers are no hosts.
const (
	hostsFlag = "hosts"
	hostsAsk  = "ask"
	hostsAny  = "any"
)

// readHosts reads the hosts that may be paid, or one of the words.
func readHosts(text string) (string, error) {
	switch text {
	case hostsAsk, hostsAny:
		return text, nil
	case off:
		return hostsAny, nil
	}
	hosts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if len(hosts) == 0 {
		return "", errors.New("no host is named: ask and any are the other answers")
	}
	return strings.Join(hosts, ","), policy.Policy{AllowHosts: hosts}.Validate()
}

// enter returns the answer of Enter, "" for none.
func (q initQuestion) enter(env *Env) string {
	if q.proposes != nil {
		return q.proposes(env)
	}
	return q.unset
}

// PublicRPC returns the URL of an RPC that its network lets everybody use, "" if none is known.
func PublicRPC(n x402.Network) string {
	return map[string]string{"base": "https://mainnet.base.org", "base-sepolia": "https://sepolia.base.org"}[n.Name]
}

// proposeRPC proposes the public RPC of the network, unless the environment names another one.
func proposeRPC(env *Env) string {
	if env.PublicRPC == nil || env.Getenv(rpcURLVariable) != "" || env.Getenv(rpcURLVariable+"_FILE") != "" {
		return ""
	}
	network, _ := env.initNetwork()
	return env.PublicRPC(network)
}

func (q initQuestion) usage() string {
	text, _, _ := strings.Cut(q.text, "?")
	unset := cmp.Or(q.unset, none)
	if q.proposes != nil {
		unset = "a public one of base or base-sepolia, else none"
	}
	return "answer of: " + text + "? (default: " + unset + ")"
}

const none = "none" // leaves an answer out on purpose

func readListen(text string) (string, error) {
	host, port := text, DefaultPort
	if n, err := strconv.Atoi(text); err == nil {
		host, port = DefaultBind, strconv.Itoa(n)
	} else if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	if host == "localhost" || host == "" {
		host = DefaultBind
	}
	_, err1 := netip.ParseAddr(host)
	n, err2 := strconv.Atoi(port)
	if err1 != nil || err2 != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q is not an address with a port such as 127.0.0.1:8402", text)
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

// readServiceURL reads the URL of a service, or none. Its errors do not repeat what may hold a
// key.
func readServiceURL(text string) (string, error) {
	if text == "" || text == none {
		return "", nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", errors.New("not an absolute http or https URL, nor none")
	case strings.ContainsAny(text, "#\"'\\` \t{}$"): // the file of variables, and Caddy, have uses for these
		return "", errors.New("a URL with one of # \" ' \\ ` { } $ or a space cannot be kept: set it as a variable yourself")
	}
	return text, nil
}

func readLimit(text string) (string, error) {
	if text == off {
		return off, nil
	}
	amount, err := money.ParseUnits(text, usdcDecimals)
	if err != nil || amount.IsZero() {
		return "", fmt.Errorf("%q is not an amount in USDC such as 0.25, nor off", text)
	}
	return amount.Format(usdcDecimals), nil
}

const documentation = "https://github.com/purserpay/purser/blob/main/docs/"

// caddyfileHead is in front of what init writes, instead of what the shipped file says of itself.
const caddyfileHead = `# Made by 'purser init'. Start it in this folder: purser run
# The variables are in ` + initEnvFile + `.
# All there is to set: ` + documentation + `configuration.md
#
# {$NAME:default} is read when this file is. Everything else purser reads itself when it runs,
# so that no secret and no URL gets into the configuration.

`

// caddyfile is the shipped Caddyfile with the answers that shape it.
func (told initAnswers) caddyfile() (string, error) {
	host, port, err := net.SplitHostPort(told["listen"])
	if err != nil {
		return "", err
	}
	_, text, found := strings.Cut(purser.Caddyfile, "\n\n")
	if !found {
		return "", errors.New("the shipped Caddyfile does not begin with what it is")
	}
	// The operator may have nothing but the program.
	text = caddyfileHead + strings.NewReplacer("docs/metrics.md", documentation+"metrics.md").Replace(text)
	const wallets = "\t\twallets {$PURSER_WALLETS:local}\n"
	limits := ""
	for _, limit := range []struct{ flag, option, unset string }{
		{"max-payment", "max_payment", defaultMaxPayment}, {"daily-budget", "daily_budget", defaultDailyBudget},
	} {
		if told[limit.flag] != limit.unset {
			limits += fmt.Sprintf("\t\t%s %s\n", limit.option, told[limit.flag])
		}
	}
	switch hosts := told[hostsFlag]; hosts {
	case hostsAny:
	case hostsAsk:
		limits += "\t\trequire_approval_new_hosts on\n"
	default:
		limits += fmt.Sprintf("\t\tallow_hosts %s\n", hosts)
	}
	if limits != "" {
		limits = "\n\t\t# As 'purser init' was told, instead of the variables:\n" + limits
	}
	for _, s := range []struct{ old, with string }{
		{"{$PURSER_BIND:" + DefaultBind + "}", "{$PURSER_BIND:" + host + "}"},
		{"http://:{$PURSER_PORT:" + DefaultPort + "}", "http://:{$PURSER_PORT:" + port + "}"},
		{wallets, wallets + limits},
	} {
		if strings.Count(text, s.old) != 1 {
			return "", fmt.Errorf("the shipped Caddyfile has no place for %s", strings.TrimSpace(s.with))
		}
		text = strings.Replace(text, s.old, s.with, 1)
	}
	return text, nil
}

// envFile returns the answers that may hold secrets, as purser and service managers read
// them. The first line is head.
func (told initAnswers) envFile(head string) string {
	var b strings.Builder
	b.WriteString("# " + head + "\n" +
		"# All there are: " + documentation + "configuration.md\n")
	for _, v := range []struct{ flag, variable, what string }{
		{"rpc", rpcURLVariable, "JSON-RPC of the first network, for balances and evidence"},
		{"facilitator", facilitatorURLVariable, "x402 facilitator, for payments that purser settles itself"},
	} {
		lead := ""
		if told[v.flag] == "" {
			lead = "# "
		}
		fmt.Fprintf(&b, "\n# %s.\n%s%s=%s\n", v.what, lead, v.variable, told[v.flag])
	}
	return b.String()
}
