// Package memory keeps keys, wallets, payments and spend in memory: a pay.Store for tests. It
// passes pay/storetest like every other store, and loses everything with the process.
//
// One mutex guards all rows. Begin calls pay.Begin.Decide under it. Listings look at every row.
// Stored rows are never changed in place: a write puts a new row in the place of the old one, and
// callers get copies.
package memory
