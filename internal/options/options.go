// Package options fills the options of modules, which are structs of texts, from JSON. An option has
// one name, that of its field in JSON, and one form, the text of the Caddyfile. The meaning of the
// texts is not known here.
package options

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
)

// Field is an option that a struct holds: a text, or a list of texts.
type Field struct {
	text *string
	list *[]string // nil for a text
	// several marks a text that holds a list, with commas between its entries. The field's tag is form:"list".
	several bool
}

// Errors of [Field].
var (
	ErrTwice = errors.New("is given twice")
	ErrCount = errors.New("takes one value")
	ErrEmpty = errors.New("nothing is written behind it; leave the option out if that is meant")
)

// Fields returns the options of a struct that a Caddyfile may name. The tag caddyfile:"-" keeps a field
// for JSON. of points to the struct.
func Fields(of any) map[string]Field {
	all := map[string]Field{}
	for name, f := range members(reflect.ValueOf(of).Elem()) {
		if option, ok := f.option(); ok && f.tag.Get("caddyfile") != "-" {
			all[name] = option
		}
	}
	return all
}

// Given reports whether the option has a value that another one would replace. More entries only make
// a list longer.
func (f Field) Given() bool { return f.list == nil && *f.text != "" }

// Take sets the option to the arguments that a Caddyfile has for it, one or, for a list, several.
func (f Field) Take(args ...string) error {
	switch {
	case f.Given():
		return ErrTwice
	case len(args) == 0, len(args) > 1 && f.list == nil && !f.several:
		return ErrCount
	case strings.TrimSpace(strings.Join(args, "")) == "":
		return ErrEmpty
	case f.list != nil:
		*f.list = append(*f.list, args...)
	default:
		*f.text = strings.Join(args, ",")
	}
	return nil
}

// member is a field that JSON knows.
type member struct {
	reflect.Value
	tag reflect.StructTag
}

func (m member) option() (Field, bool) {
	switch field := m.Addr().Interface().(type) {
	case *string:
		return Field{text: field, several: m.tag.Get("form") == "list"}, true
	case *[]string:
		return Field{list: field}, true
	}
	return Field{}, false
}

// members yields the fields of a struct by their names in JSON, those of embedded structs too.
func members(s reflect.Value) iter.Seq2[string, member] {
	return func(yield func(string, member) bool) {
		for i := range s.NumField() {
			of := s.Type().Field(i)
			name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
			switch {
			case of.Anonymous && name == "" && of.Type.Kind() == reflect.Struct:
				for inner, m := range members(s.Field(i)) {
					if !yield(inner, m) {
						return
					}
				}
			case of.IsExported() && name != "" && name != "-":
				if !yield(name, member{s.Field(i), of.Tag}) {
					return
				}
			}
		}
	}
}

// Decode reads a valid JSON object into the struct that into points to. A field that holds a text takes
// a number as well, or true and false, which are on and off; one that holds a list takes an array, or its only
// entry. Unknown fields, fields that are given twice and empty lists are errors, which name the field.
// null leaves a field as it is. Fields of other types are read as encoding/json reads them, strictly.
func Decode(text []byte, into any) error {
	if strictjson.Kind(text) == 'n' {
		return nil
	}
	return decodeStruct(text, reflect.ValueOf(into).Elem())
}

func decodeStruct(text []byte, into reflect.Value) error {
	known := map[string]member{}
	for name, m := range members(into) {
		known[name] = m
	}
	return each(text, func(name string, value json.RawMessage) error {
		if m, ok := known[name]; ok {
			return m.decode(value)
		}
		return errUnknown
	})
}

var errUnknown = errors.New("unknown field")

// each takes the members of an object, whose names differ. Its errors name the member.
func each(text []byte, take func(name string, value json.RawMessage) error) error {
	if strictjson.Kind(text) != '{' {
		return fmt.Errorf("%.64s is not an object", text)
	}
	seen := map[string]bool{}
	for name, value := range strictjson.Members(text) {
		err := ErrTwice
		if !seen[name] {
			err = take(name, value)
		}
		if err != nil {
			return fmt.Errorf("%.64q: %w", name, err)
		}
		seen[name] = true
	}
	return nil
}

