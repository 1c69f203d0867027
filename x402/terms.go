package x402

import "fmt"

// UnsupportedError says that a well-formed requirement asks for something that purser cannot pay.
type UnsupportedError struct {
	Kind   string // "scheme", "asset" or "network"
	Value  string // the wire value, cut to 64 printable characters
	Detail string // what exactly does not fit; "" when Value says it all
}

func (e *UnsupportedError) Error() string {
	text := fmt.Sprintf("unsupported %s %s", e.Kind, e.Value)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Supports checks r against the pinned table: scheme exact by EIP-3009, paid before or after delivery, on a known
// network, with a pinned asset whose EIP-712 domain is not contradicted. The error is a *FieldError (r.Problem) or an
// *UnsupportedError. Scheme and network are judged first, since other networks have other addresses and amounts.
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
