// Package pgstore keeps a pay.Store in PostgreSQL, for any number of nodes on one database.
//
// The operations of a node that wait together become one transaction: it locks all that they name in
// one order, reads what they ask, decides each in memory, and writes everything with arrays. Package
// pay decides, and internal/codec encodes rows. Settings, keys, wallets and all else that is written
// rarely have transactions of their own under the same locks.
package pgstore
