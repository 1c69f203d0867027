// Package soak holds the tests that run a real purser process at its full rate through all doors: for a long time (an hour
// with `make soak FOR=1h`, half a minute among the end-to-end tests), while it is reloaded, and when it is told to end.
//
// After a soak it must be as it was: memory, goroutines, files, latency and processor time per payment flat, the database
// growing by what payments take and no more. After all of them the books equal the chain.
//
// The chain, the facilitator and the sellers are in the test's process, so that purser's memory is measured alone. The
// chain is arithmetic instead of an EVM: what a block of a real one costs would bound the rate.
package soak
