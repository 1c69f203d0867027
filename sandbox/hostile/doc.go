// Package hostile provides the parties around purser that may fail or lie. Its facilitator loses
// answers and invents transactions. Its seller takes the money and hangs up. Its RPC lags, forgets,
// and answers for another chain. Each stands in front of the honest part of a sandbox, and a script
// decides which calls fail.
//
// Scenarios lists what can happen, and what must hold. [Scenario.Play] plays one scenario for a
// customer at one of purser's doors. [ReadBooks] reads what was paid from purser, and [ReadLedger]
// from the chain. [Audit], [Played.Judge] and [Played.Meanwhile] compare the two.
//
// The caller starts purser, turns its clock and lets it recover. Nothing here has value.
package hostile
