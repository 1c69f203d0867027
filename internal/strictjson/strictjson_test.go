package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestObject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		` {"a":1,"A":{"a":[{}]},"\u0061b":null} `: nil,
		`{}`:                    nil,
		`{"a":1,"\u0061":1}`:    ErrRepeated,
		`{"a":null,"a":1}`:      ErrRepeated,
		`{"a":1} {}`:            ErrSyntax,
		`{"a":01}`:              ErrSyntax,
		``:                      ErrSyntax,
		`[{"a":1}]`:             ErrNoObject,
		`null`:                  ErrNoObject,
		"\ufeff{}":              ErrSyntax,
		`{"a":"}","b":["]\\"]}`: nil,
	} {
		if _, err := Object([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// Object reads what encoding/json reads, at any depth.
func FuzzObject(f *testing.F) {
	for _, seed := range []string{`{"a":{"b":[1,"\"}",{}],"é\n":-1.5e3},"c":[]}`, "\t{ \"a\" :\r\n[ ] }", `{"a":1,"a":2}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]json.RawMessage
		valid := json.Unmarshal([]byte(text), &want) == nil && want != nil
		got, err := Object([]byte(text))
		if errors.Is(err, ErrRepeated) {
			return
		}
		if valid != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
		for name, value := range got {
			// encoding/json mends broken UTF-8 in names.
			if known := want[strings.ToValidUTF8(name, "\ufffd")]; known != nil && string(known) != string(value) {
				t.Errorf("%q: %q is %s, want %s", text, name, value, known)
			}
			if Kind(value) != '[' {
				continue
			}
			var all []json.RawMessage
			if err := json.Unmarshal(value, &all); err != nil {
				t.Fatal(err)
			}
			elements := []json.RawMessage{}
			for e := range Elements(value) {
				elements = append(elements, e)
			}
			if !reflect.DeepEqual(all, elements) {
				t.Errorf("%s: %s, want %s", value, elements, all)
			}
		}
	})
}

func TestDecode(t *testing.T) {
	t.Parallel()
	type inner struct {
		Most int `json:"most"`
	}
	type body struct {
		Most  int              `json:"most_of_all"`
		Hosts map[string]inner `json:"hosts"`
		List  []inner          `json:"list"`
	}
	for text, want := range map[string]string{
		`{"most_of_all":1,"hosts":{"API.example":{"most":1}},"list":[{"most":1}]}`: "",
		`null`:                         "",
		`{"hosts":null}`:               "",
		`{"Most_of_all":1}`:            `unknown field "Most_of_all"`,
		`{"list":[{"MOST":1}]}`:        `unknown field "MOST"`,
		`{"hosts":{"a":{"mo st":1}}}`:  `unknown field "mo st"`,
		`{"list":{"a.b":1}}`:           `unknown field "a.b"`,
		`{"another":1}`:                `json: unknown field "another"`,
		`{"hosts":{"a":{"least":1}}}`:  `json: unknown field "least"`,
		`{"hosts":{"a":{"most":"x"}}}`: `cannot unmarshal`,
	} {
		var into body
		err := Decode([]byte(text), &into, "hosts")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
