// Package session is how people sign in to the dashboard: OpenID Connect's code flow with any provider, sessions on the
// server, and the rules that keep other people's pages and programs out of them (DESIGN §5, row "dashboard session").
//
// A Gate stands in front of the pages and answers for whatever has to do with signing in. What pages show of somebody's
// keys and payments is package dashboard's; who somebody is to purser, and what they may have, is package pay's.
package session
