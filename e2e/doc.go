// Package e2e holds purser's black-box tests. Real purser processes stand between independent
// programs on both sides, and tokens really move on a chain.
//
// The sellers, facilitators and paying clients are the official npm packages of x402 (folder
// peers). The agents are curl, Python, Node and Go's HTTP client. The chain runs inside the test
// process, so that every test can compare answers with transfers. Each folder's own tests cover its
// parts; nothing here looks inside purser.
//
// The tests need node with the packages of peers installed (make e2e-deps). PURSER_BIN and
// PURSER_SANDBOX_BIN name binaries to use instead of building them.
package e2e
