// Package wallets shows with whole programs that money comes back: a wallet survives a lost API key, its
// deletion, and the loss of its machine. And it shows that many keys spend exactly what one wallet holds.
//
// Chain, facilitator and seller are those of the sandbox, in the test's process. PURSER_BIN names a purser
// that is built already.
package wallets
