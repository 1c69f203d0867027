package caddymodule

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// option is configured by its name in Caddyfile and JSON. If the configuration does not mention it,
// its variable in the environment counts.
type option struct {
	name     string // "daily_budget"
	variable string // "PURSER_DAILY_BUDGET"; empty for an option that has none
	unset    string // the default, or empty
}

const (
	// off is no limit, also where there would be one by default.
	off = "off"
	// unbounded removes a bound in the packages below; 0 is their default.
	unbounded = -1
	// noSpool is MaxSpool of package proxy for bodies in memory only.
	noSpool = -1
	// usdcDecimals counts the decimals of USDC on every pinned network.
	usdcDecimals = 6
)

// set resolves an option, such as with option.url, into a setting.
func set[T, G any](into *T, resolve func(given G) (T, error), given G) (err error) {
	*into, err = resolve(given)
	return err
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

// wrapped names the option in an error; nil stays nil.
func (o option) wrapped(err error) error {
	if err == nil {
		return nil
	}
	return o.errorf("%w", err)
}

// given returns what the configuration says, with references replaced, else what the variable says. It
// is empty if the variable says nothing: a reference that is written must lead to something.
func (o option) given(configured string) (string, error) {
	if configured == "" {
		return strings.TrimSpace(os.Getenv(o.variable)), nil
	}
	v, err := caddy.NewReplacer().ReplaceFunc(configured, environment.Referenced)
	if err = cmp.Or(err, environment.CheckReferences(configured, v)); err != nil {
		return "", o.errorf("%w", err)
	}
	return strings.TrimSpace(v), nil
}

// value is given, or else the default.
func (o option) value(given string) (string, error) {
	v, err := o.given(given)
	return cmp.Or(v, o.unset), err
}

// is reports whether an option has one value and not "off", the only other one.
func (o option) is(given, on string) (bool, error) {
	v, err := o.value(given)
	if err == nil && v != on && v != off {
		err = o.errorf("%q is neither %s nor %s", v, on, off)
	}
	return v == on, err
}

// url is an option that is an absolute http or https URL, or unset.
func (o option) url(given string) (string, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return "", err
	}
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", o.errorf("not an absolute http or https URL")
	}
	return v, nil
}

// count is an option that is a positive number, or off, which is 0, or nil if it is not set.
func (o option) count(given string) (*int, error) {
	v, err := o.value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == off:
		return new(int), nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return nil, o.errorf("%q is neither a positive number nor off", v)
	}
	return &n, nil
}

// most is an option that is a positive number, or off, which is unbounded; 0 if it is not set.
func (o option) most(given string) (int, error) {
	n, err := o.count(given)
	switch {
	case err != nil || n == nil:
		return 0, err
	case *n == 0:
		return unbounded, nil
	}
	return *n, nil
}

// bounded is most for what needs a bound.
func (o option) bounded(given string) (int, error) {
	n, err := o.most(given)
	if n == unbounded {
		err = o.errorf("needs a bound")
	}
	return n, err
}

// cap is an option in whole USDC, or off, or nil if it is not set.
func (o option) cap(given string) (*policy.Cap, error) {
	v, err := o.value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == off:
		return policy.NoCap(), nil
	}
	amount, err := money.ParseUnits(v, usdcDecimals)
	if err != nil {
		return nil, o.errorf("%q is not an amount in USDC like 0.25, and not off: %w", v, err)
	}
	return policy.CapOf(amount), nil
}

// duration is an option such as "90s"; 0 if it is not set.
func (o option) duration(given string) (time.Duration, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return 0, err
	}
	d, err := o.parseDuration(v)
	if err == nil && d <= 0 {
		err = o.errorf("%q is not a duration such as 90s", v)
	}
	return d, err
}

