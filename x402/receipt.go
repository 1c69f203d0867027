package x402

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/money"
)

// Receipt holds the answer of a seller or facilitator about a settlement (SettleResponse in x402
// v2). Absent fields are "" or nil.
type Receipt struct {
	Success     bool   `json:"success"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer,omitempty"`
	ErrorReason string `json:"errorReason,omitempty"`
	// ErrorMessage holds free text, up to several KB.
	ErrorMessage string          `json:"errorMessage,omitempty"`
	Amount       *money.Amount   `json:"amount,omitempty"`
	Raw          json.RawMessage `json:"-"` // as decoded
}

// DecodeReceipt reads PAYMENT-RESPONSE or X-PAYMENT-RESPONSE, plain JSON or base64: an object with
// a boolean success. Quotes and joined copies are read as by DecodeHeader. A field of the wrong type reads as absent in a refusal. In a success it is an
// error, because that is evidence that money moved.
func DecodeReceipt(value string) (Receipt, error) {
	value, err := only(value)
	if err != nil {
		return Receipt{}, fmt.Errorf("decode receipt: %w", err)
	}
	text, err := decodeText(value)
	if err != nil {
		return Receipt{}, fmt.Errorf("decode receipt: %w", err)
	}
	o, err := readObject(text)
	if err != nil {
		return Receipt{}, fmt.Errorf("decode receipt: %w", err)
	}
	r := Receipt{Raw: text}
	switch string(o.value("success")) {
	case "true":
		r.Success = true
	case "false":
	default:
		return Receipt{}, fmt.Errorf("decode receipt: %w", &FieldError{"success", "not true or false"})
	}
	if err := r.read(o); err != nil && r.Success {
		return Receipt{}, fmt.Errorf("decode receipt: %w", err)
	}
	return r, nil
}

// read sets the fields that can be read, and returns the first error.
func (r *Receipt) read(o object) (first error) {
	for _, field := range []struct {
		key    string
		target *string
	}{
		{"transaction", &r.Transaction},
		{"network", &r.Network},
		{"payer", &r.Payer},
		{"errorReason", &r.ErrorReason},
		{"errorMessage", &r.ErrorMessage},
	} {
		var err error
		if *field.target, err = o.text(field.key); err != nil && first == nil {
			first = err
		}
	}
	raw := o.value("amount")
	if raw == nil {
		return first
	}
	text, ok := strictjson.Unquote(raw)
	if !ok {
		text = string(raw) // some facilitators write a number
	}
	amount, err := money.Parse(text)
	if err != nil {
		if first == nil {
			first = &FieldError{"amount", err.Error()}
		}
		return first
	}
	r.Amount = &amount
	return first
}

// ReceiptFromHeader finds the receipt of a response in PAYMENT-RESPONSE, then in
// X-PAYMENT-RESPONSE. The bool is true when a receipt was found, even one that cannot be decoded.
func ReceiptFromHeader(h http.Header) (Receipt, bool, error) {
	for _, name := range []string{HeaderResponse, HeaderV1Response} {
		value, err := single(h, name)
		if err != nil {
			return Receipt{}, true, fmt.Errorf("decode receipt: %w", err)
		}
		if value != "" {
			r, err := DecodeReceipt(value)
			return r, true, err
		}
	}
	return Receipt{}, false, nil
}
