package pay

import "context"

// AnswerApproval writes a person's answer to an approval: see [ApprovalAnswering]. Requests that wait
// for the answer go on. The context names the person. Errors: ErrApprovalNotFound, ErrApprovalClosed,
// *InputError, ErrUnavailable.
func (p *Payer) AnswerApproval(ctx context.Context, q ApprovalAnswering) (Approval, error) {
	if q.At.IsZero() {
		q.At = p.now().UTC()
	}
	return p.store.AnswerApproval(ctx, q)
}
