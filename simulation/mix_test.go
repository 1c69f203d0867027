package simulation

import (
	"math/rand/v2"
	"slices"
	"time"
)

// mix says which faults a run has, and how much of what. Each seed draws its own, so that some runs lack the fault
// that hides another one.
type mix struct {
	nodes   int
	shared  bool // the pursers share a store in memory; else each run has one purser with its file
	keys    int
	orders  int
	steps   int
	keyed   int // of 100 orders, those with an idempotency key
	doors   []door
	lies    int  // of 100 orders, those whose agent posts an invented receipt
	later   int  // of 100 orders, those that begin when the payments of the others are final
	lent    bool // all keys pay from one wallet
	replays bool // the seller delivers again for a payload that it has settled
	follows bool // agents follow redirects
	second  bool // there is a second RPC
	budget  uint64
	// asksAbove is the first order for which a person must agree; 0: for none.
	asksAbove int
	// failures bounds the payments of a key that fail in a day; 0: not at all.
	failures int
	patience time.Duration // the longest time that passes at once

	// These count the calls that fail, of 100.
	chainFails, chainLags, chainStrays, chainWaits, storeFails, signerFails, lineFails, facilitatorFails int
	// These count the steps at which something happens, of 1,000.
	deaths, reorganizations, jumps, pauses, restores, stalls int

	treatments []string
	railMix
	toolMix
	mppMix
}

// drawMix draws the faults of a run.
func drawMix(luck *rand.Rand) mix {
	some := func(most int) int { // none, in half of the runs
		if luck.IntN(2) == 0 {
			return 0
		}
		return 1 + luck.IntN(most)
	}
	m := mix{
		nodes: 1, keys: 1 + luck.IntN(3), orders: 3 + luck.IntN(10), steps: 150 + luck.IntN(450), keyed: []int{0, 50, 100}[luck.IntN(3)],
		lies: some(50), later: some(50), lent: luck.IntN(3) == 0, replays: luck.IntN(2) == 0, follows: luck.IntN(2) == 0, second: luck.IntN(3) == 0,
		patience:   []time.Duration{time.Second, 10 * time.Second, time.Minute}[luck.IntN(3)],
		chainFails: some(40), chainLags: some(40), chainStrays: some(20), chainWaits: some(50),
		storeFails: some(10), signerFails: some(20), lineFails: some(30), facilitatorFails: some(60),
		deaths: some(30), reorganizations: some(20), pauses: some(20), restores: some(8), stalls: some(30),
	}
	m.doors = [][]door{{proxyDoor}, {payerDoor}, {sellerDoor}, {proxyDoor, payerDoor, sellerDoor, operatorDoor}}[luck.IntN(4)]
	if m.keyed == 100 && !slices.Contains(m.doors, operatorDoor) { // other repeats count on the time
		m.jumps = some(10)
	}
	if luck.IntN(2) == 0 {
		m.shared, m.nodes = true, 1+luck.IntN(3)
	}
	if luck.IntN(3) == 0 {
		m.budget = basePrice * uint64(1+luck.IntN(6))
	}
	if luck.IntN(3) == 0 {
		m.failures = 1 + luck.IntN(5)
	}
	if luck.IntN(3) == 0 {
		m.asksAbove = 1 + luck.IntN(m.orders)
	}
	for _, t := range allTreatments() {
		for range some(4) {
			m.treatments = append(m.treatments, t)
		}
	}
	m.treatments = append(m.treatments, delivers)
	m.railMix = drawRails(luck)
	if m.chainFails+m.chainLags == 0 { // so that many runs have an RPC whose word is right
		m.chainStrays, m.chainWaits = 0, 0
	}
	return m
}

// prompt reports whether each word of the RPC is right, and comes at once.
func (m mix) prompt() bool { return m.chainFails+m.chainLags == 0 }

// paid draws what the seller of an order does with a payload.
func (m mix) paid(luck *rand.Rand, order int) string {
	all := m.treatments
	if m.mppOf(order).is {
		all = append(slices.Clone(all), m.insist...)
	}
	return all[luck.IntN(len(all))]
}
