package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// ask writes the approval of a decision, and drops the oldest ones of its key that are over.
func (r *rows) ask(begun pay.Begun, now time.Time) error {
	a := begun.Ask()
	if a == nil {
		return nil
	}
	if _, taken := r.approvals.get(a.ID); begun.How == pay.Held && (taken || a.ID == "") {
		return fmt.Errorf("approval id %q is empty or taken", a.ID)
	}
	if begun.How == pay.Held {
		n := 0
		for _, old := range r.approvals.ascending("") {
			if old.KeyID == a.KeyID {
				n++
			}
		}
		before := r.approvals.clone()
		for id, old := range before.ascending("") {
			if n >= pay.KeptApprovals && old.KeyID == a.KeyID && old.Over(now) {
				r.approvals.delete(id)
				n--
			}
		}
	}
	r.approvals.put(a.ID, *a)
	return nil
}

// Approval finds an approval.
func (s *Store) Approval(ctx context.Context, id string) (pay.Approval, error) {
	return read(ctx, s, func(r *rows) (pay.Approval, error) { return r.approvals.find(id, pay.ErrApprovalNotFound) })
}

// Approvals lists approvals, newest first.
func (s *Store) Approvals(ctx context.Context, q pay.ApprovalQuery) ([]pay.Approval, error) {
	if q.Now.IsZero() {
		q.Now = s.clock()
	}
	return read(ctx, s, func(r *rows) (list []pay.Approval, err error) {
		for _, a := range r.approvals.descending("") {
			of := q.OrganizationID == "" || r.keys.row[a.KeyID].OrganizationID == q.OrganizationID
			if of && (q.KeyID == "" || a.KeyID == q.KeyID) && q.Wants(a) {
				list = append(list, a)
			}
		}
		order := func(a, b pay.Approval) int { return cmp.Compare(b.ID, a.ID) }
		if q.State == pay.ApprovalPending {
			order = func(a, b pay.Approval) int { return cmp.Or(b.Expires.Compare(a.Expires), cmp.Compare(b.ID, a.ID)) }
		}
		slices.SortFunc(list, order)
		if q.Before != "" {
			last, err := r.approvals.find(q.Before, pay.ErrApprovalNotFound)
			if err != nil {
				return nil, err
			}
			list = slices.DeleteFunc(list, func(a pay.Approval) bool { return order(a, last) <= 0 })
		}
		return list[:min(len(list), q.Limit, 1000)], nil
	})
}

// AnswerApproval writes a person's answer.
func (s *Store) AnswerApproval(ctx context.Context, q pay.ApprovalAnswering) (a pay.Approval, err error) {
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		if a, err = r.approvals.find(q.ID, pay.ErrApprovalNotFound); err != nil {
			return c, err
		}
		var changed bool
		if a, changed, err = q.Apply(ctx, a); err != nil || !changed {
			return c, err
		}
		r.approvals.put(a.ID, a)
		return pay.ApprovalAnswered(a), nil
	})
	if err != nil {
		return pay.Approval{}, err
	}
	return a, nil
}

func (v view) Approval(keyID string, purchase pay.Hash) (*pay.Approval, error) {
	for _, a := range v.approvals.descending("") {
		if a.KeyID == keyID && a.Purchase == purchase && a.Used.IsZero() {
			return &a, nil
		}
	}
	return nil, nil
}

func (v view) CountPendingApprovals(keyID string, now time.Time, _ int) (n int, err error) {
	for _, a := range v.approvals.ascending("") {
		if a.KeyID == keyID && a.Answer == "" && a.Expires.After(now) {
			n++
		}
	}
	return n, nil
}
