package main

import (
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

// get finds a member.
func (o ordered[T]) get(name string) (value T, ok bool) {
	for _, m := range o {
		if m.Name == name {
			return m.Value, true
		}
	}
	return value, false
}
