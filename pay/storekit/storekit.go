// Package storekit holds the rules of every store once, over a transaction: [Journal] on payments,
// [BookTx] on the rest. A store keeps its rows, indexes, locks and files, and runs a rule in a
// transaction of its own.
//
// A rule reads all that it needs before its first write, and fails before it too. So a store needs no
// way back, and may fail a read to fetch what it lacks and run the rule again.
package storekit

import (
	"context"
	"time"

	"github.com/purserpay/purser/pay"
)

// Tx writes what all rules may write: notices and audit entries.
type Tx interface {
	pay.NoticeBook
	// Now tells the time of audit entries.
	Now() time.Time
	// Room returns why nothing new may be written, such as a full disk; nil: it may.
	Room() error
	// Enter numbers and keeps an audit entry.
	Enter(e *pay.AuditEntry) error
}

// writing holds the notices and audit entries that a rule will write.
type writing struct {
	notices *notices
	entries []*pay.AuditEntry
}

// enter prepares the audit entry of a change. A change without an actor gets none.
func (w *writing) enter(ctx context.Context, tx Tx, c pay.Change) error {
	e, err := c.Entry(ctx, tx.Now())
	if err == nil && e != nil {
		w.entries = append(w.entries, e)
	}
	return err
}

// tell prepares notices.
func (w *writing) tell(tx Tx, list []pay.Notice) error {
	if len(list) == 0 {
		return nil
	}
	w.notices = &notices{book: tx}
	return pay.WriteNotices(w.notices, list)
}

func (w *writing) to(tx Tx) error {
	if w.notices != nil {
		for _, m := range w.notices.marks {
			if err := tx.SetMark(m.name, m.NoticeMark, m.now); err != nil {
				return err
			}
		}
		for _, n := range w.notices.list {
			if err := tx.Append(n); err != nil {
				return err
			}
		}
	}
	for _, e := range w.entries {
		if err := tx.Enter(e); err != nil {
			return err
		}
	}
	return nil
}

// notices is an outbox over that of a transaction, which keeps what is to be written.
type notices struct {
	book  pay.NoticeBook
	marks []mark
	list  []pay.Notice
}

type mark struct {
	pay.NoticeMark
	name string
	now  time.Time
}

// Mark finds a mark, as the notices before have left it.
func (n *notices) Mark(name string) (pay.NoticeMark, error) {
	for _, m := range n.marks {
		if m.name == name {
			return m.NoticeMark, nil
		}
	}
	return n.book.Mark(name)
}

// SetMark keeps a mark.
func (n *notices) SetMark(name string, m pay.NoticeMark, now time.Time) error {
	for i := range n.marks {
		if n.marks[i].name == name {
			n.marks[i].NoticeMark, n.marks[i].now = m, now
			return nil
		}
	}
	n.marks = append(n.marks, mark{m, name, now})
	return nil
}

// Append keeps a notice.
func (n *notices) Append(one pay.Notice) error {
	n.list = append(n.list, one)
	return nil
}

// WriteNotices writes notices by [pay.WriteNotices].
func WriteNotices(tx Tx, list []pay.Notice) error {
	var w writing
	if err := w.tell(tx, list); err != nil {
		return err
	}
	return w.to(tx)
}
