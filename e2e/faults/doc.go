// Package faults tests a whole purser in a world that fails and lies, package hostile of the sandbox: whatever happens,
// its books end up equal to the chain, and one order moves money at most once.
//
// Most tests run purser's handlers in this process, on a real store, where clocks can be turned and hundreds of worlds
// fit. The real program, which can be killed and whose disk can be taken away, runs as a child. The folder above tests
// purser with well-behaved programs.
package faults
