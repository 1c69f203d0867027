// Package sandbox runs a paid world for trying and testing: the chain of package evm, a facilitator
// that really verifies and settles on it, and a small paid API over http and https. Every part
// listens on loopback, in this process.
//
// Facilitator and seller behave like the reference programs of x402, down to their error words.
// They share only the wire format with purser's client side. A payment that works here was
// therefore understood by two implementations.
//
// Purser itself is not part of it; the command purser-sandbox puts purser in front. Nothing here
// has value, and the chain ends with the process.
package sandbox
