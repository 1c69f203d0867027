package x402

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/strictjson"
)

// maxWords bounds the texts for people in an echo that would be too large otherwise, in bytes. A large
// facilitator refuses longer descriptions.
const maxWords = 500

// echo holds what the payloads of a challenge repeat beside the requirement.
type echo struct{ resource, extensions json.RawMessage }

// of returns the offer of a requirement with this echo.
func (e echo) of(o Offer) Offer {
	o.Resource, o.Extensions = e.resource, e.extensions
	return o
}

// extensionMPP is in the challenges of sellers that speak MPP too (mppx, pympp). They refuse it without its schema.
const extensionMPP = "mppx"

// infos returns extensions with no member but info in those that have one: other sellers compare no other. All
// other bytes stay. The id, if not "", goes into the info of payment-identifier.
func infos(extensions json.RawMessage, id string) json.RawMessage {
	out := make(json.RawMessage, 0, min(len(extensions), 4<<10)+len(id))
	done, from := 0, 0
	for name, value := range strictjson.Members(extensions) {
		info, ok := infoIn(value)
		if !ok || name == extensionMPP {
			continue
		}
		for &extensions[from] != &value[0] { // it is a slice of extensions
			from++
		}
		if name == identifier && id != "" {
			info = withID(info, id)
		}
		out = append(append(append(append(out, extensions[done:from]...), `{"info":`...), info...), '}')
		done = from + len(value)
	}
	return append(out, extensions[done:]...)
}

// infoIn returns the info of an extension, unless that has none or can be read in two ways.
func infoIn(extension json.RawMessage) (json.RawMessage, bool) {
	if strictjson.Kind(extension) != '{' {
		return nil, false
	}
	body, err := members(extension)
	if err != nil {
		return nil, false
	}
	return body.get("info")
}

// identifierOf returns extensions that have nothing but the info of payment-identifier; nil without one.
func identifierOf(extensions json.RawMessage) json.RawMessage {
	if strictjson.Kind(extensions) != '{' || !json.Valid(extensions) {
		return nil
	}
	extension, err := find(extensions, identifier)
	if err != nil {
		return nil
	}
	info, ok := infoIn(extension)
	if !ok {
		return nil
	}
	return object{{identifier, object{{"info", info}}.json()}}.json()
}

// briefly returns a resource with its URL, its type and the beginning of its description. A resource
// that is short, or is no object, stays.
func briefly(resource json.RawMessage) json.RawMessage {
	if len(resource) <= maxWords || strictjson.Kind(resource) != '{' || !json.Valid(resource) {
		return resource
	}
	all, err := members(resource)
	if err != nil {
		return resource
	}
	return all.only("url", "description", "mimeType").json()
}

// brief returns an offer that is smaller where that changes nothing for sellers: they compare a requirement of
// version 2, and see none of version 1.
func (o Offer) brief() Offer {
	if o.Version != 1 {
		return o
	}
	all, err := readObject(o.Accepted)
	if err != nil {
		return o
	}
	o.Accepted = all.only("scheme", "network", "maxAmountRequired", "resource", "description", "mimeType", "payTo", "asset", "maxTimeoutSeconds", "extra").json()
	return o
}

// only returns these members of the object. It keeps the beginning of texts for people.
func (o object) only(keys ...string) object {
	var out object
	for _, key := range keys {
		value, ok := o.get(key)
		if !ok {
			continue
		}
		if key == "description" || key == "mimeType" {
			value = beginning(value)
		}
		out = append(out, member{key, value})
	}
	return out
}

// beginning cuts a string of JSON to maxWords.
func beginning(value json.RawMessage) json.RawMessage {
	text, ok := strictjson.Unquote(value)
	if !ok || len(text) <= maxWords {
		return value
	}
	end := maxWords
	for !utf8.RuneStart(text[end]) {
		end--
	}
	cut, err := json.Marshal(text[:end])
	if err != nil {
		return value
	}
	return cut
}

// json writes the object. Its keys need no escaping.
func (o object) json() json.RawMessage {
	out := json.RawMessage{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(append(out, '"'), m.key...), `":`...), m.value...)
	}
	return append(out, '}')
}

// Slim returns the offer with no more than a seller needs to take a payload. That is the requirement, and the
// id of a payment if the seller requires one.
func (o Offer) Slim() Offer {
	slim := Offer{Version: o.Version, Accepted: o.Accepted}
	if ids := identifierOf(o.Extensions); o.Version == 2 && requiresID(ids) {
		slim.Extensions = ids
	}
	return slim
}

// requiresID reports whether extensions that can be read require the id of a payment.
func requiresID(extensions json.RawMessage) bool {
	if extensions == nil {
		return false
	}
	body, err := extension(extensions, identifier)
	if err != nil {
		return false
	}
	info, err := infoOf(body)
	return err == nil && required(info)
}

// Within returns the offer as payloads of the challenge echo it, with the id where the seller wants one. If
// its JSON form would have more bytes than most allows, it loses parts that need no echo: first the ends of
// descriptions, then optional extensions. The error is that of Check, or ErrTooLarge.
func (n Identification) Within(o Offer, most int) (Offer, error) {
	if err := n.Check(o.Version); err != nil {
		return Offer{}, err
	}
	if o.Version != 2 { // no payload of another version has more
		n.whole, n.least = echo{}, echo{}
	}
	if whole := n.whole.of(o); whole.Fits(most) {
		return whole, nil
	}
	brief := o.brief()
	for _, e := range []echo{{n.least.resource, n.whole.extensions}, n.least} {
		if offer := e.of(brief); offer.Fits(most) {
			return offer, nil
		}
	}
	return Offer{}, fmt.Errorf("offer: %w: over %d bytes", ErrTooLarge, most)
}
