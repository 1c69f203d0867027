package x402

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
)

// wrappers names the members that frameworks put a challenge into.
var wrappers = []string{"detail", "error", "data", "paymentRequired"}

// Wrapped reports whether a member of a 402's body may hold payment terms instead of words.
func Wrapped(value json.RawMessage) bool {
	kind := strictjson.Kind(value)
	return (kind == '{' || kind == '[') && bytes.Contains(value, []byte(`"accepts"`))
}

// unwrapped returns the challenge that one object is around, and top itself if that has terms, or nothing in
// it has. Terms that differ or stand elsewhere are an error that says where they are: a guess could pay for
// something else.
func unwrapped(top object) (object, error) {
	if _, listed := top.get("accepts"); listed || isBare(top) {
		return top, nil
	}
	var all []terms
	seek(top, "", 0, &all)
	var found json.RawMessage
	for _, t := range all {
		if slices.Contains(wrappers, t.place) && t.value != nil {
			found = t.value
		}
	}
	switch {
	case len(all) == 0:
		return top, nil
	case found == nil || top.value("x402Version") != nil:
		return nil, fmt.Errorf("the terms are in %s and not at the top", places(all))
	case slices.ContainsFunc(all, func(t terms) bool { return !bytes.Equal(t.value, found) }):
		return nil, fmt.Errorf("the terms in %s differ", places(all))
	}
	return members(found)
}

// terms names a challenge that stands inside something else.
type terms struct {
	place string
	value json.RawMessage // nil: it is not a member's value
}

// places names the members in which terms stand.
func places(all []terms) string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.place
	}
	return strings.Join(names, " and ")
}

// isTerms reports whether a value is a challenge of its own.
func isTerms(value json.RawMessage) bool {
	o, err := members(value)
	return err == nil && o.value("x402Version") != nil && strictjson.Kind(o.value("accepts")) == '['
}

// Bounds of the search for terms.
const (
	maxTermsDepth = 4
	maxTerms      = 3
)

// seek lists the terms in an object.
func seek(o object, path string, depth int, all *[]terms) {
	for _, m := range o {
		if !bytes.Contains(m.value, []byte("accepts")) {
			continue
		}
		place := path + printable(m.key)
		switch inner := []byte(m.value); strictjson.Kind(inner) {
		case '"':
			text, _ := strictjson.Unquote(inner)
			if strings.Contains(text, `"accepts"`) {
				*all = append(*all, terms{place: place + " (as a text)"})
			}
		case '[':
			if first, err := firstElements(inner, 1); err == nil && len(first) == 1 && isTerms(first[0]) {
				*all = append(*all, terms{place: place + "[0]"})
			}
		case '{':
			if isTerms(inner) {
				*all = append(*all, terms{place, inner})
			} else if next, err := members(inner); err == nil && depth < maxTermsDepth {
				seek(next, place+".", depth+1, all)
			}
		}
		if len(*all) >= maxTerms {
			return
		}
	}
}
