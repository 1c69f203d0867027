package session

// Role says what a visitor may do. Viewer, Approver and Operator are an order: each may do what the
// one before it may, and more. Owner is the role of people in their own organization.
type Role string

const (
	// Viewer sees and changes nothing.
	Viewer Role = "viewer"
	// Approver also answers payments that wait for approval.
	Approver Role = "approver"
	// Owner does everything within one organization.
	Owner Role = "owner"
	// Operator does everything in all organizations, and with the operator's own keys.
	Operator Role = "operator"
)

// Act is a kind of what visitors do.
type Act string

// The acts, from the least to the most.
const (
	See     Act = "see"     // pages and exports
	Approve Act = "approve" // answer a payment that waits for approval
	Change  Act = "change"  // keys, limits and wallets
	Move    Act = "move"    // money out of a wallet
)

// May reports whether the visitor's role allows an act, on what the visitor sees. An unknown role may
// do nothing.
func (v Visitor) May(act Act) bool {
	switch v.Role {
	case Viewer:
		return act == See
	case Approver:
		return act == See || act == Approve
	case Owner, Operator:
		return act == See || act == Approve || act == Change || act == Move
	}
	return false
}