func (m member) decode(value json.RawMessage) error {
	if strictjson.Kind(value) == 'n' {
		return nil
	}
	if f, ok := m.option(); ok {
		return f.decode(value)
	}
	if m.Kind() == reflect.Map {
		return m.decodeMap(value)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	return d.Decode(m.Addr().Interface())
}

// decodeMap reads an object into a map of texts or of structs.
func (m member) decodeMap(value json.RawMessage) error {
	all := reflect.MakeMap(m.Type())
	err := each(value, func(name string, value json.RawMessage) error {
		one := reflect.New(m.Type().Elem()).Elem()
		var err error
		if one.Kind() == reflect.Struct {
			err = decodeStruct(value, one)
		} else {
			err = member{Value: one}.decode(value)
		}
		all.SetMapIndex(reflect.ValueOf(name), one)
		return err
	})
	if err == nil {
		m.Set(all)
	}
	return err
}

func (f Field) decode(value json.RawMessage) error {
	if strictjson.Kind(value) != '[' {
		text, err := textOf(value)
		if f.list == nil {
			*f.text = text
		} else if text != "" {
			*f.list = []string{text}
		}
		return err
	}
	if f.list == nil && !f.several {
		return ErrCount
	}
	entries, err := entriesOf(value)
	if f.list == nil {
		*f.text = strings.Join(entries, ",")
	} else {
		*f.list = entries
	}
	return err
}

// entriesOf reads an array of values, none of which is empty: a list that lost its entries would lift a
// restriction.
func entriesOf(value json.RawMessage) (entries []string, err error) {
	for element := range strictjson.Elements(value) {
		text, err := textOf(element)
		if err == nil && strings.TrimSpace(text) == "" {
			err = errors.New("an entry of the list is empty")
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, text)
	}
	if len(entries) == 0 {
		err = errors.New("the list is empty; leave the option out if that is meant")
	}
	return entries, err
}

// textOf returns what a Caddyfile would have for a value.
func textOf(value json.RawMessage) (string, error) {
	switch strictjson.Kind(value) {
	case '"':
		text, _ := strictjson.Unquote(value)
		return text, nil
	case 't':
		return "on", nil
	case 'f':
		return "off", nil
	case 'n':
		return "", nil
	case '{', '[':
		return "", fmt.Errorf("%.64s is neither a text nor a number, true or false", value)
	}
	return decimal(string(bytes.TrimSpace(value)))
}

// maxExponent bounds the zeros of a number that is written with an exponent.
const maxExponent = 30

// decimal writes a number without an exponent: programs write a small price as 1e-05.
func decimal(number string) (string, error) {
	_, exponent, has := strings.Cut(strings.ToLower(number), "e")
	if !has {
		return number, nil
	}
	if n, err := strconv.Atoi(exponent); err != nil || max(n, -n) > maxExponent {
		return "", fmt.Errorf("%.64s is out of range", number)
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return "", fmt.Errorf("%.64s is not a number", number)
	}
	digits, _ := r.FloatPrec()
	return r.FloatString(digits), nil
}

// Text is an option in JSON for those who read a configuration without its module. It takes every form
// that [Decode] takes. Any other value stays JSON, which no option has as its text.
type Text string

// UnmarshalJSON implements json.Unmarshaler. It does not fail.
func (t *Text) UnmarshalJSON(value []byte) error {
	var text string
	f := Field{text: &text, several: true}
	if err := f.decode(value); err != nil {
		text = string(value)
	}
	*t = Text(text)
	return nil
}

// TextOf returns the text of a value that encoding/json has decoded into an any; "" for nil.
func TextOf(value any) string {
	raw, _ := json.Marshal(value) // what came from JSON
	var t Text
	_ = t.UnmarshalJSON(raw)
	return string(t)
}