// parseDuration reads a duration. A number alone could be seconds, or nanoseconds as in Caddy's own JSON.
func (o option) parseDuration(v string) (time.Duration, error) {
	d, err := caddy.ParseDuration(v)
	if _, number := strconv.ParseFloat(v, 64); err != nil && number == nil {
		err = o.errorf("%q has no unit: write a text such as \"90s\"", v)
	} else if err != nil {
		err = o.errorf("%q is not a duration such as 90s", v)
	}
	return d, err
}

// size is an option that is a number of bytes; 0 if it is not set.
func (o option) size(given string) (int64, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := humanize.ParseBytes(v)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return 0, o.errorf("%q is not a size such as 1MiB", v)
	}
	return int64(n), nil
}

// sizeOrOff is size, or off, which is noSpool.
func (o option) sizeOrOff(given string) (int64, error) {
	if v, err := o.value(given); err != nil || v == off {
		return noSpool, err
	}
	return o.size(given)
}

// isReference refuses a secret itself, which clients of GET /config/ would see.
func (o option) isReference(given string) error {
	if given == "" || environment.Placeholder(given) {
		return nil
	}
	return o.errorf("write a reference like {env.%s}; a secret itself would be visible in the configuration",
		cmp.Or(o.variable, "NAME"))
}

// secret is a reference whose value can also come from a file (`…_file`, `…_FILE`).
func (o option) secret(given, givenFile string) (string, error) {
	return o.contents(o.secretOrFile(given, givenFile))
}

// contents is the value, or what the file at a path holds.
func (o option) contents(v, path string, err error) (string, error) {
	if err != nil || path == "" {
		return v, err
	}
	return o.file().read(path)
}

// apiKey is a secret that is an API key, or unset.
func (o option) apiKey(given, givenFile string) (string, error) {
	v, err := o.secret(given, givenFile)
	if err == nil && v != "" && !pay.ValidSecret(v) {
		err = o.errorf("not an API key: 8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -")
	}
	return v, err
}

// secretOrFile is a secret's value, or the path of its file, or neither.
func (o option) secretOrFile(given, givenFile string) (v, path string, err error) {
	if err = o.isReference(given); err != nil {
		return "", "", err
	}
	return o.valueOrFile(given, givenFile)
}

// valueOrFile is a value, that of a reference to a secret, or the path of the file that holds it, or neither.
func (o option) valueOrFile(given, givenFile string) (v, path string, err error) {
	err = cmp.Or(set(&v, o.value, given), set(&path, o.file().value, givenFile))
	if err == nil && v != "" && path != "" {
		err = o.errorf("%s is set as well: keep one", cmp.Or(o.file().variable, o.file().name))
	}
	if err == nil {
		v, err = environment.Secret(os.Getenv, v)
		err = o.wrapped(err)
	}
	return v, path, err
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
	v, err := environment.ReadSecret(path)
	return v, o.wrapped(err)
}

// split splits a value at commas and spaces.
func split(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
}

// list is an option that is a list, which may be empty.
func (o option) list(given string) ([]string, error) {
	v, err := o.value(given)
	return split(v), err
}

// entries is list for restrictions. A list of nothing but separators is a mistake: taken for no
// list at all, it would allow everything.
func (o option) entries(given string) ([]string, error) {
	v, err := o.value(given)
	if err != nil {
		return nil, err
	}
	all := split(v)
	if len(all) == 0 && given+v != "" {
		return nil, o.errorf("%q names nothing", given+v)
	}
	return append([]string(nil), all...), nil // nil: it is unset
}

// all are the entries of an option that can be repeated, each of which may name several.
func (o option) all(given []string) (all []string, err error) {
	if len(given) == 0 {
		return o.entries("")
	}
	for _, g := range given {
		entries, err := o.entries(g)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// addresses is an option that is a list of addresses of payees.
func (o option) addresses(given string) (all []x402.Address, err error) {
	entries, err := o.entries(given)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		address, err := x402.ParseCheckedAddress(entry)
		if err != nil {
			return nil, o.errorf("%q: %w", entry, err)
		}
		all = append(all, address)
	}
	return all, nil
}
