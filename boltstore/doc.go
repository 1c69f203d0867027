// Package boltstore keeps a pay.Store in one bbolt file. It is the default store of purser.
//
// One goroutine, the committer, does all writing: it runs every operation that is queued in one
// transaction and one fsync. Operations are mechanical: they load rows, let package pay decide,
// and write rows, indexes, counters and spend events together. When the file cannot be written,
// outcomes wait in memory, and are written first once it can (outage.go).
//
// Package pay makes all decisions about payments. Secrets are sealed by package vault.
package boltstore
