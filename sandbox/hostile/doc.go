// Package hostile is everything around a purser that may fail or lie: a facilitator that loses answers and invents
// transactions, a seller that takes the money and hangs up, an RPC that lags, forgets and answers for another chain. Each
// stands in front of the honest part of a sandbox and does to single calls what a script says.
//
// Scenarios is the table of what can happen and of what must hold all the same. [Scenario.Play] lets a customer meet one
// at one of purser's doors; [ReadBooks] asks purser what was paid, [ReadLedger] the chain; [Audit], [Played.Judge] and
// [Played.Meanwhile] compare the two.
//
// Starting a purser, turning its clock and letting it recover is the caller's part. Nothing here has value.
package hostile
