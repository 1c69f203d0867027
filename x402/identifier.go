package x402

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/internal/strictjson"
)

// identifier names the extension by which a seller knows a payload that it has answered before. It
// is a member of the v2 extensions: {"info":{"required":bool},"schema":{…}}, and the payer adds
// info.id (x402's specification, extension payment-identifier).
const identifier = "payment-identifier"

// Identification says where the payloads of a challenge name their payment, and how. It is the same
// for all requirements of the challenge.
type Identification struct {
	whole, least echo // with the id, if there is a place for it; least has only what must be echoed
	required     bool
	err          error // says why the id cannot be added
}

// Identify finds the place of the payer's id in the extension payment-identifier, if the seller
// advertises that.
func (c Challenge) Identify(id string) Identification {
	n := Identification{whole: echo{c.Resource, c.Extensions}, least: echo{resource: briefly(c.Resource)}}
	switch {
	case strictjson.Kind(c.Extensions) != '{':
	case !json.Valid(c.Extensions):
		n.required, n.err = true, errors.New("the extensions are not valid JSON")
	default:
		var place bool
		place, n.required, n.err = placeOfID(c.Extensions, id)
		if !place {
			id = ""
		}
		n.whole.extensions = infos(c.Extensions, id)
		if place {
			n.least.extensions = identifierOf(n.whole.extensions)
		}
	}
	return n
}

// Check returns an *UnsupportedError if the seller requires an id that payloads of a version cannot have.
func (n Identification) Check(version int) error {
	switch {
	case !n.required, version >= OtherProtocols: // its offers stand beside those of x402
		return nil
	case n.err != nil:
		return unsupported("extension", identifier, n.err.Error())
	case version != 2: // an entry of version 1 in a challenge of version 2
		return unsupported("extension", identifier, "payloads of version 1 have no extensions")
	}
	return nil
}

// withID inserts the id as the first member of info.
func withID(info json.RawMessage, id string) json.RawMessage {
	out := make(json.RawMessage, 0, len(info)+len(id)+len(`"id":"",`))
	out = append(append(append(out, `{"id":"`...), id...), '"')
	if strictjson.Kind(info[1:]) != '}' {
		out = append(out, ',')
	}
	return append(out, info[1:]...)
}

// placeOfID reports whether the id has a place in the extension, and whether the seller requires
// one. Without a place the error says why; it is nil when the extension is not advertised. An
// extension that readers could read in two ways counts as required.
func placeOfID(extensions json.RawMessage, id string) (place, needed bool, err error) {
	extension, err := find(extensions, identifier)
	if extension == nil || err != nil {
		return false, err != nil, err
	}
	if strictjson.Kind(extension) != '{' {
		return false, false, errors.New("it is not an object")
	}
	body, err := members(extension)
	if err != nil {
		return false, true, err
	}
	raw := body.value("info")
	if strictjson.Kind(raw) != '{' {
		return false, false, errors.New("its info is not an object")
	}
	info, err := members(raw)
	if err != nil {
		return false, true, err
	}
	needed = required(info)
	if _, taken := info.get("id"); taken {
		return false, needed, errors.New("its info has an id already")
	}
	err = allowsID(body.value("schema"), info, id)
	return err == nil, needed, err
}

// required reports whether the info of payment-identifier requires an id. As the specification has it, false is
// the default.
func required(info object) bool {
	return info.value("required") != nil && string(info.value("required")) != "false"
}

// find returns the value of a member of a valid JSON object, or nil when there is none. It fails
// when there are two.
func find(text json.RawMessage, key string) (value json.RawMessage, err error) {
	for name, found := range strictjson.Members(text) {
		if name != key {
			continue
		}
		if value != nil {
			return nil, fmt.Errorf("key %q appears twice", key)
		}
		value = found
	}
	return value, nil
}

// allowsID checks the id against the JSON schema that the seller advertises for info. It knows the
// keywords that such schemas use. With another one the id may be forbidden, so it counts as that.
func allowsID(schema json.RawMessage, info object, id string) error {
	if !validID(id) {
		return errors.New("an id has 16 to 128 letters, digits, - and _")
	}
	if schema == nil || string(schema) == "null" || string(schema) == "true" {
		return nil
	}
	keywords, err := members(schema)
	if err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	var listed bool
	for _, k := range keywords {
		switch k.key {
		case "$schema", "$id", "$comment", "title", "description", "examples", "default":
		case "type":
			err = unless(string(k.value) == `"object"`, k)
		case "properties":
			listed, err = allowsProperty(k.value, id)
		case "additionalProperties": // below, when properties is known
		case "required":
			err = unless(onlyNames(k.value, append(slices.Clone(info), member{key: "id"})), k)
		default:
			err = unless(false, k)
		}
		if err != nil {
			return err
		}
	}
	if others := keywords.value("additionalProperties"); others != nil && string(others) != "true" && !listed {
		return errors.New("its schema allows no id")
	}
	return nil
}

// allowsProperty checks the id against the properties of a schema, and reports whether they list it.
func allowsProperty(properties json.RawMessage, id string) (listed bool, err error) {
	all, err := members(properties)
	if err != nil {
		return false, fmt.Errorf("the properties of its schema: %w", err)
	}
	schema, listed := all.get("id")
	if !listed || string(schema) == "true" {
		return listed, nil
	}
	keywords, err := members(schema)
	if err != nil {
		return true, fmt.Errorf("its schema of the id: %w", err)
	}
	for _, k := range keywords {
		fits := false
		switch k.key {
		case "$comment", "title", "description", "examples", "default":
			fits = true
		case "type":
			fits = string(k.value) == `"string"`
		case "minLength":
			least, err := strconv.ParseFloat(string(k.value), 64)
			fits = err == nil && float64(len(id)) >= least
		case "maxLength":
			most, err := strconv.ParseFloat(string(k.value), 64)
			fits = err == nil && float64(len(id)) <= most
		case "pattern":
			pattern, text := strictjson.Unquote(k.value)
			fits = text && matches(pattern, id)
		}
		if err := unless(fits, k); err != nil {
			return true, err
		}
	}
	return true, nil
}

// validID reports whether the extension allows an id of this form.
func validID(id string) bool {
	return len(id) >= 16 && len(id) <= 128 && strings.IndexFunc(id, func(r rune) bool { return r >= 128 || !idByte(byte(r)) }) < 0
}

// idByte reports whether an id may have a character.
func idByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// unless returns an error that names the keyword of a schema, unless the id fits it.
func unless(fits bool, keyword member) error {
	if fits {
		return nil
	}
	return fmt.Errorf("its schema does not allow the id: %s", printable(keyword.key))
}

// onlyNames reports whether names is an array of strings that are all keys of the object.
func onlyNames(names json.RawMessage, of object) bool {
	list, err := elements(names, maxMembers)
	for _, raw := range list {
		name, ok := strictjson.Unquote(raw)
		if _, known := of.get(name); !ok || !known {
			return false
		}
	}
	return err == nil
}
