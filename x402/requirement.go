package x402

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
)

// MaxTimeoutCap bounds MaxTimeout. A longer timeout is decoded as this one.
const MaxTimeoutCap = 365 * 24 * time.Hour

// Requirement is one entry of accepts: one way to pay. Scheme and Network are wire values.
type Requirement struct {
	// Raw holds the entry as received. Payloads echo it, because sellers compare it with the text
	// they sent.
	Raw             json.RawMessage
	Version         int
	Scheme, Network string
	Amount          money.Amount // v2 amount, v1 maxAmountRequired
	Asset, PayTo    Address
	MaxTimeout      time.Duration // 0 when absent, at most MaxTimeoutCap
	// Members of extra; "" when absent.
	DomainName, DomainVersion, TransferMethod, PaymentFlow string
	Facilitator                                            Address // the only sender of scheme upto; zero when absent
	// OtherRail names the rail of an offer of another protocol, if this package does not know it; 0: it does.
	OtherRail Rail
	// Way names the way to pay in lists of the operator's; "": the rail's own text.
	Way string
	// Nonce holds the nonce that the challenge wants; nil: purser chooses one.
	Nonce *Nonce
	// OtherNonce is the one that some sellers want in its place. Nothing but a refusal tells them apart; nil: Nonce is
	// certain.
	OtherNonce *Nonce
	// Realm is the name that the seller gives itself beside its host; "": none.
	Realm string
	// Expires is the end of the offer; zero: it has none.
	Expires time.Time
	// Body holds the SHA-256 of the request's body that the offer is for; nil: any.
	Body *[32]byte
	// Members that only v1 has.
	Resource, Description string
	// Problem says why this entry cannot be paid; nil when it is well formed. All readable fields
	// are set in either case.
	Problem *FieldError
}

// FieldError names a field of a requirement, payload or receipt, and says what is wrong with it.
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
	r.Amount, err = parseWhole(o, amount)
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
		r.Resource, _ = o.text("resource") // text for people; values of another type read as absent
		r.Description, _ = o.text("description")
	}
	return r
}

// readExtra reads the token's EIP-712 domain and the transfer method.
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
	if extra.value("facilitatorAddress") != nil {
		r.Facilitator, err = parsed(extra, "facilitatorAddress", ParseAddress)
		r.note("extra.facilitatorAddress", err)
	}
}

// Rail returns the way in which the requirement wants to be paid, if Supports does not object to it.
func (r Requirement) Rail() Rail {
	switch {
	case r.OtherRail != 0:
		return r.OtherRail
	case r.Scheme == SchemeUpto:
		return RailUpto
	case r.TransferMethod == methodPermit2:
		return RailPermit2
	}
	return RailEIP3009
}

// Named returns the way to pay as lists of the operator's have it. Scheme upto is one by Permit2 there.
func (r Requirement) Named() string {
	if r.Rail().Permit2() {
		return RailPermit2.String()
	}
	return cmp.Or(r.Way, r.Rail().String())
}

// note sets Problem, unless an earlier problem is set.
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

// parsed reads a required string member and parses it.
func parsed[T any](o object, key string, parse func(string) (T, error)) (T, error) {
	var none T
	s, err := o.required(key)
	if err != nil {
		return none, err
	}
	v, err := parse(s)
	if err != nil {
		return none, wrong(o.value(key), err)
	}
	return v, nil
}

// wrong names the value that is not what it has to be. It is a stranger's, so it is cut and cleaned.
func wrong(value json.RawMessage, not error) error {
	text, is := strictjson.Unquote(value)
	if !is {
		return fmt.Errorf("%s is %w", printable(string(value)), not)
	}
	return fmt.Errorf("%q is %w", printable(text), not)
}

// parseWhole reads a required amount: a text, or a JSON number that is written as a whole one.
func parseWhole(o object, key string) (money.Amount, error) {
	if raw := o.value(key); raw != nil && money.AllDigits(string(raw)) {
		amount, err := money.Parse(string(raw))
		if err != nil {
			err = wrong(raw, err)
		}
		return amount, err
	}
	return parsed(o, key, money.Parse)
}

var errSeconds = errors.New("not a positive whole number of seconds")

// parseTimeout reads a positive whole number of seconds, which may be a text. It returns 0 when raw is nil.
func parseTimeout(raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	number := string(raw)
	if text, is := strictjson.Unquote(raw); is {
		if !money.AllDigits(text) {
			return 0, wrong(raw, errSeconds)
		}
		number = text
	}
	seconds, err := strconv.ParseFloat(number, 64) // JSON has no NaN, Inf or hexadecimal
	if err != nil || seconds != math.Trunc(seconds) || seconds < 1 {
		return 0, wrong(raw, errSeconds)
	}
	if seconds >= MaxTimeoutCap.Seconds() {
		return MaxTimeoutCap, nil
	}
	return time.Duration(seconds) * time.Second, nil
}
