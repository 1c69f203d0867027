package x402

import (
	"fmt"
	"slices"
)

// UnsupportedError reports a well-formed requirement, or a challenge, that purser cannot pay.
type UnsupportedError struct {
	Kind   string // "scheme", "asset", "network" or "extension"
	Value  string // the wire value, cut to 64 printable characters
	Detail string // says which part does not fit; "" when Value is enough
}

func (e *UnsupportedError) Error() string {
	text := fmt.Sprintf("unsupported %s %s", e.Kind, e.Value)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// The schemes that purser can pay.
const (
	SchemeExact = "exact" // the amount
	SchemeUpto  = "upto"  // at most the amount: the seller says afterwards how much it takes

	// SchemeCharge is the intent charge of MPP: the amount. x402 has no scheme of this name.
	SchemeCharge = "charge"
)

// Transfer methods: members of extra. Without one, exact has EIP-3009, and upto has Permit2.
const (
	methodEIP3009 = "eip3009"
	methodPermit2 = "permit2"
)

// transfers has the transfer methods of each scheme.
var transfers = map[string][]string{
	SchemeExact: {"", methodEIP3009, methodPermit2},
	SchemeUpto:  {"", methodPermit2},

	SchemeCharge: {""},
}

// flows has the payment flows of each scheme.
var flows = map[string][]string{
	SchemeExact: {"", "authorization", "upfront"},
	SchemeUpto:  {"", "authorization"},

	SchemeCharge: {""},
}

// Supports checks r against the pinned table: its scheme and transfer method, a known network, a pinned
// asset and its EIP-712 domain. The error is r.Problem or an *UnsupportedError. Scheme and network
// come first, because other networks have other addresses and amounts.
func (r Requirement) Supports() (Network, Asset, error) {
	network, known := NetworkByWire(r.Network)
	asset, pinned := network.Asset(r.Asset)
	var err error
	switch {
	case r.Scheme != "" && transfers[r.Scheme] == nil, r.Rail() == RailUpto && r.Version == 1, r.Scheme == SchemeCharge && r.Version < OtherProtocols:
		err = unsupported("scheme", r.Scheme, "")
	case r.Network != "" && !known:
		err = unsupported("network", r.Network, "")
	case network.Rail != 0:
		err = unsupported("scheme", r.Scheme, "the tokens of "+network.Name+" take no signed authorization")
	case r.Problem != nil:
		err = r.Problem
	case !slices.Contains(transfers[r.Scheme], r.TransferMethod), r.Rail().Permit2() && r.Version == 1:
		err = unsupported("scheme", r.Scheme, "asset transfer method "+printable(r.TransferMethod))
	case r.Rail() == RailUpto && r.Facilitator.IsZero():
		err = unsupported("scheme", r.Scheme, "no facilitatorAddress")
	case !slices.Contains(flows[r.Scheme], r.PaymentFlow):
		err = unsupported("scheme", r.Scheme, "payment flow "+printable(r.PaymentFlow))
	case !pinned:
		err = unsupported("asset", r.Asset.String(), "not a known token of "+network.Name)
	case r.Version == 2 && !r.Rail().Permit2() && (r.DomainName == "" || r.DomainVersion == ""):
		// Clients of version 1 knew the token's domain themselves.
		err = unsupported("asset", r.Asset.String(), "extra lacks the name or version of its EIP-712 domain")
	case r.DomainName != "" && r.DomainName != asset.Name, r.DomainVersion != "" && r.DomainVersion != asset.Version:
		err = unsupported("asset", r.Asset.String(), fmt.Sprintf(
			"its EIP-712 domain is %q version %q, not %q version %q",
			asset.Name, asset.Version, printable(r.DomainName), printable(r.DomainVersion)))
	default:
		return network, asset, nil
	}
	return Network{}, Asset{}, err
}

func unsupported(kind, value, detail string) error {
	return &UnsupportedError{kind, printable(value), detail}
}
