// Package tempo pays on the network Tempo: its Rail implements pay.Rail, and its Client reads the chain. A payment is
// a transaction of type 0x76 that the wallet signs and the seller sends. It moves pinned tokens by transfers with a
// memo, at once or not at all, and dies within seconds. The memo is the evidence: its log says that the transaction
// was sent.
//
// The package knows the offers of MPP for its method tempo, and no HTTP.
package tempo
