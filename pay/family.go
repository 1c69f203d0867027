package pay

import (
	"context"
	"errors"
	"fmt"

	"github.com/purserpay/purser/policy"
)

// A key may have a parent: another key, whose budgets it shares. A payment of the child counts in the counters of both,
// and both have room or nothing is paid. All other limits are each key's own. Families have two generations.

// Parent is the parent of a call's key, as the call was judged by it.
type Parent struct {
	KeyID, Name string // the name is for people
	// Policy is in force for the parent at the door of the call, in the parent's PolicyRevision.
	Policy         policy.Policy
	PolicyRevision uint64
	// Paused holds the parent's pause in its PolicyRevision, nil for none.
	Paused *Pause
	// Hours: the parent's spending is counted by the hour, too.
	Hours bool
}

// Child checks that a new key may have this parent, and returns the parent as it is then. changed is false if there is
// nothing to write. A store calls it inside the transaction that writes the child. *InputError.
func (k Key) Child(parent Key) (_ Key, changed bool, err error) {
	why := ""
	switch {
	case parent.Revoked():
		why = "the key is revoked"
	case parent.Parent != "":
		why = "the key has a parent itself, and families have two generations"
	case parent.OrganizationID != k.OrganizationID:
		why = "the key belongs to another organization"
	case k.Exec:
		why = "the exec key has no parent"
	}
	if why != "" {
		return parent, false, &InputError{Field: "parent", Reason: why}
	}
	changed = !parent.HasChildren
	parent.HasChildren = true
	return parent, changed, nil
}

// parentOf reads the parent of a key; nil: it has none. A revoked one counts as if the key itself were revoked:
// ErrKeyNotFound.
func (p *Payer) parentOf(ctx context.Context, k Key) (*Key, error) {
	if k.Parent == "" {
		return nil, nil
	}
	parent, err := p.store.Key(ctx, k.Parent)
	switch {
	case errors.Is(err, ErrKeyNotFound):
		return nil, fmt.Errorf("the parent of key %s is not in the store", k.ID)
	case err != nil:
		return nil, fmt.Errorf("reading the parent of a key: %w", err)
	case parent.Revoked():
		return nil, ErrKeyNotFound
	}
	return &parent, nil
}

// judgedParent returns the parent of a key for the judgement of a call at a door; nil: it has none.
func (p *Payer) judgedParent(ctx context.Context, k Key, door policy.Door) (*Parent, error) {
	parent, err := p.parentOf(ctx, k)
	if err != nil || parent == nil {
		return nil, err
	}
	return &Parent{
		KeyID: parent.ID, Name: parent.Name(), Policy: p.PolicyOf(*parent, door), PolicyRevision: parent.PolicyRevision,
		Paused: parent.Paused, Hours: p.countsHours(*parent),
	}, nil
}

// row returns a payment of a child as one of the parent: only its spending is looked at.
func (of *Parent) row(child *Payment) *Payment {
	row := *child
	row.KeyID = of.KeyID
	return &row
}

// spend checks a row by the parent's budgets, and returns what it spends of them. used is told of each budget that the
// row keeps.
func (of *Parent) spend(v Counters, child *Payment, used func(budgetUse)) ([]Reservation, error) {
	row := of.row(child)
	if err := budgets(of.Policy, v, row, used); err != nil {
		return nil, of.refusal(err)
	}
	list, err := spending(v, row, of.Hours || of.Policy.CountsHours())
	return append(list, total(of.Policy, row)...), err
}

// refusal says of a refusal by the parent's budgets that they are the parent's.
func (of *Parent) refusal(err error) error {
	refused, is := errors.AsType[*PolicyError](err)
	if !is {
		return err
	}
	said := *refused
	said.Detail = fmt.Sprintf("the parent key %s: %s", of.Name, refused.Detail)
	if refused.over != nil {
		over := *refused.over
		over.parent, said.over = of, &over
	}
	return &said
}

// current refuses a call that was judged by another policy of the parent than it has now, or by a raise that has ended.
func (of *Parent) current(b *Begin, v BeginView) error {
	if of.Policy.Raise != nil && !of.Policy.Raise.Holds(b.Now) {
		return ErrPolicyChanged
	}
	revision, err := v.PolicyRevision(of.KeyID)
	if err == nil && revision != of.PolicyRevision {
		err = ErrPolicyChanged
	}
	return err
}
