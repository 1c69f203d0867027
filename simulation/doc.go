// Package simulation runs pursers, their disk, a chain, a facilitator, sellers and agents in one process, in which a
// seed decides every order, fault and time.
//
// Each call that leaves purser's core waits at a border: to the store, the signer, the chain, the facilitator or a
// seller. When nothing else can happen, the conductor draws which call goes on, whether it fails, how much time
// passes, and whether a purser dies. A seed that runs again on the same commit writes the same log.
//
// Rules are checked after each step, and once more when all faults are over. `make simulate` runs many seeds, and
// `make simulate SEED=n` tells the story of one. The package has no sockets and no processes: those are e2e's.
package simulation
