package options_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/options"
)

type limits struct {
	Most string `json:"most,omitempty"`
}

type unexported struct{ state int } //nolint:unused // it must not be read

type module struct {
	Text  string   `json:"text,omitempty"`
	Names string   `json:"names,omitempty" form:"list"`
	List  []string `json:"list,omitempty"`
	limits2
	unexported                   //nolint:unused // its fields are not read
	Table      map[string]limits `json:"table,omitempty"`
	Fixed      map[string]string `json:"fixed,omitempty"`
	Raw        json.RawMessage   `json:"raw,omitempty"`
	Other      struct {
		A int `json:"a"`
	} `json:"other"`
	World string `json:"world,omitempty" caddyfile:"-"`
	Left  string `json:"-"`
}

type limits2 struct {
	Least string `json:"least,omitempty"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]module{
		`{}`:   {},
		`null`: {},
		`{"text":null,"list":null,"names":null,"table":null}`: {},
		`{"text":"{env.A}"}`:                   {Text: "{env.A}"},
		`{"text":7}`:                           {Text: "7"},
		`{"text":-0.250}`:                      {Text: "-0.250"},
		`{"text":1e-05}`:                       {Text: "0.00001"},
		`{"text":1.5E+3}`:                      {Text: "1500"},
		`{"text":true}`:                        {Text: "on"},
		`{"text":false,"least":0}`:             {Text: "off", limits2: limits2{"0"}},
		`{"text":"\u0061"}`:                    {Text: "a"},
		`{"names":["a","{env.B}",3]}`:          {Names: "a,{env.B},3"},
		`{"names":"a b"}`:                      {Names: "a b"},
		`{"names":80}`:                         {Names: "80"},
		`{"list":["a","b,c"]}`:                 {List: []string{"a", "b,c"}},
		`{"list":"a"}`:                         {List: []string{"a"}},
		`{"list":false}`:                       {List: []string{"off"}},
		`{"list":""}`:                          {},
		`{"table":{"a.example":{"most":0.5}}}`: {Table: map[string]limits{"a.example": {"0.5"}}},
		`{"fixed":{"A":"127.0.0.1"}}`:          {Fixed: map[string]string{"A": "127.0.0.1"}},
		`{"raw": {"x": [1]} , "other": {"a": 2}}`: {Raw: json.RawMessage(`{"x": [1]}`), Other: struct {
			A int `json:"a"`
		}{2}},
		`{"world":"sandbox"}`: {World: "sandbox"},
	} {
		var got module
		if err := options.Decode([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"txt":"a"}`:                            `"txt": unknown field`,
		`{"TEXT":"a"}`:                           `"TEXT": unknown field`,
		`{"state":1}`:                            `"state": unknown field`,
		`{"Left":"a"}`:                           `"Left": unknown field`,
		`{"text":"a","text":"b"}`:                `"text": is given twice`,
		`{"table":{"a":{},"a":{}}}`:              `"table": "a": is given twice`,
		`{"table":{"a.example":{"moust":1}}}`:    `"table": "a.example": "moust": unknown field`,
		`{"table":[]}`:                           `"table": [] is not an object`,
		`{"other":{"b":1}}`:                      `"b"`,
		`{"text":{}}`:                            `"text": {} is neither a text nor a number`,
		`{"text":["a"]}`:                         `"text": takes one value`,
		`{"text":1e400}`:                         `"text": 1e400 is out of range`,
		`{"names":[]}`:                           `"names": the list is empty`,
		`{"list":[]}`:                            `"list": the list is empty`,
		`{"list":["a"," "]}`:                     `"list": an entry of the list is empty`,
		`{"names":["a",null]}`:                   `"names": an entry of the list is empty`,
		`{"list":[["a"]]}`:                       `"list": ["a"] is neither`,
		`["a"]`:                                  `["a"] is not an object`,
		`"` + strings.Repeat("secret", 20) + `"`: "is not an object",
	} {
		var got module
		if err := options.Decode([]byte(text), &got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A Caddyfile and JSON have the same names, but those that are kept for JSON.
func TestFields(t *testing.T) {
	t.Parallel()
	var m module
	fields := options.Fields(&m)
	if len(fields) != 4 {
		t.Errorf("%v", fields)
	}
	for _, c := range []struct {
		name string
		args []string
		want error
	}{
		{"text", nil, options.ErrCount},
		{"text", []string{"a", "b"}, options.ErrCount},
		{"text", []string{" "}, options.ErrEmpty},
		{"text", []string{"a"}, nil},
		{"text", []string{"b"}, options.ErrTwice},
		{"names", []string{"a", "b"}, nil},
		{"names", []string{"c"}, options.ErrTwice},
		{"list", nil, options.ErrCount},
		{"list", []string{"a", "b"}, nil},
		{"list", []string{"c"}, nil},
		{"least", []string{"1"}, nil},
	} {
		if err := fields[c.name].Take(c.args...); err != c.want { //nolint:errorlint // as they are
			t.Errorf("%s %q: %v", c.name, c.args, err)
		}
	}
	if want := (module{Text: "a", Names: "a,b", List: []string{"a", "b", "c"}, limits2: limits2{"1"}}); !reflect.DeepEqual(m, want) {
		t.Errorf("%+v", m)
	}
}

// Readers of a configuration without its module see what the module sees, and never nothing for something.
func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]options.Text{
		`"off"`: "off", `false`: "off", `true`: "on", `7`: "7", `["a",1]`: "a,1", `null`: "", `{"a":1}`: `{"a":1}`, `[]`: `[]`,
	} {
		var got struct {
			Of options.Text `json:"of"`
		}
		if err := json.Unmarshal([]byte(`{"of":`+text+`}`), &got); err != nil || got.Of != want {
			t.Errorf("%s: %q, %v", text, got.Of, err)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil || options.TextOf(value) != string(want) {
			t.Errorf("%s: %q, %v", text, options.TextOf(value), err)
		}
	}
}
