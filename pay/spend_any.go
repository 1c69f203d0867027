package pay

import "context"

// AnySpend lists what some keys spent, newest first, whoever they belong to: for operators.
// ErrEventNotFound for a position that is none of these keys'; *InputError for what cannot be
// a task.
func (p *Payer) AnySpend(ctx context.Context, keyIDs []string, q OrganizationSpendQuery) (SpendPage, error) {
	if q.Task != "" && !ValidTask(q.Task) {
		return SpendPage{}, &InputError{Field: "task", Reason: "1 to 64 characters of A-Z a-z 0-9 . _ -"}
	}
	q.Host, q.Limit = RecordedHost(q.Host), pageSize(q.Limit)
	return p.store.ListSpend(ctx, keyIDs, q)
}

// AllWallets lists wallets of all keys by id, deleted ones too, from behind the one with id
// after ("" is the beginning); at most 1,000 at a time.
func (p *Payer) AllWallets(ctx context.Context, after string, limit int) ([]Wallet, error) {
	return p.store.AllWallets(ctx, after, limit)
}
