package x402

import (
	"fmt"
	"strconv"
	"strings"
)

// Rail names a way to move money by a signed message. Stores keep its number.
type Rail uint8

// The rails.
const (
	// RailEIP3009: the token itself takes the message TransferWithAuthorization. Scheme exact.
	RailEIP3009 Rail = 0
	// RailPermit2: [Permit2] takes the message PermitWitnessTransferFrom, from [ExactProxy] only.
	// Scheme exact.
	RailPermit2 Rail = 1
	// RailUpto: Permit2 takes it from [UptoProxy] only, for an amount that the facilitator chooses.
	// Scheme upto.
	RailUpto Rail = 2

	// OtherRails is the first number of the rails that this package does not know.
	OtherRails Rail = 16
)

// The ways to pay of MPP, as lists of the operator's name them. Rails of x402 stand there with their own texts.
const (
	WayMPP            = "mpp-evm"         // the token itself takes the message, like [RailEIP3009]
	WayTempo          = "tempo"           // the payer pays the fee
	WayTempoSponsored = "tempo-sponsored" // the seller pays it
)

// railNames has the texts of rails: transfer methods of exact, and a scheme.
var railNames = map[Rail]string{RailEIP3009: "eip3009", RailPermit2: "permit2", RailUpto: "upto"}

// String returns the text of the rail: eip3009, permit2, upto, or rail- and its number.
func (r Rail) String() string {
	if name, known := railNames[r]; known {
		return name
	}
	return fmt.Sprintf("%s%d", otherRail, uint8(r))
}

// otherRail begins the texts of rails that this package does not know.
const otherRail = "rail-"

// Other reports whether r is none of this package's rails.
func (r Rail) Other() bool { return r >= OtherRails }

// Known reports whether r is one of the rails.
func (r Rail) Known() bool { _, known := railNames[r]; return known }

// Permit2 reports whether the Permit2 contract moves the money. It needs an allowance of the token
// for that, and a bit of [Authorization.NonceSlot] is its evidence.
func (r Rail) Permit2() bool { return r == RailPermit2 || r == RailUpto }

// MarshalText writes the form of String.
func (r Rail) MarshalText() ([]byte, error) {
	if !r.Known() && !r.Other() {
		return nil, fmt.Errorf("unknown %s", r)
	}
	return []byte(r.String()), nil
}

// UnmarshalText reads the form of String.
func (r *Rail) UnmarshalText(text []byte) error {
	for rail, name := range railNames {
		if name == string(text) {
			*r = rail
			return nil
		}
	}
	if n, err := strconv.ParseUint(strings.TrimPrefix(string(text), otherRail), 10, 8); err == nil && Rail(n).Other() {
		*r = Rail(n)
		return nil
	}
	return fmt.Errorf("%q is no rail", printable(string(text)))
}
