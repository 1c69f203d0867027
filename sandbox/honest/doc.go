// Package honest implements the facilitator of the sandbox. It verifies and settles payments on any
// chain of the sandbox, refuses with the reason words of the reference facilitator, and never lies.
// It also holds what it shares with the sandbox's sellers: the wire types, and the till of a seller.
package honest
