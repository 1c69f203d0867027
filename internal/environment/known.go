package environment

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/purserpay/purser/x402"
)

// Structural lists the variables that the shipped Caddyfile reads while it is parsed, where Caddy takes
// an empty variable for a value.
var Structural = []string{
	"PURSER_BIND", "PURSER_PORT", "PURSER_UPSTREAM_BIND", "PURSER_UPSTREAM_PORT",
	"PURSER_METRICS_BIND", "PURSER_METRICS_PORT", "PURSER_ADMIN", "PURSER_DATA_DIR",
}

// CheckStructural refuses structural variables that are set to nothing: an empty bind address leaves a
// purser that runs and listens nowhere, and an empty port is port 80.
func CheckStructural() error {
	for _, name := range Structural {
		if v, set := os.LookupEnv(name); set && v == "" {
			return fmt.Errorf("purser: %s is set to nothing, which Caddy does not treat as unset: unset it or give it a value", name)
		}
	}
	return nil
}

// Restart says why a running purser cannot take a variable's new value; it is empty if it can.
func Restart(name string) string { return restart[strings.TrimSuffix(name, "_FILE")] }

var restart = map[string]string{
	"DATABASE_URL":         "the database is open",
	"PURSER_ADMIN":         "the commands already look for purser at its new value",
	"PURSER_DATA_DIR":      "the books and keys there are in use",
	"PURSER_BOLT_PATH":     "the database is open",
	"PURSER_STORE":         "the database is open",
	"PURSER_BOLT_MIN_FREE": "the database is open",
	"PURSER_MASTER_KEY":    "the database is open with it; 'purser rotate master-key' replaces it",
}

// unread are variables that Go reads when a process starts, before there is a file.
var unread = []string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK"}

// secrets are the names of variables that also have a form with _FILE.
var secrets = []string{
	"CDP_API_KEY_SECRET", "CDP_WALLET_SECRET", "DATABASE_URL", "PURSER_FACILITATOR_KEY", "PURSER_INTERNAL_SECRET",
	"PURSER_KEY", "PURSER_MASTER_KEY", "PURSER_OIDC_CLIENT_SECRET", "PURSER_RPC_URL", "PURSER_RPC_URL_2", "PURSER_SIGNER_KEY", "PURSER_SIGNER_URL",
	"PURSER_SMTP_URL", "PURSER_WEBHOOKS", "PURSER_WEBHOOK_SECRET",
}

var plain = []string{
	"CDP_API_KEY_ID", "PURSER_ADMIN", "PURSER_ADMIN_OVER_TCP", "PURSER_ALLOWED_ORIGINS", "PURSER_ALLOW_ADDRESSES", "PURSER_ANSWER_TIMEOUT", "PURSER_APPROVAL_EXPIRY", "PURSER_APPROVAL_WAIT", "PURSER_BIND", "PURSER_BOLT_MIN_FREE", "PURSER_BOLT_PATH",
	"PURSER_CDP_URL", "PURSER_DAILY_BUDGET", "PURSER_DATA_DIR", "PURSER_FACILITATOR", "PURSER_FACILITATOR_AUTH",
	"PURSER_FACILITATOR_MAX_FAILURES", "PURSER_FACILITATOR_TIMEOUT", "PURSER_FACILITATOR_URL", "PURSER_FAILURES_PER_DAY",
	"PURSER_FAILURES_PER_MINUTE", "PURSER_HOURLY_BUDGET", "PURSER_INTERCEPT", "PURSER_LOW_BALANCE", "PURSER_MAIL_FROM", "PURSER_MAIL_TO", "PURSER_MAX_CONCURRENT", "PURSER_MAX_CONNECTIONS", "PURSER_MAX_PAYMENT",
	"PURSER_MAX_PEER_CONNECTIONS", "PURSER_MAX_QUEUED", "PURSER_MAX_WAIT", "PURSER_METRICS_BIND", "PURSER_METRICS_PORT",
	"PURSER_MONTHLY_BUDGET", "PURSER_NETWORKS", "PURSER_NO_PROXY", "PURSER_OIDC_ALLOW", "PURSER_OIDC_APPROVERS", "PURSER_OIDC_CLIENT_ID", "PURSER_OIDC_ISSUER",
	"PURSER_OIDC_OPERATORS", "PURSER_OIDC_ORGANIZATION", "PURSER_OIDC_OWNERS", "PURSER_OIDC_VIEWERS", "PURSER_ON_FAILURE",
	"PURSER_OFFER_SIGNERS", "PURSER_PAUSE_HOST_AFTER", "PURSER_PER_MINUTE", "PURSER_PLANS", "PURSER_PORT", "PURSER_PRICE_GUARD", "PURSER_PROXY_MAX_FAILURES",
	"PURSER_PROXY_MAX_KEY_REQUESTS", "PURSER_PROXY_MAX_KEY_TUNNELS", "PURSER_PROXY_MAX_PEER_TUNNELS", "PURSER_PROXY_MAX_REPLAY",
	"PURSER_PROXY_MAX_SPOOL", "PURSER_PROXY_MAX_TUNNELS", "PURSER_PROXY_PORTS", "PURSER_PROXY_SPOOL_DIR", "PURSER_PUBLIC_URL",
	"PURSER_QUOTES_PER_MINUTE", "PURSER_RAILS", "PURSER_REGISTRATION", "PURSER_REQUIRE_APPROVAL_ABOVE", "PURSER_REQUIRE_APPROVAL_NEW_HOSTS", "PURSER_RETAIN", "PURSER_SCHEMES", SecretsCommand, "PURSER_SETTLEMENT", "PURSER_SITE", "PURSER_SIGN_IN_HOSTS", "PURSER_SIGNER_TIMEOUT", "PURSER_STANDIN", "PURSER_STORE",
	"PURSER_UPGRADE_URL", "PURSER_UPSTREAM", "PURSER_UPSTREAM_BIND", "PURSER_UPSTREAM_PORT", "PURSER_UPSTREAM_PROXY", "PURSER_WALLETS", "PURSER_WEBHOOK_KINDS", "PURSER_WEEKLY_BUDGET",
}

