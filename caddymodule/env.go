package caddymodule

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// option is something that can be configured: by its name in Caddyfile and JSON, or by a
// variable of the environment when the configuration does not mention it.
type option struct {
	name     string // "daily_budget"
	variable string // "PURSER_DAILY_BUDGET"; empty for an option that has none
}

// String is the option's name with its variable.
func (o option) String() string {
	if o.variable == "" {
		return o.name
	}
	return o.name + " (" + o.variable + ")"
}

// errorf makes an error that names the option and its variable.
func (o option) errorf(format string, args ...any) error {
	return fmt.Errorf("purser: %s: %w", o, fmt.Errorf(format, args...))
}

// value returns the value of an option, with placeholders replaced. given is the configuration's
// value; empty means the variable, if it has one. An empty result is an option
// that is not set.
func (o option) value(given string) (string, error) {
	if given == "" {
		if o.variable == "" {
			return "", nil
		}
		given = "{env." + o.variable + "}"
	}
	v, err := caddy.NewReplacer().ReplaceOrErr(given, false, true)
	if err != nil {
		return "", o.errorf("%w", err)
	}
	return strings.TrimSpace(v), nil
}

// or is value with a default.
func (o option) or(given, unset string) (string, error) {
	v, err := o.value(given)
	if v == "" {
		v = unset
	}
	return v, err
}

// placeholder is a value that is nothing but one reference.
var placeholder = regexp.MustCompile(`^\{[^{}]+\}$`)

// maxSecretFile bounds what is read from the file of a secret.
const maxSecretFile = 64 << 10

// reference is value for a secret. given has to be a reference, because clients of GET /config/ would
// see the secret itself.
func (o option) reference(given string) (string, error) {
	if given != "" && !placeholder.MatchString(given) {
		return "", o.errorf("write a reference like {env.%s}; a secret itself would be visible in the configuration",
			cmp.Or(o.variable, "NAME"))
	}
	return o.value(given)
}

// secret is a reference whose value can also come from a file (`…_file`, `…_FILE`).
func (o option) secret(given, givenFile string) (string, error) {
	v, path, err := o.secretOrFile(given, givenFile)
	if err != nil || path == "" {
		return v, err
	}
	return o.file().read(path)
}

// secretOrFile is a secret's value, or the path of its file, or neither.
func (o option) secretOrFile(given, givenFile string) (v, path string, err error) {
	if v, err = o.reference(given); err != nil {
		return "", "", err
	}
	if path, err = o.file().value(givenFile); err != nil {
		return "", "", err
	}
	if v != "" && path != "" {
		return "", "", o.errorf("%s is set as well: keep one", cmp.Or(o.file().variable, o.file().name))
	}
	return v, path, nil
}

// file is the option that names a secret's file.
func (o option) file() option {
	f := option{name: o.name + "_file"}
	if o.variable != "" {
		f.variable = o.variable + "_FILE"
	}
	return f
}

// read returns the contents of a secret's file. Its errors never contain any of them.
func (o option) read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", o.errorf("%w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", o.errorf("%w", err)
	}
	if len(text) > maxSecretFile {
		return "", o.errorf("%s is too large for a secret", path)
	}
	v := strings.TrimSpace(string(text))
	if v == "" {
		return "", o.errorf("%s is empty", path)
	}
	return v, nil
}

// list splits a value at commas and spaces.
func list(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
}

// structural are the variables that the shipped Caddyfile reads while it is parsed,
// where Caddy takes an empty variable for a value.
var structural = []string{
	"PURSER_BIND", "PURSER_PORT", "PURSER_UPSTREAM_BIND", "PURSER_UPSTREAM_PORT",
	"PURSER_METRICS_BIND", "PURSER_METRICS_PORT", "PURSER_ADMIN", "PURSER_DATA_DIR",
}

// checkEnvironment refuses variables that are set to nothing and that Caddy would not
// treat as unset: an empty bind address leaves a purser that runs and listens nowhere,
// an empty port is port 80.
func checkEnvironment() error {
	for _, name := range structural {
		if v, set := os.LookupEnv(name); set && v == "" {
			return fmt.Errorf("purser: %s is set to nothing, which Caddy does not treat as unset: unset it or give it a value", name)
		}
	}
	return nil
}

// UnsetEmptyVariables unsets purser's variables that are set to nothing, as compose files
// do. A main function calls it before Caddy starts.
func UnsetEmptyVariables() {
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" && strings.HasPrefix(name, "PURSER_") {
			_ = os.Unsetenv(name)
		}
	}
}
