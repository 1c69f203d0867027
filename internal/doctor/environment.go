package doctor

import (
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/failpoint"
)

// environment is that of the user's own purser, by name.
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

// placeholder refers to a variable in a configuration.
var placeholder = regexp.MustCompile(`\{env\.([^{}]+)\}`)

// or is what an option is set to: given, with its references to variables replaced, or else the variable.
func (e environment) or(given, variable string) string {
	if given == "" {
		given = e[variable]
	}
	return strings.TrimSpace(placeholder.ReplaceAllStringFunc(given, func(reference string) string {
		return e[placeholder.FindStringSubmatch(reference)[1]]
	}))
}

// harmless are the variables of a system that a program may need and that hold no secret.
var harmless = []string{
	"PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "SystemRoot", "GOMAXPROCS", "GOMEMLIMIT", "GOGC", "GODEBUG", "GOCOVERDIR",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// replaced are purser's variables that name the user's own data, money, services and listeners.
var replaced = []string{
	"PURSER_BIND", "PURSER_PORT", "PURSER_UPSTREAM_BIND", "PURSER_UPSTREAM_PORT", "PURSER_METRICS_BIND", "PURSER_METRICS_PORT",
	"PURSER_DATA_DIR", "PURSER_BOLT_PATH", "PURSER_STORE", "PURSER_WALLETS", "PURSER_ADMIN", "PURSER_UPSTREAM",
	"PURSER_MASTER_KEY", "PURSER_FACILITATOR", "PURSER_FACILITATOR_URL", "PURSER_FACILITATOR_KEY", "PURSER_RPC_URL", "PURSER_RPC_URL_2",
	"PURSER_SIGNER_URL", "PURSER_KEY", "PURSER_INTERNAL_SECRET", "PURSER_PROXY_SPOOL_DIR", "PURSER_NETWORKS",
	"PURSER_OIDC_ISSUER", "PURSER_OIDC_CLIENT_ID", "PURSER_OIDC_CLIENT_SECRET", "PURSER_OIDC_ALLOW",
	failpoint.KillAt, failpoint.SwitchedOff,
}

// secret recognizes variables by whose names a secret, or an address, may be in them.
var secret = regexp.MustCompile(`(?i)(KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|_URL|_URI|_DSN|_FILE)`)

// told are addresses that the user's clients are told, and that nobody dials.
var told = []string{"PURSER_PUBLIC_URL", "PURSER_UPGRADE_URL"}

// secrets is how many variables of purser's are held back.
func (e environment) secrets() (n int) {
	for name, value := range e {
		own := strings.HasPrefix(name, "PURSER_") || strings.HasPrefix(name, "CDP_")
		if own && value != "" && secret.MatchString(name) && !slices.Contains(told, name) {
			n++
		}
	}
	return n
}

// kept reports whether a variable is passed on as it is.
func kept(name string) bool {
	return slices.Contains(harmless, name) ||
		strings.HasPrefix(name, "PURSER_") && !slices.Contains(replaced, strings.TrimSuffix(name, "_FILE")) &&
			(!secret.MatchString(name) || slices.Contains(told, name))
}

// scratchSecret is a value in place of a secret.
func scratchSecret(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return prefix + hex.EncodeToString(b[:])
}

// key is the scratch installation's PURSER_KEY; "" if it has none.
func (s *setup) key() string {
	for _, entry := range s.environ {
		if key, ok := strings.CutPrefix(entry, "PURSER_KEY="); ok {
			return key
		}
	}
	return ""
}

// environment makes the child's: nothing in it is a real secret, and no address but those of the scratch world.
func (s *setup) environment(e environment, w addresses) {
	set := environment{}
	for name, value := range e {
		if kept(name) {
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
		// With the key there is one to spend by; the others are set so that it can be seen who is told.
		if given := e[name] + e[name+"_FILE"]; given == "" && name == "PURSER_KEY" && !s.yours.standin {
			continue
		}
		set[name] = scratchSecret(prefix)
		s.secrets = append(s.secrets, set[name])
	}
	set["PURSER_ADMIN"] = s.adminAddress()
	set["PURSER_FACILITATOR_URL"], set["PURSER_RPC_URL"] = w.facilitator, w.rpc
	if failpoint.Enabled {
		set[failpoint.SwitchedOff] = e[failpoint.SwitchedOff]
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "TMPDIR", "TMP", "TEMP"} {
		set[name] = filepath.Join(s.dir, "home")
	}
	for name, value := range set {
		s.environ = append(s.environ, name+"="+value)
	}
	slices.Sort(s.environ)
}
