// Package tempo pays on a local chain of Tempo: transactions of package tempo are taken, taken once, or die, and the
// chain tells which.
package tempo