// foreign are variables with purser's prefix that other programs read: the client libraries, and
// builds of purser for tests.
var foreign = []string{"PURSER_URL", "PURSER_FAILPOINT", "PURSER_UNPROTECTED", "PURSER_CLOCK_FILE"}

// ofService matches what Kubernetes sets for a service that is called purser.
var ofService = regexp.MustCompile(`^PURSER_(.+_)?(SERVICE_(HOST|PORT)|PORT_[0-9]+_(TCP|UDP))(_[A-Z0-9_]+)?$`)

// Known returns the names of the variables that purser reads, sorted.
func Known() []string {
	names := slices.Concat(plain, secrets)
	for _, n := range x402.Networks() {
		name := "PURSER_RPC_URL_" + strings.ToUpper(strings.ReplaceAll(n.Name, "-", "_"))
		for _, name := range []string{name, name + "_2"} {
			names = append(names, name, name+"_FILE")
		}
	}
	for _, name := range secrets {
		names = append(names, name+"_FILE")
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Plain reports whether a variable of purser's holds neither a secret nor a name of its file.
func Plain(name string) bool { return slices.Contains(plain, name) || slices.Contains(foreign, name) }

// Unknown warns of variables with purser's prefix that do nothing: those of the process, except
// where the text of a configuration mentions them. It also warns of those that only a process's own
// environment can have.
func (l *Layer) Unknown(environ []string, configuration string) (warnings []string) {
	known := Known()
	names := make([]string, len(environ))
	for i, entry := range environ {
		names[i], _, _ = strings.Cut(entry, "=")
	}
	slices.Sort(names)
	for _, name := range names {
		if !strings.HasPrefix(name, own) || slices.Contains(known, name) || slices.Contains(foreign, name) ||
			ofService.MatchString(name) || strings.Contains(configuration, name) {
			continue
		}
		text := fmt.Sprintf("%s at %s does nothing: purser has no such variable", name, l.Place(name))
		if near := nearest(name, known); near != "" {
			text += ", but " + near
		}
		warnings = append(warnings, text)
	}
	for _, name := range l.Added() {
		if slices.Contains(unread, name) {
			warnings = append(warnings, fmt.Sprintf("%s at %s does nothing: Go reads it from the environment that a process is started with", name, l.Place(name)))
		}
	}
	return warnings
}

// nearest returns the known name that is most like a name, or nothing if none is.
func nearest(name string, known []string) (near string) {
	best := min(3, len(strings.TrimPrefix(name, own))/3) // most changes of letters
	for _, k := range known {
		if d := distance(name, k); d <= best {
			near, best = k, d-1
		}
	}
	if near != "" {
		return near
	}
	for _, k := range known { // the shortest of those that begin so
		if strings.HasPrefix(k, name+"_") && (near == "" || len(k) < len(near)) {
			near = k
		}
	}
	return near
}

// distance counts the letters that must be put in, left out or replaced to make b from a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
