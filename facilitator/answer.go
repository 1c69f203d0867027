package facilitator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
)

// Bounds on the parts of an answer that callers see, in bytes.
const (
	maxRaw    = 4 << 10 // a whole answer
	maxString = 1 << 10 // one string in it, and a reason: protocol v1 facilitators put a whole error there
	maxShown  = 200     // one string of a shortened answer
)

// answer is one read answer.
type answer struct {
	verdict bool
	amount  *money.Amount
	texts   map[string]string // the members that are strings
	raw     json.RawMessage
}

// keptMembers lists the members that a shortened answer keeps.
var keptMembers = []string{
	"isValid", "invalidReason", "invalidMessage", "success", "errorReason", "errorMessage", "transaction", "network",
	"payer", "amount", "error", "message", "errorType", "correlationId",
}

// read finds the verdict in a body: a boolean under its name. The HTTP status does not matter,
// because several facilitators refuse with a 400 or a 500. A known member that is wrong, or there
// twice, is an error.
func read(body []byte, verdict string, scrub func(string) string) (answer, error) {
	members, err := strictjson.Object(body)
	if err != nil {
		return answer{}, err
	}
	a := answer{texts: map[string]string{}, raw: summary(body, scrub)}
	switch string(members[verdict]) {
	case "true":
		a.verdict = true
	case "false":
	default:
		return answer{}, errors.New("no true or false " + verdict + statedError(members, scrub))
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
		a.texts[key] = words.Truncate(scrub(text), maxString)
	}
	if a.amount, err = amountOf(members["amount"]); err != nil {
		return answer{}, err
	}
	return a, nil
}

// statedError returns the error text of an answer without a verdict, such as a wrong key.
func statedError(members map[string]json.RawMessage, scrub func(string) string) string {
	for _, key := range []string{"errorMessage", "message", "error"} {
		var text string
		if err := json.Unmarshal(members[key], &text); err == nil && text != "" {
			return fmt.Sprintf(": %q", words.Truncate(scrub(text), maxShown))
		}
	}
	return ""
}

// amountOf reads the charged amount: a decimal string, or a number as some facilitators write it.
func amountOf(value json.RawMessage) (*money.Amount, error) {
	if value == nil || string(value) == "null" {
		return nil, nil
	}
	amount, err := money.Parse(strings.Trim(string(value), `"`))
	if err != nil {
		return nil, errors.New("amount is not an amount")
	}
	return &amount, nil
}

// summary returns an answer for the caller: compact, scrubbed, and at most maxRaw bytes long.
func summary(body []byte, scrub func(string) string) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil {
		return nil
	}
	all = scrubStrings(all, scrub).(map[string]any)
	if text := compact(all); len(text) <= maxRaw {
		return text
	}
	few := map[string]any{"truncated": true}
	for _, key := range keptMembers {
		switch value := all[key].(type) {
		case string:
			few[key] = words.Truncate(value, maxShown)
		case bool:
			few[key] = value
		}
	}
	text := compact(few)
	for _, key := range keptMembers { // escaping made some strings longer
		if _, isText := few[key].(string); isText && len(text) > maxRaw {
			delete(few, key)
			text = compact(few)
		}
	}
	return text
}

// scrubStrings scrubs and shortens every string inside a decoded value.
func scrubStrings(v any, scrub func(string) string) any {
	switch v := v.(type) {
	case string:
		return words.Truncate(scrub(v), maxString)
	case []any:
		for i := range v {
			v[i] = scrubStrings(v[i], scrub)
		}
		return v
	case map[string]any:
		tidied := make(map[string]any, len(v))
		for key, value := range v {
			tidied[words.Truncate(scrub(key), maxString)] = scrubStrings(value, scrub)
		}
		return tidied
	}
	return v
}

func compact(v any) json.RawMessage {
	text, _ := json.Marshal(v) // cannot fail: the value was decoded from JSON
	return text
}
