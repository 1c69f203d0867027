// Package doctor plays the hostile seller and the shaky facilitator against somebody's own installation of purser, and
// says what held. It makes a scratch copy of the configuration, runs the same program with it as a child, on loopback and
// in a temporary folder, and puts a world without money around it: a ledger in place of the chain, and the sellers,
// facilitators and RPCs of package hostile that fail and lie.
//
// The attacks are those of hostile.Scenarios, under names that people understand, and some on what only a whole program
// has: its doors, its logs, its end by kill -9. Caddy is not known here: the configuration comes adapted to JSON.
package doctor
