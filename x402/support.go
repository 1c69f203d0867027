package x402

import (
	"fmt"
	"slices"
)

// UnsupportedError reports a well-formed requirement that purser cannot pay.
type UnsupportedError struct {
	Kind   string // "scheme", "asset" or "network"
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

// Supports checks r against the pinned table: scheme exact with EIP-3009, a known network, a pinned
// asset and its EIP-712 domain. The error is r.Problem or an *UnsupportedError. Scheme and network
// come first, because other networks have other addresses and amounts.
func (r Requirement) Supports() (Network, Asset, error) {
	network, known := NetworkByWire(r.Network)
	asset, pinned := network.Asset(r.Asset)
	var err error
	switch {
	case r.Scheme != "" && r.Scheme != "exact":
		err = unsupported("scheme", r.Scheme, "")
	case r.Network != "" && !known:
		err = unsupported("network", r.Network, "")
	case r.Problem != nil:
		err = r.Problem
	case r.TransferMethod != "" && r.TransferMethod != "eip3009":
		err = unsupported("scheme", r.Scheme, "asset transfer method "+printable(r.TransferMethod))
	case !slices.Contains([]string{"", "authorization", "upfront"}, r.PaymentFlow):
		err = unsupported("scheme", r.Scheme, "payment flow "+printable(r.PaymentFlow))
	case !pinned:
		err = unsupported("asset", r.Asset.String(), "not a known token of "+network.Name)
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
