package pay

import (
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Means says by which protocol a payment is asked for, and by which rail its money moves. All views have their words
// from here.
type Means struct {
	// Protocol is x402 or mpp. "": no seller has asked, or only the chain tells of the payment.
	Protocol string `json:"protocol,omitempty"`
	// Rail is a word of PURSER_RAILS. A payment by the rail of a network has that network's name, sponsored or not.
	Rail string `json:"rail"`
}

// The protocols, by [Means].
const (
	ProtocolX402 = "x402"
	ProtocolMPP  = "mpp"
)

// Spoken writes the protocol for people; "" where there is none.
func (m Means) Spoken() string {
	if m.Protocol == ProtocolMPP {
		return "MPP"
	}
	return m.Protocol
}

// Words writes both for people, such as "x402 by eip3009".
func (m Means) Words() string {
	if m.Protocol == "" {
		return "by " + m.Rail
	}
	return m.Spoken() + " by " + m.Rail
}

// Means returns the payment's. It is the same for ever, because nothing that is dropped tells it.
func (p *Payment) Means() Means {
	m := Means{Protocol: p.Terms.Protocol()}
	if (p.Door == policy.DoorOperator || p.Reconciled) && m.Protocol == ProtocolX402 {
		m.Protocol = "" // the scheme is purser's own word
	}
	switch rail := p.Authorization.Rail; {
	case rail.Permit2():
		m.Rail = x402.RailPermit2.String()
	case rail.Other():
		m.Rail = p.Terms.Network // no other rail has it
	case m.Protocol == ProtocolMPP:
		m.Rail = x402.WayMPP
	default:
		m.Rail = rail.String()
	}
	return m
}

// Usual lists the means of payments for whom settles on the networks of x402, so that metrics can count each from the
// start.
func (s Settlement) Usual() []Means {
	exact, permit2 := Means{ProtocolX402, x402.RailEIP3009.String()}, Means{ProtocolX402, x402.RailPermit2.String()}
	if s == SettlePayer {
		return []Means{exact, permit2, {"", exact.Rail}} // of withdrawals, too
	}
	return []Means{exact, permit2, {ProtocolMPP, x402.WayMPP}}
}

// meansOf returns those of an offer.
func meansOf(r x402.Requirement) Means { return Means{Terms{Scheme: r.Scheme}.Protocol(), r.Named()} }

// Protocol returns the one in which a seller asks for the terms: see [Means].
func (t Terms) Protocol() string {
	if t.Scheme == x402.SchemeCharge {
		return ProtocolMPP
	}
	return ProtocolX402
}
