// Package kills ends the real program with kill -9, again and again, while customers pay at all of its doors: at every
// place of package failpoint, and at random ones. Whenever it is dead, every transfer on the chain must have its record in
// the journal; in the end the books must be the chain's, nothing may be open, and no order may have been paid for twice.
//
// Chain, facilitator and seller are honest and live in the test's process, so that nothing but purser dies; parties that
// fail and lie are package faults. A killed process leaves to the system what it has written: what a power failure loses is
// not seen here.
//
// Deaths are proved in these places. "Chosen" ones are listed beside the test:
//
//	rail            store       door                 place     test
//	exact           bbolt       all four             every     TestEveryFailpoint
//	exact           bbolt       proxy, calls of MCP  every     TestToolsAtEveryFailpoint
//	exact           bbolt       all four             random    TestKilledAtRandom
//	MPP by evm      bbolt       proxy                chosen    TestMPPAtEveryFailpoint
//	exact, MPP      bbolt       proxy                random    e2e/mpp TestKilledAtRandom, on Base and Tempo
//	exact           bbolt       withdrawals          every     TestWithdrawalAtEveryFailpoint
//	exact           bbolt       all, amid faults     random    e2e/faults TestKilledAmidFaults
//	exact           PostgreSQL  all four             random    e2e/nodes TestNodesAreKilled
//	permit2, upto   bbolt       proxy                chosen    e2e TestPermit2AtEveryFailpoint
//	exact           bbolt       proxy, held          chosen    e2e/approvals TestKilledWhileHeld, TestKilledAfterTheAnswer
//	transactions    bbolt       operator's commands  every     e2e/wallets TestApproveAtEveryFailpoint, TestCancelAtEveryFailpoint
//	notices         bbolt       none                 every     e2e/notices TestKilledBeforeDelivery
//	the store       bbolt       none                 random    boltstore TestKilled
//	the migration   both        none                 random    internal/move TestKilled
//
// The program is built with the tag failpoints, unless PURSER_FAILPOINTS_BIN names one that was. PURSER_BIN names an
// ordinary one, which must have no failpoints in it. TestKilledAtRandom takes -kills.runs and -kills.seed.
package kills
