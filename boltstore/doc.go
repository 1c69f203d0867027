// Package boltstore is purser's default store: pay.Store in one bbolt file.
//
// One goroutine, the committer, does all writing: it runs every operation that is
// queued in one transaction and one fsync. The operations themselves are mechanical:
// they load rows, let package pay decide, and write rows, indexes, counters and spend
// events together. When the file cannot be written, outcomes are kept in memory and
// written first once it can (outage.go).
//
// No decision about payments is made here, and no secret is stored in the clear; see
// packages pay and vault.
package boltstore
