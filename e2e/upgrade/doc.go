// Package upgrade has this purser open the database of an older one, which is killed while customers pay. `make
// upgrade FROM=COMMIT` builds the older one and runs it.
//
// Without an older one, this purser comes before itself. The configuration that the older commit has shipped serves
// both. Orders that the older purser has left behind must be paid once, and the books must equal the chain.
package upgrade
