package setting

import (
	"math"
	"net/url"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// Is reports whether an option has one value and not "off", the only other one.
func (o Option) Is(given, on string) (bool, error) {
	v, err := o.Value(given)
	if err == nil && v != on && v != Off {
		err = o.Errorf("%q is neither %s nor %s", v, on, Off)
	}
	return v == on, err
}

// Yes is an option that is true or on, or false or off; nil if it is not set.
func (o Option) Yes(given string) (*bool, error) {
	v, err := o.Value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == "true" || v == "on":
		return new(true), nil
	case v == "false" || v == Off:
		return new(false), nil
	}
	return nil, o.Errorf("%q is neither true nor false", v)
}

// URL is an option that is an absolute http or https URL, or unset.
func (o Option) URL(given string) (string, error) {
	v, err := o.Value(given)
	if err != nil || v == "" {
		return "", err
	}
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", o.Errorf("not an absolute http or https URL")
	}
	return v, nil
}

// Count is an option that is a positive number, or off, which is 0, or nil if it is not set.
func (o Option) Count(given string) (*int, error) {
	v, err := o.Value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == Off:
		return new(int), nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return nil, o.Errorf("%q is neither a positive number nor off", v)
	}
	return &n, nil
}

// Most is an option that is a positive number, or off, which is Unbounded; 0 if it is not set.
func (o Option) Most(given string) (int, error) {
	n, err := o.Count(given)
	switch {
	case err != nil || n == nil:
		return 0, err
	case *n == 0:
		return Unbounded, nil
	}
	return *n, nil
}

// Bounded is Most for what needs a bound.
func (o Option) Bounded(given string) (int, error) {
	n, err := o.Most(given)
	if n == Unbounded {
		err = o.Errorf("needs a bound")
	}
	return n, err
}

// Positive is an option that is a positive number; 0 if it is not set.
func (o Option) Positive(given string) (int, error) {
	v, err := o.Value(given)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, o.Errorf("%q is not a positive number", v)
	}
	return n, nil
}

// Cap is an option in whole USDC, or off, or nil if it is not set.
func (o Option) Cap(given string) (*policy.Cap, error) {
	v, err := o.Value(given)
	switch {
	case err != nil || v == "":
		return nil, err
	case v == Off:
		return policy.NoCap(), nil
	}
	amount, err := money.ParseUnits(v, usdcDecimals)
	if err != nil {
		return nil, o.Errorf("%q is not an amount in USDC like 0.25, and not off: %w", v, err)
	}
	return policy.CapOf(amount), nil
}

// Duration is an option such as "90s"; 0 if it is not set.
func (o Option) Duration(given string) (time.Duration, error) {
	v, err := o.Value(given)
	if err != nil || v == "" {
		return 0, err
	}
	d, err := o.parseDuration(v)
	if err == nil && d <= 0 {
		err = o.Errorf("%q is not a duration such as 90s", v)
	}
	return d, err
}

// parseDuration reads a duration. A number alone could be seconds, or nanoseconds as in Caddy's own JSON.
func (o Option) parseDuration(v string) (time.Duration, error) {
	d, err := caddy.ParseDuration(v)
	if _, number := strconv.ParseFloat(v, 64); err != nil && number == nil {
		err = o.Errorf("%q has no unit: write a text such as \"90s\"", v)
	} else if err != nil {
		err = o.Errorf("%q is not a duration such as 90s", v)
	}
	return d, err
}

// Wait is an option that is a duration, or 0 or off, which are none.
func (o Option) Wait(given string) (time.Duration, error) {
	v, err := o.Value(given)
	if err != nil || v == Off || v == "0" {
		return 0, err
	}
	d, err := o.parseDuration(v)
	if err == nil && d < 0 {
		err = o.Errorf("%q is neither a duration such as 60s nor off", v)
	}
	return d, err
}

// Retain is an option that is a time for which payments are kept, or off, which is 0.
func (o Option) Retain(given string) (time.Duration, error) {
	if v, err := o.Value(given); err != nil || v == Off {
		return 0, err
	}
	d, err := o.Duration(given)
	if err == nil && d < pay.MinRetain {
		err = o.Errorf("at least %dd, or off", pay.MinRetain/(24*time.Hour))
	}
	return d, err
}

// Size is an option that is a number of bytes; 0 if it is not set.
func (o Option) Size(given string) (int64, error) {
	v, err := o.Value(given)
	if err != nil || v == "" {
		return 0, err
	}
	n, err := humanize.ParseBytes(v)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return 0, o.Errorf("%q is not a size such as 1MiB", v)
	}
	return int64(n), nil
}

// SizeOrOff is Size, or off, which is NoSpool.
func (o Option) SizeOrOff(given string) (int64, error) {
	if v, err := o.Value(given); err != nil || v == Off {
		return NoSpool, err
	}
	return o.Size(given)
}

// Settlement is an option that says who settles; the payer does if it is not set.
func (o Option) Settlement(given string) (pay.Settlement, error) {
	v, err := o.Value(given)
	if err != nil {
		return "", err
	}
	s, err := pay.ParseSettlement(v, pay.SettlePayer)
	if err != nil {
		err = o.Errorf("%q is neither %s nor %s", v, pay.SettlePayer, pay.SettleSeller)
	}
	return s, err
}
