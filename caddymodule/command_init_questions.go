package caddymodule

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/purserpay/purser"
	"github.com/purserpay/purser/x402"
)

// initQuestion is one that init asks.
type initQuestion struct {
	flag, text string
	unset      string // the answer of Enter; "" is none
	read       func(string) (string, error)
}

// initQuestions are those that matter on the first day. Everything else has a variable.
var initQuestions = []initQuestion{
	{
		"listen", "Where shall purser listen? Programs on this machine only, unless you name another address.",
		net.JoinHostPort(defaultBind, defaultPort), readListen,
	},
	{
		"rpc", "URL of a JSON-RPC of Base? With one, purser checks balances and closes unclear payments by itself.",
		"", readServiceURL,
	},
	{
		"facilitator", "URL of an x402 facilitator? Needed only for sellers that want to be paid before they are asked.",
		"", readServiceURL,
	},
	{"max-payment", "How much may one payment cost, in USDC? Or off.", defaultMaxPayment, readLimit},
	{"daily-budget", "How much may a key spend in a day, in USDC? Or off.", defaultDailyBudget, readLimit},
}

// enter is what Enter answers, for people.
func (q initQuestion) enter() string {
	if q.unset == "" {
		return "none"
	}
	return q.unset
}

func (q initQuestion) usage() string {
	text, _, _ := strings.Cut(q.text, "?")
	return "answer of: " + text + "? (default: " + q.enter() + ")"
}

// none is how an answer is left out on purpose.
const none = "none"

// readListen reads an address and a port, or one of them.
func readListen(text string) (string, error) {
	host, port := text, defaultPort
	if n, err := strconv.Atoi(text); err == nil {
		host, port = defaultBind, strconv.Itoa(n)
	} else if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	}
	if host == "localhost" || host == "" {
		host = defaultBind
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

// readLimit reads an amount in USDC, or off.
func readLimit(text string) (string, error) {
	if text == off {
		return off, nil
	}
	amount, err := x402.ParseUnits(text, usdcDecimals)
	if err != nil || amount.IsZero() {
		return "", fmt.Errorf("%q is not an amount in USDC such as 0.25, nor off", text)
	}
	return amount.Format(usdcDecimals), nil
}

// caddyfile is the shipped Caddyfile with the answers that shape it.
func (told initAnswers) caddyfile() (string, error) {
	host, port, err := net.SplitHostPort(told["listen"])
	if err != nil {
		return "", err
	}
	text := purser.Caddyfile
	set := []struct{ old, with string }{
		{"{$PURSER_BIND:" + defaultBind + "}", "{$PURSER_BIND:" + host + "}"},
		{"http://:{$PURSER_PORT:" + defaultPort + "}", "http://:{$PURSER_PORT:" + port + "}"},
	}
	var limits strings.Builder
	for _, limit := range []struct{ flag, option, unset string }{
		{"max-payment", maxPaymentOption.name, defaultMaxPayment}, {"daily-budget", dailyBudgetOption.name, defaultDailyBudget},
	} {
		if told[limit.flag] != limit.unset {
			fmt.Fprintf(&limits, "\t\t%s %s\n", limit.option, told[limit.flag])
		}
	}
	if limits.Len() > 0 {
		const wallets = "\t\twallets {$PURSER_WALLETS:local}\n"
		set = append(set, struct{ old, with string }{
			wallets, wallets + "\n\t\t# As 'purser init' was told, instead of the variables:\n" + limits.String(),
		})
	}
	for _, s := range set {
		if strings.Count(text, s.old) != 1 {
			return "", fmt.Errorf("the shipped Caddyfile has no place for %s", strings.TrimSpace(s.with))
		}
		text = strings.Replace(text, s.old, s.with, 1)
	}
	return text, nil
}

// envFile are the answers that are nobody's business, as `purser run --envfile` and service
// managers read them.
func (told initAnswers) envFile() string {
	var b strings.Builder
	b.WriteString("# Variables of purser: purser run --envfile " + initEnvFile + "\n" +
		"# All there are: the configuration reference, docs/configuration.md.\n")
	for _, v := range []struct{ flag, variable, what string }{
		{"rpc", rpcURLOption.variable, "JSON-RPC of Base, for balances and evidence"},
		{"facilitator", facilitatorURLOption.variable, "x402 facilitator, for payments that purser settles itself"},
	} {
		lead := ""
		if told[v.flag] == "" {
			lead = "# "
		}
		fmt.Fprintf(&b, "\n# %s.\n%s%s=%s\n", v.what, lead, v.variable, told[v.flag])
	}
	return b.String()
}
