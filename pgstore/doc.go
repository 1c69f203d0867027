// Package pgstore keeps a pay.Store in PostgreSQL, for any number of nodes on one database.
//
// The operations of a node that wait together become one transaction: it locks all that they name in
// one order, reads what they ask, decides each in memory, and writes everything with arrays. The
// decisions are those of pay; the rows are those of internal/codec. Settings, keys, wallets and the
// rest that is written rarely have transactions of their own under the same locks.
package pgstore
