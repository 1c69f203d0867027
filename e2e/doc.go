// Package e2e holds purser's black-box tests: real programs that nobody here wrote on both sides of real purser
// processes, and a chain on which tokens really move.
//
// The sellers, facilitators and paying clients are the official npm packages of x402 (folder peers); the agents are
// curl, Python, Node and Go's HTTP client. The chain runs inside the test process, so that every test can compare what
// was said with what was paid. What one folder does alone is tested there; nothing here looks inside purser.
//
// The tests need node with the packages of peers installed (make e2e-deps). PURSER_BIN and PURSER_SANDBOX_BIN name
// binaries to use instead of building them.
package e2e
