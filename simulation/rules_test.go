package simulation

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// check checks what must hold after each step.
func (w *world) check() {
	per := map[int]int{}
	spent := map[string]uint64{}
	for _, m := range w.chain.moved() {
		n := orderOf(m.authorization.Value.String())
		if !m.value.IsZero() {
			per[n]++
		}
		if o := w.numbered(n); o != nil && o.door != operatorDoor {
			spent[o.key.ID] += m.value.Big().Uint64()
		}
	}
	for _, n := range slices.Sorted(maps.Keys(per)) {
		if per[n] > 1 {
			w.violated("order %d moved its money %d times", n, per[n])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(spent)) {
		if w.mix.budget > 0 && spent[key] > w.mix.budget {
			w.violated("a key has spent %d of its budget of %d", spent[key], w.mix.budget)
		}
	}
	w.checkWallets()
}

// checkWallets checks that no wallet has signed for more than it has, where each word of the RPC is right and comes at once.
func (w *world) checkWallets() {
	if !w.mix.prompt() || w.mix.reorganizations+w.mix.jumps > 0 {
		return
	}
	taken := map[x402.Address]money.Amount{}
	used := map[use]bool{}
	for _, m := range w.chain.moved() {
		a := m.authorization
		used[useOf(a)] = true
		taken[a.From] = taken[a.From].AddSaturated(m.value)
	}
	w.mu.Lock()
	for of, s := range w.signatures {
		if !used[of] && time.Now().Before(s.ends) {
			taken[of.from] = taken[of.from].AddSaturated(s.value)
		}
	}
	w.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(w.wallets)) { // in one order, so that a story repeats
		from := *w.wallets[key].Address
		if sum := taken[from]; sum.Cmp(w.chain.funds[from]) > 0 {
			w.violated("a wallet of %s has signed for %s, and has moved that or may still", w.chain.funds[from], taken[from])
		}
	}
}

// checkSignature checks that an order is signed for once more only when what was signed for it before can move nothing
// any more: the block that is safe has come to its end, and has not used it.
func (w *world) checkSignature(of use, next signature) {
	if order := orderOf(next.value.String()); w.mayMove(order, of) {
		w.violated("order %d has a second authorization, and the first one moves its money or may still", order)
	}
}

// mayMove reports whether an authorization for an order has moved money, or may still, without counting one of them.
func (w *world) mayMove(order int, but use) bool {
	w.chain.mu.Lock()
	safe := w.chain.timeOf(w.chain.head() - safeBlocks)
	moved := map[use]money.Amount{}
	for _, m := range w.chain.moves {
		moved[useOf(m.authorization)] = m.value
	}
	w.chain.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for of, s := range w.signatures {
		if of == but || orderOf(s.value.String()) != order {
			continue
		}
		if value, used := moved[of]; used && !value.IsZero() || !used && safe.Before(s.ends) {
			return true
		}
	}
	return false
}

// checkFailures checks that a key begins nothing more on a day on which too many of its payments have failed.
func (w *world) checkFailures(next *pay.Payment, s pay.Store) {
	if w.mix.failures == 0 || w.mix.jumps > 0 {
		return
	}
	failed := 0
	for _, p := range w.rows(s) {
		sameDay := p.Created.UTC().Format(time.DateOnly) == next.Created.UTC().Format(time.DateOnly)
		if p.KeyID == next.KeyID && sameDay && !p.Withdraws() && (p.State == pay.Void || p.Refused || p.Unresolved || p.Disputed) {
			failed++
		}
	}
	if failed >= w.mix.failures {
		w.violated("a payment of order %d began after %d of its key had failed", orderOf(next.Terms.Amount.String()), failed)
	}
}

// numbered returns an order by its number; nil: there is none.
func (w *world) numbered(number int) *order {
	i := slices.IndexFunc(w.orders, func(o *order) bool { return o.number == number })
	if i < 0 {
		return nil
	}
	return w.orders[i]
}

// rows lists the payments of a store.
func (w *world) rows(s pay.Store) (rows []*pay.Payment) {
	for q := (pay.LabelQuery{Limit: 500}); ; {
		list, err := s.AllPayments(context.Background(), q)
		if err != nil {
			w.violated("the books cannot be read: %v", err)
			return rows
		}
		if rows = append(rows, list...); len(list) < q.Limit {
			return rows
		}
		q.Before = list[len(list)-1].ID
	}
}

