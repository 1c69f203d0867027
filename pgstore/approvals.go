package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

func takeApproval(s *state, f *answer) error {
	var a pay.Approval
	if err := json.Unmarshal(f.row, &a); err != nil {
		return fmt.Errorf("approval: %w", err)
	}
	if _, own := s.asked[a.ID]; own {
		return nil
	}
	if slices.Contains(s.dropped, a.ID) {
		return nil
	}
	s.approvals[a.ID] = &a
	s.overlayApproval(a)
	return nil
}

// overlayApproval adds an approval to the answers that have it, and takes it out of the others.
func (s *state) overlayApproval(a pay.Approval) {
	if set := s.purchases[question{askApproval, a.KeyID, string(a.Purchase[:])}]; set != nil {
		if delete(set, a.ID); a.Used.IsZero() {
			set[a.ID] = true
		}
	}
	if set := s.pending[question{askPending, a.KeyID, ""}]; set != nil {
		if delete(set, a.ID); a.Answer == "" {
			set[a.ID] = a.Expires
		}
	}
	if list, known := s.kept[a.KeyID]; known && !slices.Contains(list, a.ID) {
		i, _ := slices.BinarySearch(list, a.ID)
		s.kept[a.KeyID] = slices.Insert(list, i, a.ID)
	}
}

func (s *state) drop(id string) {
	a := s.approvals[id]
	delete(s.purchases[question{askApproval, a.KeyID, string(a.Purchase[:])}], id)
	delete(s.pending[question{askPending, a.KeyID, ""}], id)
	s.kept[a.KeyID] = slices.DeleteFunc(s.kept[a.KeyID], func(other string) bool { return other == id })
	delete(s.approvals, id)
	delete(s.asked, id)
	s.dropped = append(s.dropped, id)
}

const (
	approvalByID   = `SELECT row FROM approvals WHERE id = $1`
	updateApproval = `UPDATE approvals SET answered = $2, purchase = $3, row = $4 WHERE id = $1`
)

// approvalRow holds the columns of an approval.
type approvalRow struct {
	id, keyID string
	expires   int64
	answered  bool
	purchase  []byte
	row       []byte
}

func approvalRowOf(a *pay.Approval) (r approvalRow, err error) {
	r = approvalRow{id: a.ID, keyID: a.KeyID, expires: nanoseconds(a.Expires), answered: a.Answer != ""}
	if a.Used.IsZero() {
		r.purchase = a.Purchase[:]
	}
	r.row, err = json.Marshal(a)
	return r, err
}

// Approval finds an approval.
func (d *DB) Approval(ctx context.Context, id string) (pay.Approval, error) {
	return one[pay.Approval](ctx, d.pool, pay.ErrApprovalNotFound, approvalByID, id)
}

// ApprovalByID finds an approval.
func (t *tx) ApprovalByID(id string) (pay.Approval, error) {
	return one[pay.Approval](t.ctx, t, pay.ErrApprovalNotFound, approvalByID, id)
}

// PutApproval replaces an approval.
func (t *tx) PutApproval(_, is *pay.Approval) error {
	r, err := approvalRowOf(is)
	if err != nil {
		return err
	}
	return t.exec(updateApproval, r.id, r.answered, r.purchase, r.row)
}

// AnswerApproval writes a person's answer. It looks for the approval first, whose key's lock it needs.
func (d *DB) AnswerApproval(ctx context.Context, q pay.ApprovalAnswering) (a pay.Approval, err error) {
	was, err := d.Approval(ctx, q.ID)
	if err != nil {
		return pay.Approval{}, err
	}
	err = d.change(ctx, []string{keyLock(was.KeyID)}, func(t *tx) error {
		a, err = storekit.AnswerApproval(ctx, t, q)
		return err
	})
	if err != nil {
		return pay.Approval{}, err
	}
	d.bell.answered(a.ID)
	return a, nil
}

// Approvals lists approvals, newest first.
func (d *DB) Approvals(ctx context.Context, q pay.ApprovalQuery) ([]pay.Approval, error) {
	if q.Now.IsZero() {
		q.Now = d.clock()
	}
	var last pay.Approval
	if q.Before != "" {
		var err error
		if last, err = d.Approval(ctx, q.Before); err != nil {
			return nil, err
		}
	}
	where, args := `($1 = '' OR key_id = $1) AND ($2 = '' OR key_id IN (SELECT id FROM keys WHERE organization_id = $2))`, []any{q.KeyID, q.OrganizationID}
	order := `id DESC`
	if q.State == pay.ApprovalPending {
		order = `expires, id`
	}
	limit := min(q.Limit, maxPage)
	var list []pay.Approval
	end, endID := nanoseconds(last.Expires), last.ID
	if q.Before == "" {
		end, endID = nanoseconds(q.Now), "\U0010FFFF" // those that end now do not wait any more
	}
	for len(list) < limit {
		sql := `SELECT row FROM approvals WHERE ` + where + ` AND id < $3 COLLATE "C" ORDER BY ` + order + ` LIMIT 1000`
		params := slices.Concat(args, []any{endID})
		if q.State == pay.ApprovalPending {
			sql = `SELECT row FROM approvals WHERE NOT answered AND ` + where + ` AND (expires, id) > ($4, $3 COLLATE "C") AND expires > $5 ORDER BY ` + order + ` LIMIT 1000`
			params = append(params, end, nanoseconds(q.Now))
		}
		some, err := many[pay.Approval](ctx, d.pool, sql, params...)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			end, endID = nanoseconds(a.Expires), a.ID
			if q.Wants(a) && len(list) < limit {
				list = append(list, a)
			}
		}
		if len(some) < 1000 {
			break
		}
	}
	return list, nil
}
