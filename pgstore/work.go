package pgstore

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// work is the transaction of one rule within a batch. It reads the state of the batch, and changes that only once the
// rule has ended and lacks nothing: errAsk, errLocks.
type work struct {
	view
	clock  pay.Clock
	writes []func()
}

var _ storekit.Reconciling = (*work)(nil)

// decide runs a rule on a state.
func (d *DB) decide(s *state, rule func(w *work) error) error {
	w := d.work(s)
	err := rule(w)
	switch {
	case len(s.unlocked) > 0:
		return errLocks
	case err == nil && len(s.missing) > 0:
		return errAsk
	case err != nil:
		return err
	}
	for _, write := range w.writes {
		write()
	}
	return nil
}

func (d *DB) work(s *state) *work {
	return &work{view: view{s, d.vault.Derive}, clock: d.clock}
}

// then writes once the rule has ended.
func (w *work) then(write func()) error {
	w.writes = append(w.writes, write)
	return nil
}

// Now tells the time of audit entries.
func (w *work) Now() time.Time { return w.clock() }

// Room is nil: a database without room refuses to write.
func (w *work) Room() error { return nil }

// Enter keeps an audit entry. It is numbered when it is written.
func (w *work) Enter(e *pay.AuditEntry) error { return w.then(func() { w.audit = append(w.audit, e) }) }

// SetMark replaces a mark. Those that have expired go with the sweep.
func (w *work) SetMark(name string, m pay.NoticeMark, _ time.Time) error {
	return w.then(func() { w.marks[name], w.setMarks[name], w.answered[question{askMark, name, ""}] = m, true, true })
}

// Append keeps a notice. It is numbered when it is written.
func (w *work) Append(n pay.Notice) error { return w.then(func() { w.notices = append(w.notices, n) }) }

// HasPayment reports whether an id is taken, as far as the batch knows. Else the database refuses it.
func (w *work) HasPayment(id string) (bool, error) {
	if w.payments[id] != nil || !w.careful {
		return w.payments[id] != nil, nil
	}
	_, err := w.payment(id)
	if errors.Is(err, pay.ErrPaymentNotFound) {
		return false, nil
	}
	return err == nil, err
}

// PutPayment replaces a payment.
func (w *work) PutPayment(was, is *pay.Payment) error {
	return w.then(func() { w.save(is, was == nil) })
}

// HasTransaction reports whether a payment, "" for any, has a transaction.
func (w *work) HasTransaction(hash, paymentID string) (bool, error) {
	q, err := w.ask(askTransaction, transactionKey(hash), "")
	if paymentID == "" {
		return len(w.sets[q]) > 0, err
	}
	return w.sets[q][paymentID], err
}

// HasEvent reports whether the id of an event is taken, like HasPayment. It asks for the sums of the event's day.
func (w *work) HasEvent(e *pay.SpendEvent) (bool, error) {
	if slices.ContainsFunc(w.events, func(other *pay.SpendEvent) bool { return other.ID == e.ID }) {
		return true, nil
	}
	err := w.prepare(e)
	if w.careful {
		_, askErr := w.ask(askEvent, e.ID, "")
		err = errors.Join(err, askErr)
	}
	return w.eventIDs[e.ID], err
}

// PutEvent adds an event, and counts it in its day.
func (w *work) PutEvent(p *pay.Payment, e *pay.SpendEvent) error {
	return w.then(func() { w.event(p, e) })
}

// PutCounter replaces the amount of a counter.
func (w *work) PutCounter(c pay.Counter, _, is money.Amount) error {
	return w.then(func() { w.sheet(w.lockOf(c)).set(codec.CounterValue{Counter: c, Amount: is}) })
}

// ApprovalByID finds an approval that the decision has read. The database refuses a new one whose id is taken.
func (w *work) ApprovalByID(id string) (pay.Approval, error) {
	if a := w.approvals[id]; a != nil {
		return *a, nil
	}
	return pay.Approval{}, pay.ErrApprovalNotFound
}

// ApprovalsOf lists the ids of a key's approvals, oldest first.
func (w *work) ApprovalsOf(keyID string) ([]string, error) {
	_, err := w.ask(askKept, keyID, "")
	return w.kept[keyID], err
}

// PutApproval replaces an approval.
func (w *work) PutApproval(was, is *pay.Approval) error {
	return w.then(func() {
		if is == nil {
			w.drop(was.ID)
			return
		}
		w.asked[is.ID] = was == nil || w.asked[is.ID]
		w.approvals[is.ID] = is
		w.overlayApproval(*is)
	})
}

// KnowsAuthorization reports whether a payment with the same authorization is in the books.
func (w *work) KnowsAuthorization(p *pay.Payment) (bool, error) {
	q, err := w.ask(askAuthorization, string(p.Authorization.From.Bytes()), string(p.Authorization.Nonce[:]))
	return err == nil && (w.authorized[q] || w.payments[p.ID] != nil), err
}

// PutRestored replaces what is to be reconciled.
func (w *work) PutRestored(r *pay.Restore) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return w.then(func() { w.settings[settingRestored], w.wroteSettings = text, true })
}
