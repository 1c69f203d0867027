package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// ApprovalByID finds an approval.
func (r *rows) ApprovalByID(id string) (pay.Approval, error) {
	return r.approvals.find(id, pay.ErrApprovalNotFound)
}

// ApprovalsOf lists the ids of a key's approvals, oldest first.
func (r *rows) ApprovalsOf(keyID string) (ids []string, err error) {
	for id, a := range r.approvals.ascending("") {
		if a.KeyID == keyID {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// PutApproval writes or removes an approval.
func (r *rows) PutApproval(was, is *pay.Approval) error {
	if is == nil {
		r.approvals.delete(was.ID)
	} else {
		r.approvals.put(is.ID, *is)
	}
	return nil
}

// Approval finds an approval.
func (s *Store) Approval(ctx context.Context, id string) (pay.Approval, error) {
	return read(ctx, s, func(r *rows) (pay.Approval, error) { return r.ApprovalByID(id) })
}

// Approvals lists approvals, newest first.
func (s *Store) Approvals(ctx context.Context, q pay.ApprovalQuery) ([]pay.Approval, error) {
	if q.Now.IsZero() {
		q.Now = s.rows.clock()
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
			order = func(a, b pay.Approval) int { return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID)) }
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

func (r *rows) Approval(keyID string, purchase pay.Hash) (*pay.Approval, error) {
	for _, a := range r.approvals.descending("") {
		if a.KeyID == keyID && a.Purchase == purchase && a.Used.IsZero() {
			return &a, nil
		}
	}
	return nil, nil
}

func (r *rows) CountPendingApprovals(keyID string, now time.Time, _ int) (n int, err error) {
	for _, a := range r.approvals.ascending("") {
		if a.KeyID == keyID && a.Answer == "" && a.Expires.After(now) {
			n++
		}
	}
	return n, nil
}
