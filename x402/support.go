package x402

import "fmt"

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

// Supports checks r against the pinned table. It accepts scheme exact with EIP-3009, paid before or
// after delivery, on a known network, with a pinned asset. The EIP-712 domain that r names must be
// the asset's. The error is r.Problem or an *UnsupportedError. Scheme and network are checked
// first, because other networks have other forms of addresses and amounts.
func (r Requirement) Supports() (Network, Asset, error) {
	if r.Scheme != "" && r.Scheme != "exact" {
		return Network{}, Asset{}, unsupported("scheme", r.Scheme, "")
	}
	network, known := NetworkByWire(r.Network)
	if r.Network != "" && !known {
		return Network{}, Asset{}, unsupported("network", r.Network, "")
	}
	if r.Problem != nil {
		return Network{}, Asset{}, r.Problem
	}
	switch r.TransferMethod {
	case "", "eip3009":
	default:
		return Network{}, Asset{}, unsupported("scheme", r.Scheme, "asset transfer method "+printable(r.TransferMethod))
	}
	switch r.PaymentFlow {
	case "", "authorization", "upfront":
	default:
		return Network{}, Asset{}, unsupported("scheme", r.Scheme, "payment flow "+printable(r.PaymentFlow))
	}
	asset, known := network.Asset(r.Asset)
	if !known {
		return Network{}, Asset{}, unsupported("asset", r.Asset.String(), "not a known token of "+network.Name)
	}
	if (r.DomainName != "" && r.DomainName != asset.Name) || (r.DomainVersion != "" && r.DomainVersion != asset.Version) {
		return Network{}, Asset{}, unsupported("asset", r.Asset.String(), fmt.Sprintf(
			"its EIP-712 domain is %q version %q, not %q version %q",
			asset.Name, asset.Version, printable(r.DomainName), printable(r.DomainVersion)))
	}
	return network, asset, nil
}

func unsupported(kind, value, detail string) error {
	return &UnsupportedError{kind, printable(value), detail}
}
