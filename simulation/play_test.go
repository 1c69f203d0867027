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

// step draws an event.
func (w *world) step() {
	luck, one := w.conductor.luck, func(do func(*node)) func() {
		return func() { do(w.nodes[w.conductor.luck.IntN(len(w.nodes))]) }
	}
	events := []struct {
		weight int // of 1,000; calls go on in the rest
		happen func()
	}{
		{w.mix.deaths, one(w.kill)},
		{w.mix.reorganizations, w.reorganize},
		{w.mix.jumps, one(w.jump)},
		{w.mix.pauses, w.pause},
		{w.mix.stalls, one(w.stall)},
		{w.mix.restores, one(w.restore)},
		{2 * w.mix.restores, one(w.takeBackup)},
		{10, w.answer},
		{30, func() { w.pass(luck.Int64N(int64(w.mix.patience))) }},
		{50, one(w.recover)},
		{40, w.settleLate},
		{60, w.leave},
		{120, w.askForSomething},
	}
	draw := luck.IntN(1000)
	for _, e := range events {
		if draw -= e.weight; draw < 0 {
			e.happen()
			return
		}
	}
	if calls := w.conductor.ready(); len(calls) > 0 {
		call := calls[luck.IntN(len(calls))]
		if batch := w.atStore(call.node); len(batch) > 1 && w.conductor.chance(2) {
			w.conductor.say("%d calls of %s reach its store at once", len(batch), call.node)
			for _, c := range batch {
				w.goOn(c)
			}
			return
		}
		w.goOn(call)
		return
	}
	w.pass(luck.Int64N(int64(time.Second)))
}

// goOn lets a call go on, and says so.
func (w *world) goOn(call *crossing) {
	w.conductor.say("%s, %s: %s", call.node, call.actor, call.place)
	w.conductor.letGo(call)
}

// stall holds up one call of a purser, or all that it waits for now, longer than a lease may last.
func (w *world) stall(n *node) {
	calls := slices.DeleteFunc(w.conductor.waiting(), func(c *crossing) bool { return c.node != n })
	if len(calls) == 0 {
		return
	}
	if w.conductor.chance(2) {
		i := w.conductor.luck.IntN(len(calls))
		calls = calls[i : i+1]
	}
	d := time.Duration(w.conductor.luck.Int64N(int64(3 * time.Minute)))
	w.conductor.say("%d calls of %s are held up for %v", len(calls), n, d.Round(time.Second))
	for _, c := range calls {
		w.conductor.stick(c, d)
	}
}

// tick keeps steps apart in time: timers that are set in different steps must not fire at one moment, because the
// runtime then draws their order.
func (w *world) tick() { sleep(time.Microsecond) }

// pass lets time go by.
func (w *world) pass(d int64) {
	w.conductor.say("%v pass", time.Duration(d).Round(time.Millisecond))
	sleep(time.Duration(d) + time.Microsecond)
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
	_, err := w.chain.settle(h.authorization, h.signature, w.mix.charged(h.authorization, w.conductor.luck))
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
	for _, o := range w.orders {
		o.later = false
	}
	w.insist() // also those that a restored store has put off
	w.settle()
	for _, n := range w.nodes {
		w.audit(n)
	}
	w.checkAnswers()
	w.check()
}

// settle lets time pass and recovery look until all payments are final.
func (w *world) settle() {
	for round := range rounds {
		sleep(roundTime << min(round, 6))
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
		for try := 0; try < 3 && o.mayTry() && !w.people.stopped(o.key.ID); try++ {
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
			w.goOn(calls[0])
			w.tick()
			continue
		}
		if !w.busy() {
			return
		}
		sleep(100 * time.Millisecond)
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
