package main

import (
	"encoding/json"
	"strings"
)

// api holds the parts of an OpenAPI document that the page shows.
type api struct {
	Info struct {
		Title, Summary, Version, Description string
	}
	Servers []struct{ URL string }
	Tags    []struct{ Name, Description string }
	Paths   ordered[pathItem]
	// Components hold the targets of every $ref.
	Components struct {
		SecuritySchemes ordered[scheme]
		Headers         ordered[header]
		Parameters      ordered[parameter]
		Examples        ordered[example]
		Responses       ordered[response]
		Schemas         ordered[schema]
	}
}

type scheme struct{ Name, Description string }

type pathItem struct {
	Parameters        []parameter
	Get, Post, Delete *operation
}

type operation struct {
	OperationID          string
	Tags                 []string
	Summary, Description string
	Security             *[]map[string][]string
	Parameters           []parameter
	RequestBody          *body
	Responses            ordered[response]
}

type parameter struct {
	Ref                   string `json:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                schema
}

type body struct {
	Required bool
	Content  ordered[media]
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Headers     ordered[header]
	Content     ordered[media]
}

type header struct {
	Ref         string `json:"$ref"`
	Description string
}

type media struct {
	Schema   schema
	Examples ordered[example]
}

type example struct {
	Ref     string `json:"$ref"`
	Summary string
	Value   json.RawMessage
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 kinds
	Description          string
	Format               string
	Pattern              string
	ContentEncoding      string
	Enum                 []any
	Const, Default       any
	Minimum              *int
	MinLength, MaxLength *int
	Required             []string
	Properties           ordered[schema]
	Items                *schema
	AnyOf                []schema
}

// kinds holds the member type of a schema: a string or several.
type kinds []string

// UnmarshalJSON reads both forms.
func (k *kinds) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*k = kinds{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(k))
}

// refName returns the last part of a $ref: the name of a component.
func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// methods returns the operations of a path in the order of the page.
func (p pathItem) methods() (there ordered[*operation]) {
	all := ordered[*operation]{{"GET", p.Get}, {"POST", p.Post}, {"DELETE", p.Delete}}
	for _, m := range all {
		if m.Value != nil {
			there = append(there, m)
		}
	}
	return there
}
