package main

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/purserpay/purser/internal/strictjson"
)

// ordered holds the members of a JSON object in the order of its source.
type ordered[T any] []member[T]

type member[T any] struct {
	Name  string
	Value T
}

// UnmarshalJSON reads an object.
func (o *ordered[T]) UnmarshalJSON(text []byte) error {
	if strictjson.Kind(text) != '{' {
		return errors.New("not an object")
	}
	for name, value := range strictjson.Members(text) {
		m := member[T]{Name: name}
		if err := json.Unmarshal(value, &m.Value); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

// MarshalJSON writes the object. Characters of HTML stay as they are.
func (o ordered[T]) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	for i, m := range o {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		out.WriteByte(separator)
		if err := e.Encode(m.Name); err != nil {
			return nil, err
		}
		out.WriteByte(':')
		if err := e.Encode(m.Value); err != nil {
			return nil, err
		}
	}
	if len(o) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// get finds a member.
func (o ordered[T]) get(name string) (value T, ok bool) {
	for _, m := range o {
		if m.Name == name {
			return m.Value, true
		}
	}
	return value, false
}
