// Package mppshop is a seller of the Machine Payments Protocol. It sells for the method evm, whose credential is an
// EIP-3009 authorization, and settles with a facilitator of the sandbox. It verifies what a real seller verifies.
//
// [Plays] lists how it can behave: it rotates challenges, loses answers, lies, and writes its header in odd ways. The
// first part of a path names the play. It has a codec of its own, so that a fault in purser's shows. Nothing here has
// value.
package mppshop
