package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/plainjson"
)

// allFields is the value of --json without fields.
const allFields = "all"

// jsonForm is the flag --json: whether JSON is printed, and which members of each object; none: all.
type jsonForm struct {
	on     bool
	fields []string
}

func newJSONFlag(c *cobra.Command, usage string) *jsonForm {
	f := new(jsonForm)
	f.flag(c, usage)
	return f
}

func (f *jsonForm) flag(c *cobra.Command, usage string) {
	c.Flags().Var(f, "json", usage+"; with `FIELDS`, such as id,label, only these of each object")
	c.Flags().Lookup("json").NoOptDefVal = allFields
}

// String implements [github.com/spf13/pflag.Value].
func (f *jsonForm) String() string { return strings.Join(f.fields, ",") }

// Type implements [github.com/spf13/pflag.Value].
func (f *jsonForm) Type() string { return "fields" }

// Set implements [github.com/spf13/pflag.Value]. true and false are taken as with other switches.
func (f *jsonForm) Set(text string) error {
	f.on, f.fields = text != "false", nil
	if slices.Contains([]string{allFields, "true", "false"}, text) {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return fmt.Errorf("%q: fields with commas between them, such as id,label", text)
		}
		f.fields = append(f.fields, name)
	}
	return nil
}

// chosen returns the members that were asked for of an object, which is the JSON of a T, in the order of the flag. A member
// that the object does not have is null.
func chosen[T any](f jsonForm, object []byte) ([]byte, error) {
	if len(f.fields) == 0 {
		return object, nil
	}
	known := membersOf(reflect.TypeFor[T]())
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	var text []byte
	for i, name := range f.fields {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--json: there is no field %.64q; there are %s", name, strings.Join(known, ", "))
		}
		value := all[name]
		if value == nil {
			value = json.RawMessage("null")
		}
		quoted, err := plainjson.Marshal(name)
		if err != nil {
			return nil, err
		}
		lead := byte(',')
		if i == 0 {
			lead = '{'
		}
		text = append(append(append(append(text, lead), quoted...), ':'), value...)
	}
	return append(text, '}'), nil
}

// membersOf names the members that the JSON of a type may have.
func membersOf(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported(), name == "-", f.Anonymous && name == "":
		case name == "":
			names = append(names, f.Name)
		default:
			names = append(names, name)
		}
	}
	return names
}
