package facilitator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/purserpay/purser/x402"
)

// Bounds of what callers get to see, in bytes.
const (
	maxRaw    = 4 << 10 // an answer's words
	maxString = 1 << 10 // one string in them, and a reason: protocol v1 facilitators put a whole error there
	maxShown  = 200     // one string of shown
)

// answer is one read answer.
type answer struct {
	verdict bool
	amount  *x402.Amount
	texts   map[string]string // the members that are strings
	raw     json.RawMessage
}

// shown are the members kept when an answer as a whole is too long for the caller's eyes.
var shown = []string{
	"isValid", "invalidReason", "invalidMessage", "success", "errorReason", "errorMessage", "transaction", "network",
	"payer", "amount", "error", "message", "errorType", "correlationId",
}

// read finds the verdict in a body, whatever the status it came with: several facilitators refuse with a 400 or a 500. An
// object with a boolean under the verdict's name is one; everything else is an error, and so is one whose known members
// have the wrong type or come twice, because nobody can say what it means for the money. Keys match exactly.
func read(body []byte, verdict string, scrub func(string) string) (answer, error) {
	members, err := object(body)
	if err != nil {
		return answer{}, err
	}
	a := answer{texts: map[string]string{}, raw: words(body, scrub)}
	switch string(members[verdict]) {
	case "true":
		a.verdict = true
	case "false":
	default:
		return answer{}, errors.New("no true or false " + verdict + complaint(members, scrub))
	}
	for _, key := range []string{"invalidReason", "errorReason", "transaction", "network", "payer"} {
		value := members[key]
		if value == nil || string(value) == "null" {
			continue
		}
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return answer{}, errors.New(key + " is not a string")
		}
		a.texts[key] = cut(scrub(text), maxString)
	}
	if a.amount, err = amountOf(members["amount"]); err != nil {
		return answer{}, err
	}
	return a, nil
}

// complaint is what an answer without a verdict says instead, such as that the key is wrong.
func complaint(members map[string]json.RawMessage, scrub func(string) string) string {
	for _, key := range []string{"errorMessage", "message", "error"} {
		var text string
		if err := json.Unmarshal(members[key], &text); err == nil && text != "" {
			return fmt.Sprintf(": %q", cut(scrub(text), maxShown))
		}
	}
	return ""
}

// amountOf reads what was charged: a decimal string, or a number as some write it.
func amountOf(value json.RawMessage) (*x402.Amount, error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	amount, err := x402.ParseAmount(strings.Trim(string(value), `"`))
	if err != nil {
		return nil, errors.New("amount is not an amount")
	}
	return &amount, nil
}

// object splits a body into its members. encoding/json's own struct decoding would match keys in any letter case and
// let the last of two equal keys win.
func object(body []byte) (map[string]json.RawMessage, error) {
	if !json.Valid(body) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, errors.New("not a JSON object")
		}
		key, _ := token.(string)
		if _, twice := members[key]; twice {
			return nil, errors.New("a key appears twice")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, errors.New("not a JSON object")
		}
		members[key] = value
	}
	return members, nil
}

// words is an answer for the caller's eyes: compact, scrubbed, and at most maxRaw long.
func words(body []byte, scrub func(string) string) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return nil
	}
	all = tidy(all, scrub).(map[string]any)
	if text := compact(all); len(text) <= maxRaw {
		return text
	}
	few := map[string]any{"truncated": true}
	for _, key := range shown {
		switch value := all[key].(type) {
		case string:
			few[key] = cut(value, maxShown)
		case bool:
			few[key] = value
		}
	}
	text := compact(few)
	for _, key := range shown { // strings that grew by escaping
		if _, isText := few[key].(string); isText && len(text) > maxRaw {
			delete(few, key)
			text = compact(few)
		}
	}
	return text
}

// tidy scrubs and cuts every string inside a decoded value.
func tidy(v any, scrub func(string) string) any {
	switch v := v.(type) {
	case string:
		return cut(scrub(v), maxString)
	case []any:
		for i := range v {
			v[i] = tidy(v[i], scrub)
		}
		return v
	case map[string]any:
		tidied := make(map[string]any, len(v))
		for key, value := range v {
			tidied[cut(scrub(key), maxString)] = tidy(value, scrub)
		}
		return tidied
	}
	return v
}

func compact(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return nil // decoded from JSON, so it cannot fail
	}
	return text
}

// cut shortens s to at most n bytes and a mark, without splitting a UTF-8 sequence.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
