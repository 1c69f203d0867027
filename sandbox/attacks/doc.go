// Package attacks attacks a copy of the user's own purser and reports which protections held. It
// makes a scratch copy of the configuration. It runs the user's program with that copy as a child
// process, on loopback and in a temporary folder. A world without money surrounds the copy: a
// ledger instead of the chain, and the lying and failing sellers, facilitators and RPCs of package
// hostile.
//
// Most attacks are hostile.Scenarios under names for users. Others try parts that only a whole
// program has: its doors, its logs, and its end by kill -9. The package knows no Caddy; the
// configuration comes adapted to JSON.
package attacks
