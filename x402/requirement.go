package x402

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
)

// MaxTimeoutCap is the longest MaxTimeout that a requirement is decoded to.
const MaxTimeoutCap = 365 * 24 * time.Hour

// Requirement is one way to pay, one entry of accepts. Scheme and Network are wire values.
type Requirement struct {
	// Raw is the entry as received, to be echoed untouched: sellers compare it with what they sent.
	Raw             json.RawMessage
	Version         int
	Scheme, Network string
	Amount          Amount // v2 amount, v1 maxAmountRequired
	Asset, PayTo    Address
	MaxTimeout      time.Duration // 0 when absent, at most MaxTimeoutCap
	// From extra; "" when absent.
	DomainName, DomainVersion, TransferMethod, PaymentFlow string
	// Only in v1.
	Resource, Description string
	// Problem says why this entry cannot be paid; nil when it is well formed. What could be read is filled in even so.
	Problem *FieldError
}

// FieldError says what is wrong with one field of a requirement, payload or receipt.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// decodeRequirement reads one entry of valid JSON.
func decodeRequirement(raw json.RawMessage, version int) Requirement {
	r := Requirement{Raw: raw, Version: version}
	o, err := members(raw)
	if err != nil {
		r.note("accepts", err)
		return r
	}
	r.Scheme, err = o.required("scheme")
	r.note("scheme", err)
	r.Network, err = o.required("network")
	r.note("network", err)

	amount := "amount"
	if version == 1 {
		amount = "maxAmountRequired"
	}
	r.Amount, err = parsed(o, amount, ParseAmount)
	r.note(amount, err)
	r.Asset, err = parsed(o, "asset", ParseAddress)
	r.note("asset", err)
	r.PayTo, err = parsed(o, "payTo", ParseAddress)
	if err == nil && r.PayTo.IsZero() {
		err = errors.New("the zero address")
	}
	r.note("payTo", err)
	r.MaxTimeout, err = parseTimeout(o.value("maxTimeoutSeconds"))
	r.note("maxTimeoutSeconds", err)
	r.readExtra(o.value("extra"))

	if version == 1 {
		r.Resource, _ = o.text("resource") // for people; of another type they say nothing
		r.Description, _ = o.text("description")
	}
	return r
}

// readExtra reads the token's EIP-712 domain and how the transfer is to be made.
func (r *Requirement) readExtra(raw json.RawMessage) {
	if raw == nil {
		return
	}
	extra, err := members(raw)
	if err != nil {
		r.note("extra", err)
		return
	}
	for _, field := range []struct {
		key    string
		target *string
	}{
		{"name", &r.DomainName},
		{"version", &r.DomainVersion},
		{"assetTransferMethod", &r.TransferMethod},
		{"paymentFlow", &r.PaymentFlow},
	} {
		*field.target, err = extra.text(field.key)
		r.note("extra."+field.key, err)
	}
}

// note records the first problem.
func (r *Requirement) note(field string, err error) {
	if err == nil || r.Problem != nil {
		return
	}
	reason := err.Error()
	if f, ok := errors.AsType[*FieldError](err); ok {
		reason = f.Reason
	}
	r.Problem = &FieldError{field, reason}
}

// parsed reads a required string member in its own form.
func parsed[T any](o object, key string, parse func(string) (T, error)) (T, error) {
	s, err := o.required(key)
	if err != nil {
		var none T
		return none, err
	}
	return parse(s)
}

// parseTimeout reads a whole, positive number of seconds; 0 when raw is nil.
func parseTimeout(raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(string(raw), 64) // JSON has no NaN, Inf or hexadecimal
	if err != nil || seconds != math.Trunc(seconds) || seconds < 1 {
		return 0, errors.New("not a positive whole number of seconds")
	}
	if seconds >= MaxTimeoutCap.Seconds() {
		return MaxTimeoutCap, nil
	}
	return time.Duration(seconds) * time.Second, nil
}
