package simulation

import (
	"context"
	"errors"
	"io"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/signer"
)

// people pause and revoke keys, and answer approvals. The rules compare payments with their words.
type people struct {
	paused   map[string]bool // by key
	revoked  map[string]bool // by key
	approved map[int]int     // by order: the approvals that no payment has used
}

func newPeople() *people {
	return &people{paused: map[string]bool{}, revoked: map[string]bool{}, approved: map[int]int{}}
}

func operator() context.Context {
	return pay.WithActor(context.Background(), pay.Actor{Kind: pay.ActorOperator, ID: "simulated"})
}

// rules returns the policy of all keys.
func (w *world) rules() policy.Policy {
	p := policy.Policy{MaxPayment: policy.CapOf(money.New(1_000_000))}
	if w.mix.budget > 0 {
		p.MonthlyBudget = policy.CapOf(money.New(w.mix.budget))
	}
	if w.mix.asksAbove > 0 {
		p.RequireApprovalAbove = policy.CapOf(money.New(priceOf(w.mix.asksAbove) - 1))
	}
	return p
}

// asks reports whether a person must agree to an order.
func (w *world) asks(order int) bool { return w.mix.asksAbove > 0 && order >= w.mix.asksAbove }

// stopped reports whether a key may begin nothing.
func (p *people) stopped(key string) bool { return p.paused[key] || p.revoked[key] }

// pause has an operator pause a key, let it pay on, revoke it, or give it another secret.
func (w *world) pause() {
	o := w.orders[w.conductor.luck.IntN(len(w.orders))]
	if w.mix.restores == 0 && w.conductor.chance(4) { // a backup has the earlier secret
		w.rotate(o.key)
		return
	}
	stop := pay.KeyStop{Do: pay.StopPause, At: w.nodes[0].now(), By: pay.Actor{Kind: pay.ActorOperator}}
	if w.people.paused[o.key.ID] {
		stop.Do = pay.StopResume
	}
	if w.conductor.chance(8) {
		stop.Do = pay.StopRevoke
	}
	if w.people.revoked[o.key.ID] {
		return
	}
	if _, err := w.nodes[0].store.StopKey(operator(), o.key.ID, stop); err != nil {
		w.violated("a key cannot be stopped: %v", err)
		return
	}
	if stop.Do == pay.StopRevoke {
		w.people.revoked[o.key.ID] = true
	} else {
		w.people.paused[o.key.ID] = stop.Do == pay.StopPause
	}
	w.conductor.say("an operator: %s the key of order %d", stop.Do, o.number)
}

// rotate gives a key another secret, which its agents use from then on.
func (w *world) rotate(k pay.Key) {
	if w.people.revoked[k.ID] {
		return
	}
	n := w.nodes[0]
	b, err := books.New(books.Options{Store: n.store, Wallets: signer.NewLocal(n.store)})
	if err != nil {
		w.violated("no books: %v", err)
		return
	}
	_, secret, err := b.ReissueKey(operator(), k.ID, 0)
	if err != nil {
		w.violated("a key gets no other secret: %v", err)
		return
	}
	for _, o := range w.orders {
		if o.key.ID == k.ID {
			o.secret = secret
		}
	}
	w.conductor.say("an operator: another secret for %s", k.Label)
}

// answer has a person answer an approval.
func (w *world) answer() {
	n := w.nodes[w.conductor.luck.IntN(len(w.nodes))]
	list, err := n.store.Approvals(context.Background(), pay.ApprovalQuery{State: pay.ApprovalPending, Limit: 100, Now: n.now()})
	if err != nil || len(list) == 0 {
		return
	}
	a := list[w.conductor.luck.IntN(len(list))]
	q := pay.ApprovalAnswering{ID: a.ID, Answer: pay.Approved, At: n.now()}
	if w.conductor.chance(4) {
		q.Answer = pay.Denied
	}
	order := orderOf(a.Terms.Amount.String())
	if _, err := n.payer.AnswerApproval(operator(), q); err != nil {
		w.conductor.say("a person cannot answer for order %d: %v", order, err)
		return
	}
	w.conductor.say("a person: order %d is %s", order, q.Answer)
	if q.Answer == pay.Approved {
		w.people.approved[order]++
	}
}

// begun checks a payment that a store has begun against the word of people, and the bound of failures.
func (w *world) begun(b pay.Begun, s pay.Store) {
	if b.How != pay.Created || b.Payment == nil || b.Payment.Withdraws() {
		return
	}
	w.checkFailures(b.Payment, s)
	order := orderOf(b.Payment.Terms.Amount.String())
	if w.people.stopped(b.Payment.KeyID) {
		w.violated("a payment of order %d began while its key was paused or revoked", order)
	}
	if !w.asks(order) {
		return
	}
	if w.people.approved[order]--; w.people.approved[order] < 0 {
		w.violated("a payment of order %d began without a person's word", order)
	}
}

// takeBackup has an operator take a backup.
func (w *world) takeBackup(n *node) {
	if n.bolt == nil {
		return
	}
	w.chain.mu.Lock()
	safe := w.chain.block(w.chain.head() - safeBlocks)
	w.chain.mu.Unlock()
	mark := &boltstore.Mark{At: n.now(), Block: &boltstore.Block{Network: "base", Genesis: genesis, Number: safe.Number, Hash: safe.Hash, Time: safe.Time}}
	c, err := n.bolt.Copy(context.Background(), mark)
	if err != nil {
		w.conductor.say("no backup: %v", err)
		return
	}
	file, err := c.Open()
	if err == nil {
		w.backup, err = io.ReadAll(file)
		err = errors.Join(err, file.Close())
	}
	if err = errors.Join(err, c.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.conductor.say("an operator takes a backup of %s", n)
}

// restore puts the newest backup in the place of a purser's store.
func (w *world) restore(n *node) {
	if n.bolt == nil || w.backup == nil {
		return
	}
	w.conductor.say("an operator restores the backup, and %s ends", n)
	w.replace(n, image{database: w.backup, restored: true})
}

// forgive notes what a restored store cannot know: the payments since its backup.
func (w *world) forgive(n *node) {
	known := map[use]bool{}
	for _, p := range w.rows(n.store) {
		known[useOf(p.Authorization)] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for of := range w.signatures {
		if !known[of] {
			w.forgiven[of] = true
		}
	}
}

// recount reads from a store which keys are paused, and which approvals no payment has used: a disk that was torn may
// have lost the use of one.
func (w *world) recount(s pay.Store) {
	list, err := s.Approvals(context.Background(), pay.ApprovalQuery{Limit: 1000})
	if err != nil {
		w.violated("approvals cannot be read: %v", err)
	}
	clear(w.people.approved)
	clear(w.people.paused)
	clear(w.people.revoked)
	for _, o := range w.orders {
		if k, err := s.Key(context.Background(), o.key.ID); err == nil {
			w.people.paused[k.ID], w.people.revoked[k.ID] = k.Paused != nil, k.Revoked()
		}
	}
	for _, a := range list {
		if a.Answer == pay.Approved && a.PaymentID == "" {
			w.people.approved[orderOf(a.Terms.Amount.String())]++
		}
	}
}
