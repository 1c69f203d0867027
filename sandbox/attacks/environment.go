package attacks

import (
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/failpoint"
)

// environment maps the variables of the user's own purser to their values.
type environment map[string]string

func environmentOf(environ []string) environment {
	e := environment{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			e[name] = value
		}
	}
	return e
}

// placeholder matches a reference to a variable in a configuration.
var placeholder = regexp.MustCompile(`\{env\.([^{}]+)\}`)

// or returns the value of an option. A set option has its references to variables replaced. For an
// unset one, or returns the variable's value.
func (e environment) or(given, variable string) string {
	if given == "" {
		given = e[variable]
	}
	return strings.TrimSpace(placeholder.ReplaceAllStringFunc(given, func(reference string) string {
		return e[placeholder.FindStringSubmatch(reference)[1]]
	}))
}

// harmless lists system variables that a program may need and that hold no secret.
var harmless = []string{
	"PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "SystemRoot", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOCOVERDIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// replaced lists purser's variables that name the user's own data, money, services and listeners.
var replaced = []string{
	"PURSER_BIND", "PURSER_PORT", "PURSER_UPSTREAM_BIND", "PURSER_UPSTREAM_PORT", "PURSER_METRICS_BIND", "PURSER_METRICS_PORT",
	"PURSER_DATA_DIR", "PURSER_BOLT_PATH", "PURSER_STORE", "PURSER_WALLETS", "PURSER_ADMIN", "PURSER_UPSTREAM",
	"PURSER_MASTER_KEY", "PURSER_FACILITATOR", "PURSER_FACILITATOR_URL", "PURSER_FACILITATOR_KEY", "PURSER_FACILITATOR_AUTH", "PURSER_RPC_URL", "PURSER_RPC_URL_2",
	"PURSER_SIGNER_URL", "PURSER_SIGNER_KEY", "PURSER_CDP_URL", "PURSER_KEY", "PURSER_INTERNAL_SECRET", "PURSER_PROXY_SPOOL_DIR", "PURSER_NETWORKS",
	"PURSER_OIDC_ISSUER", "PURSER_OIDC_CLIENT_ID", "PURSER_OIDC_CLIENT_SECRET", "PURSER_OIDC_ALLOW",
	"PURSER_OIDC_OPERATORS", "PURSER_OIDC_APPROVERS", "PURSER_OIDC_VIEWERS", "PURSER_OIDC_ORGANIZATION", "PURSER_OIDC_OWNERS",
	"PURSER_WEBHOOKS", "PURSER_WEBHOOK_SECRET", "PURSER_WEBHOOK_KINDS", "PURSER_SMTP_URL", "PURSER_MAIL_FROM", "PURSER_MAIL_TO",
	failpoint.KillAt,
}

// secret matches names of variables that may hold a secret or an address.
var secret = regexp.MustCompile(`(?i)(KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|_URL|_URI|_DSN|_FILE)`)

// publicAddresses lists variables with addresses that purser tells its clients and never dials.
var publicAddresses = []string{"PURSER_PUBLIC_URL", "PURSER_UPGRADE_URL"}

// secrets counts the purser variables that are not passed on.
func (e environment) secrets() (n int) {
	for name, value := range e {
		own := strings.HasPrefix(name, "PURSER_") || strings.HasPrefix(name, "CDP_")
		if own && value != "" && secret.MatchString(name) && !slices.Contains(publicAddresses, name) {
			n++
		}
	}
	return n
}

// passedOn reports whether a variable is passed on unchanged.
func passedOn(name string) bool {
	return slices.Contains(harmless, name) ||
		strings.HasPrefix(name, "PURSER_") && !slices.Contains(replaced, strings.TrimSuffix(name, "_FILE")) &&
			(!secret.MatchString(name) || slices.Contains(publicAddresses, name))
}

// scratchSecret returns a random value in place of a secret.
func scratchSecret(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // cannot fail: crypto/rand ends the process instead
	return prefix + hex.EncodeToString(b[:])
}

// environment sets the child's environment. It contains no real secret, and no address outside the
// scratch world.
func (s *setup) environment(e environment, w addresses) {
	set := environment{}
	for name, value := range e {
		if passedOn(name) {
			set[name] = value
		}
	}
	for _, name := range placeholder.FindAllStringSubmatch(string(s.config), -1) {
		if _, known := set[name[1]]; known || slices.Contains(replaced, strings.TrimSuffix(name[1], "_FILE")) {
			continue
		}
		if set[name[1]] = e[name[1]]; secret.MatchString(name[1]) {
			set[name[1]] = scratchSecret("scratch")
		}
	}
	for name, prefix := range map[string]string{
		"PURSER_KEY": "pk_", "PURSER_INTERNAL_SECRET": "is_", "PURSER_FACILITATOR_KEY": "fk_",
	} {
		// PURSER_KEY lets the attacks spend by the deployment's own key. The other values are
		// searched for in answers and logs.
		if given := e[name] + e[name+"_FILE"]; given == "" && name == "PURSER_KEY" && !s.yours.standin {
			continue
		}
		set[name] = scratchSecret(prefix)
		s.secrets = append(s.secrets, set[name])
	}
	s.key = set["PURSER_KEY"]
	set["PURSER_ADMIN"] = s.adminAddress()
	set["PURSER_FACILITATOR_URL"], set["PURSER_RPC_URL"] = w.facilitator, w.rpc
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR", "TMP", "TEMP"} {
		set[name] = filepath.Join(s.dir, "home")
	}
	for name, value := range set {
		s.environ = append(s.environ, name+"="+value)
	}
	slices.Sort(s.environ)
}
