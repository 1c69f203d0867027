// Package setting reads the values of options: what the configuration says, else a variable of the environment, else a
// default. A method of [Option] reads one form, such as a duration or a list of hosts. Errors name the option and its
// variable, and never a secret. Which options there are is not known here: caddymodule has them.
package setting

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/internal/environment"
)

// Option is configured by its name in Caddyfile and JSON. If the configuration does not mention it,
// its variable in the environment counts.
type Option struct {
	Name     string // "daily_budget"
	Variable string // "PURSER_DAILY_BUDGET"; empty for an option that has none
	Unset    string // the default, or empty
}

// New makes an option with a variable, which may be empty, and a default, which may be empty.
func New(name, variable, unset string) Option {
	return Option{Name: name, Variable: variable, Unset: unset}
}

// Named makes an option that has neither a variable nor a default.
func Named(name string) Option { return Option{Name: name} }

const (
	// Off is no limit, also where there would be one by default.
	Off = "off"
	// Unbounded removes a bound in the packages below; 0 is their default.
	Unbounded = -1
	// NoSpool is MaxSpool of package proxy for bodies in memory only.
	NoSpool = -1
	// usdcDecimals counts the decimals of USDC on every pinned network.
	usdcDecimals = 6
)

// Set resolves an option, such as with Option.URL, into a setting.
func Set[T, G any](into *T, resolve func(given G) (T, error), given G) (err error) {
	*into, err = resolve(given)
	return err
}

// String is the option's name with its variable.
func (o Option) String() string {
	if o.Variable == "" {
		return o.Name
	}
	return o.Name + " (" + o.Variable + ")"
}

// Errorf makes an error that names the option and its variable.
func (o Option) Errorf(format string, args ...any) error {
	return fmt.Errorf("purser: %s: %w", o, fmt.Errorf(format, args...))
}

// Wrapped names the option in an error; nil stays nil.
func (o Option) Wrapped(err error) error {
	if err == nil {
		return nil
	}
	return o.Errorf("%w", err)
}

// Given returns what the configuration says, with references replaced, else what the variable says. It
// is empty if the variable says nothing: a reference that is written must lead to something.
func (o Option) Given(configured string) (string, error) {
	if configured == "" {
		return strings.TrimSpace(os.Getenv(o.Variable)), nil
	}
	v, err := caddy.NewReplacer().ReplaceFunc(configured, environment.Referenced)
	if err = cmp.Or(err, environment.CheckReferences(configured, v)); err != nil {
		return "", o.Errorf("%w", err)
	}
	return strings.TrimSpace(v), nil
}

// Value is given, or else the default.
func (o Option) Value(given string) (string, error) {
	v, err := o.Given(given)
	return cmp.Or(v, o.Unset), err
}
