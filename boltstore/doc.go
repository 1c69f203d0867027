// Package boltstore keeps a pay.Store in a bbolt file with a write-ahead journal beside it. It is
// the default store of purser.
//
// One goroutine, the committer, does all writing: it runs every operation that is queued as one
// batch, and flushes the changes to the journal once (committer.go, journal_file.go). Checkpoints
// bring them to the database (working_set.go). Operations are mechanical: they load rows, let
// package pay decide, and write rows, indexes, counters and spend events together. When the files
// cannot be written, outcomes wait in memory, and are written first once they can (outage.go).
//
// Package pay makes all decisions about payments. Secrets are sealed by package vault.
package boltstore
