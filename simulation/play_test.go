package simulation

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/pay"
)

// play runs the world to its end: steps with faults, then peace until all payments are final.
func (w *world) play() {
	for range w.mix.steps {
		synctest.Wait()
		w.gather()
		w.check()
		w.step()
		w.tick()
	}
	w.makePeace()
	for _, n := range w.nodes {
		w.bury(n)
	}
	w.tasks.Wait()
}

// step draws what happens next.
func (w *world) step() {
	c := w.conductor
	luck := c.luck
	switch draw := luck.IntN(1000); {
	case draw < w.mix.deaths:
		w.kill(w.nodes[luck.IntN(len(w.nodes))])
	case draw < 30+w.mix.reorganizations && draw >= 30:
		w.reorganize()
	case draw < 60+w.mix.jumps && draw >= 60:
		w.jump(w.nodes[luck.IntN(len(w.nodes))])
	case draw < 90+w.mix.pauses && draw >= 90:
		w.pause()
	case draw < 120 && draw >= 118:
		w.takeBackup(w.nodes[luck.IntN(len(w.nodes))])
	case draw < 125+w.mix.restores && draw >= 125:
		w.restore(w.nodes[luck.IntN(len(w.nodes))])
	case draw < 118 && draw >= 110:
		w.answer()
	case draw < 150:
		w.pass(luck.Int64N(int64(w.mix.patience)))
	case draw < 200:
		w.recover(w.nodes[luck.IntN(len(w.nodes))])
	case draw < 240:
		w.settleLate()
	case draw < 300:
		w.leave()
	case draw < 420:
		w.askForSomething()
	default:
		if calls := c.waiting(); len(calls) > 0 {
			call := calls[luck.IntN(len(calls))]
			c.say("%s, %s: %s", call.node, call.actor, call.place)
			c.letGo(call)
			return
		}
		w.pass(luck.Int64N(int64(time.Second)))
	}
}

// tick keeps steps apart in time: timers that are set in different steps must not fire at one moment, because the
// runtime then draws their order.
func (w *world) tick() { time.Sleep(time.Microsecond) }

// pass lets time go by.
func (w *world) pass(d int64) {
	w.conductor.say("%v pass", time.Duration(d).Round(time.Millisecond))
	time.Sleep(time.Duration(d) + time.Microsecond)
}

// askForSomething has an agent send an order, the first time or again.
func (w *world) askForSomething() {
	var may []*order
	for _, o := range w.orders {
		if o.mayTry() {
			may = append(may, o)
		}
	}
	if len(may) > 0 {
		w.try(may[w.conductor.luck.IntN(len(may))], w.nodes[w.conductor.luck.IntN(len(w.nodes))])
	}
}

// leave has an agent stop waiting.
func (w *world) leave() {
	var running []*attempt
	for _, o := range w.orders {
		if o.running != nil {
			running = append(running, o.running)
		}
	}
	switch c := w.conductor; {
	case len(w.abandoned) > 0 && c.chance(3): // purser learns in the end that the agent has gone
		a := w.abandoned[0]
		w.abandoned = w.abandoned[1:]
		c.say("%s learns that order %d is not waited for", a.node, a.order.number)
		a.leave()
	case len(running) > 0:
		w.giveUpWaiting(running[c.luck.IntN(len(running))], c.chance(3))
	}
}

// settleLate has a seller or facilitator settle a payload that it has kept.
func (w *world) settleLate() {
	w.sellers.mu.Lock()
	kept := w.sellers.held
	w.sellers.mu.Unlock()
	if len(kept) == 0 {
		return
	}
	h := kept[w.conductor.luck.IntN(len(kept))]
	_, err := w.chain.settle(h.authorization, h.signature)
	w.conductor.say("the seller settles order %d late: %v", orderOf(h.authorization.Value.String()), err)
}

// reorganize takes back blocks. Their transfers may come again.
func (w *world) reorganize() {
	lost := w.chain.reorganize(1 + w.conductor.luck.Uint64N(safeBlocks-2))
	w.conductor.say("a reorganization takes %d transfers back", len(lost))
	for _, m := range lost {
		if sig, known := w.chain.submitted(m.authorization); known {
			w.sellers.keep(held{m.authorization, sig})
		}
	}
}

// jump sets a purser's clock.
func (w *world) jump(n *node) {
	by := time.Duration(w.conductor.luck.Int64N(int64(2*time.Hour))) - time.Hour
	w.conductor.say("the clock of %s is %v ahead", n, by.Round(time.Second))
	n.skew.Store(int64(by))
}

const (
	// rounds bounds the rounds after which each payment must be final.
	rounds = 20
	// roundTime passes in the first one, and in each later one twice as much.
	roundTime = 5 * time.Minute
)

// makePeace ends all faults, and lets agents and recovery come to an end.
func (w *world) makePeace() {
	w.conductor.say("the faults are over")
	w.peace.Store(true)
	for _, n := range w.nodes {
		n.skew.Store(0)
	}
	for _, a := range w.abandoned {
		a.leave()
	}
	w.abandoned = nil
	w.drain()
	w.insist()
	w.settle()
	w.insist() // those that a restored store has put off
	w.settle()
	for _, n := range w.nodes {
		w.audit(n)
	}
	w.check()
}

// settle lets time pass and recovery look until all payments are final.
func (w *world) settle() {
	for round := range rounds {
		time.Sleep(roundTime << min(round, 6))
		for _, n := range w.nodes {
			w.recover(n)
		}
		w.drain()
		if !slices.ContainsFunc(w.rows(w.nodes[0].store), func(p *pay.Payment) bool { return !final(p) }) {
			return
		}
	}
}

// insist has agents ask again for what they did not get.
func (w *world) insist() {
	for i := 0; i < len(w.orders); i++ { // redirects add some
		o := w.orders[i]
		for try := 0; try < 3 && o.mayTry() && !w.people.paused[o.key.ID]; try++ {
			w.try(o, w.nodes[0])
			w.drain()
		}
	}
}

// drain lets everything go on until nothing waits at a border and no agent waits for an answer.
func (w *world) drain() {
	for range 100_000 {
		synctest.Wait()
		w.gather()
		w.check()
		calls := w.conductor.waiting()
		if len(calls) > 0 {
			w.conductor.say("%s, %s: %s", calls[0].node, calls[0].actor, calls[0].place)
			w.conductor.letGo(calls[0])
			w.tick()
			continue
		}
		if !w.busy() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.violated("the world does not come to rest")
}

// busy reports whether an agent waits for an answer, or recovery is under way.
func (w *world) busy() bool {
	for _, o := range w.orders {
		if o.running != nil {
			return true
		}
	}
	for _, n := range w.nodes {
		if n.working.Load() {
			return true
		}
	}
	return false
}
