package storekit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purserpay/purser/pay"
)

// ask prepares the approval of a decision. If it is new, it takes the place of its key's oldest ones that
// are over.
func (c *change) ask(tx Journal, begun pay.Begun, now time.Time) error {
	a := begun.Ask()
	if a == nil {
		return nil
	}
	was, err := tx.ApprovalByID(a.ID)
	if begun.How == pay.Created {
		c.approvals = []approval{{&was, a}}
		return err
	}
	switch {
	case err == nil || a.ID == "":
		return fmt.Errorf("approval id %q is empty or taken", a.ID)
	case !errors.Is(err, pay.ErrApprovalNotFound):
		return err
	}
	if err := tx.Room(); err != nil {
		return err
	}
	ids, err := tx.ApprovalsOf(a.KeyID)
	if err != nil {
		return err
	}
	n := len(ids)
	for _, id := range ids {
		if n < pay.KeptApprovals {
			break
		}
		old, err := tx.ApprovalByID(id)
		if err != nil {
			return err
		}
		if old.Over(now) {
			c.approvals = append(c.approvals, approval{was: &old})
			n--
		}
	}
	c.approvals = append(c.approvals, approval{is: a})
	return nil
}

// Approvals keeps approvals for a transaction of a [Book].
type Approvals interface {
	// ApprovalByID finds an approval: ErrApprovalNotFound.
	ApprovalByID(id string) (pay.Approval, error)
	// PutApproval replaces an approval that is there.
	PutApproval(was, is *pay.Approval) error
}

// AnswerApproval writes a person's answer.
func (b Book) AnswerApproval(ctx context.Context, q pay.ApprovalAnswering) (pay.Approval, error) {
	return update(ctx, b, nil, func(tx BookTx) (pay.Approval, error) { return AnswerApproval(ctx, tx, q) })
}

// AnswerApproval writes a person's answer.
func AnswerApproval(ctx context.Context, tx BookTx, q pay.ApprovalAnswering) (a pay.Approval, err error) {
	was, err := tx.ApprovalByID(q.ID)
	if err != nil {
		return a, err
	}
	a, changed, err := q.Apply(ctx, was)
	if err != nil || !changed {
		return a, err
	}
	if err := tx.PutApproval(&was, &a); err != nil {
		return a, err
	}
	return a, Enter(ctx, tx, pay.ApprovalAnswered(a))
}