// remembers checks that a store has every payment for which there is a signature.
func (w *world) remembers(n *node) {
	known := map[use]bool{}
	for _, p := range w.rows(n.store) {
		known[useOf(p.Authorization)] = true
	}
	w.mu.Lock()
	forgotten := 0
	for of := range w.signatures {
		if !known[of] && !w.forgiven[of] {
			forgotten++
		}
	}
	w.mu.Unlock()
	if forgotten > 0 {
		w.violated("%s has no record of %d signatures", n, forgotten)
	}
}

// checkAnswers checks that an order which purser has settled itself has got its answer once its agent has asked
// again under its idempotency key. A settlement of nothing is none.
func (w *world) checkAnswers() {
	for _, m := range w.chain.moved() {
		o := w.numbered(orderOf(m.authorization.Value.String()))
		if o != nil && !m.value.IsZero() && o.door == payerDoor && o.idem != "" && !o.done && !w.people.stopped(o.key.ID) {
			w.violated("order %d is paid, and its agent cannot have the answer", o.number)
		}
	}
}

// final reports whether recovery is through with a payment.
func final(p *pay.Payment) bool {
	return p.State == pay.Void && !p.Doubted || p.State == pay.Settled && (p.Confirmed || p.Disputed)
}

// told returns what the books must have for a transfer. A facilitator's word or a block that was taken back may have
// told of another amount first. Then the spending stays as it was booked, and the payment has a note.
func told(p *pay.Payment, m move) money.Amount {
	note := "the chain has moved " + m.value.String() + ", and " + p.Moved().String() + " was booked"
	if slices.ContainsFunc(p.Notes, func(n pay.Note) bool { return n.Text == note }) {
		return p.Moved()
	}
	return m.value
}

// audit compares the books with the chain once all payments are final.
func (w *world) audit(n *node) {
	w.remembers(n)
	moves, payers := map[use]move{}, map[use]int{}
	for _, m := range w.chain.moved() {
		moves[useOf(m.authorization)] = m
	}
	booked := map[string]money.Amount{}
	for _, p := range w.rows(n.store) {
		of := useOf(p.Authorization)
		m, moved := moves[of]
		order := orderOf(p.Terms.Amount.String())
		if payers[of]++; moved && payers[of] > 1 {
			w.violated("the payment of order %d shares its authorization with another one, and that has moved money", order)
		}
		switch {
		case !final(p):
			w.violated("the payment of order %d is not final: %s %v", order, p.State, p.Flags())
		case p.State == pay.Settled && !moved && !p.Disputed:
			w.violated("the books have a settled payment of order %d, and the chain has no transfer", order)
		case p.State == pay.Void && moved && !m.value.IsZero():
			w.violated("the books have a void payment of order %d, and the chain has its transfer", order)
		case moved && p.State == pay.Settled && !p.Disputed && p.Moved() != told(p, m):
			w.violated("the books have %s for order %d, %v, and the chain has moved %s", p.Moved(), order, p.Flags(), m.value)
		case moved && p.State == pay.Settled && !p.Disputed && p.Transaction != m.hash:
			w.violated("the books name another transaction for order %d, %v: %s, not %s", order, p.Flags(), p.Transaction, m.hash)
		}
		if moved && !p.Withdraws() { // which are no spending
			booked[p.KeyID] = booked[p.KeyID].AddSaturated(told(p, m))
		}
	}
	for _, m := range w.chain.moved() {
		if payers[useOf(m.authorization)] == 0 && !m.value.IsZero() {
			w.violated("the books lack a transfer of order %d", orderOf(m.authorization.Value.String()))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(booked)) {
		events, err := n.store.SpendEvents(context.Background(), key, pay.SpendQuery{Limit: 1000})
		var sum, back money.Amount
		for _, e := range events {
			if e.Corrects != "" {
				back = back.AddSaturated(e.Amount)
				continue
			}
			sum = sum.AddSaturated(e.Amount)
		}
		sum = sum.SubSaturated(back)
		if err != nil || sum != booked[key] {
			w.violated("the spending of a key is %s, and the chain has %s: %v", sum, booked[key], err)
		}
	}
	if n.bolt != nil {
		if err := n.bolt.Check(context.Background()); err != nil {
			w.violated("the store is damaged: %v", err)
		}
	}
}
