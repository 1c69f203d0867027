package mppshop

import (
	"encoding/json"
	"slices"
)

// Outcome says how a purchase ends for a buyer who sends one credential, up to three times.
type Outcome string

// The outcomes.
const (
	// Delivered: paid once, and delivered.
	Delivered Outcome = "delivered"
	// Taken: paid once, and not delivered.
	Taken Outcome = "taken"
	// Refused: a credential was sent, and moved nothing.
	Refused Outcome = "refused"
	// Declined: there is nothing that a buyer should pay.
	Declined Outcome = "declined"
	// Given: delivered, and not paid.
	Given Outcome = "given"
)

// Play is a way in which the shop behaves.
type Play struct {
	// Name is the first part of the path. A second part may be a number.
	Name string `json:"name"`
	// About describes it in a line.
	About string `json:"about"`
	// Outcome holds without a number in the path.
	Outcome Outcome `json:"outcome"`
	// Header takes the credential, if Authorization does not.
	Header string `json:"header,omitempty"`

	// offers changes what a 402 asks for.
	offers func(v *visit, o *offer)
	// paid answers a credential. Default: deliver.
	paid func(v *visit, one *sale)
	// receipt makes the header Payment-Receipt; "" is none.
	receipt func(v *visit, transaction string) string
	// place names the header of the credential. Default: Authorization.
	place string
	// x402: it sells by that protocol too.
	x402 bool
	// nameless: the challenges have no id. dear: the path has the price.
	nameless, dear bool
}

// MarshalJSON writes what a reader of the list needs.
func (p Play) MarshalJSON() ([]byte, error) {
	type listed struct {
		Path    string  `json:"path"`
		About   string  `json:"about"`
		Outcome Outcome `json:"outcome"`
	}
	return json.Marshal(listed{"/" + p.Name, p.About, p.Outcome})
}

// PlayNamed returns the play of a name. It panics without one, because names are in the code of tests.
func PlayNamed(name string) Play {
	all := Plays()
	i := slices.IndexFunc(all, func(p Play) bool { return p.Name == name })
	if i < 0 {
		panic("no play " + name)
	}
	return all[i]
}

// Plays lists all plays. Each answers every request without a credential by a fresh challenge.
func Plays() []Play {
	return slices.Concat(rotations(), losses(), spellings(), protocols(), places(), digests(), defects(), neighbours(), receipts())
}
