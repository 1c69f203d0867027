// Package sandbox is a paid world for trying and testing: the chain of package evm, a facilitator that really verifies
// and settles on it, and a small paid API over http and https. Everything listens on loopback, in this process.
//
// The facilitator and the seller behave as the reference programs of x402 do, words included, but share no code with
// purser's own client side except the wire format: a payment that works here was understood by both sides.
//
// Purser itself is not part of it: the command purser-sandbox puts it in front. Nothing here has value; the chain ends
// with the process.
package sandbox
