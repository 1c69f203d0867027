// Package mpp runs buyers against official sellers of the Machine Payments Protocol, and against the sandbox's own
// seller, on the chain of a sandbox and on a local chain of Tempo. It counts purchases, answers, credentials and debits.
//
// The official clients buy first, to prove that the sellers are right. Then programs that know nothing of MPP buy behind
// purser, also while it is killed at random. The books must be those of both chains, fees for gas too.
//
// TestKilledAtRandom takes -kills.runs and -kills.seed. With -compare, TestComparison writes the figures of docs/performance.md.
package mpp
