package storekit

import (
	"context"
	"errors"
	"fmt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// CreateKey stores a key, and its organization if it is claimed.
func (b Book) CreateKey(ctx context.Context, k pay.NewKey) (pay.Key, error) {
	var locked []string
	if k.Parent != "" {
		locked = []string{k.Parent}
	}
	return update(ctx, b, locked, func(tx BookTx) (pay.Key, error) {
		if err := tx.Room(); err != nil {
			return pay.Key{}, err
		}
		return k.Key, createKey(ctx, tx, k)
	})
}

// addChild notes at the parent of a new key that it has children: *InputError.
func addChild(tx BookTx, k pay.Key) error {
	parent, err := tx.Key(k.Parent)
	if errors.Is(err, pay.ErrKeyNotFound) {
		return &pay.InputError{Field: "parent", Reason: "there is no such key"}
	}
	if err != nil {
		return err
	}
	parent, changed, err := k.Child(parent)
	if err != nil || !changed {
		return err
	}
	return tx.PutKey(parent)
}

// createKey writes a key, and its organization if it is claimed.
func createKey(ctx context.Context, tx BookTx, k pay.NewKey) error {
	if k.ID == "" || k.Secret == "" {
		return errors.New("create key: no id or no secret")
	}
	if err := newSecret(tx, k.Secret); err != nil {
		return err
	}
	if k.Exec {
		switch last, err := tx.ExecKey(); {
		case err == nil && !last.Revoked():
			return pay.ErrKeyExists
		case err != nil && !errors.Is(err, pay.ErrKeyNotFound):
			return err
		}
	}
	switch _, err := tx.Key(k.ID); {
	case err == nil:
		return fmt.Errorf("create key: id %s is taken", k.ID)
	case !errors.Is(err, pay.ErrKeyNotFound):
		return err
	}
	if k.Parent != "" {
		if err := addChild(tx, k.Key); err != nil {
			return err
		}
	}
	var was, org pay.Organization
	known := true
	if k.Claimed() {
		var keys []pay.Key
		var err error
		if was, known, keys, err = organization(tx, k.OrganizationID); err != nil {
			return err
		}
		if org, err = k.Join(was, known, keys); err != nil {
			return err
		}
	}
	if err := tx.AddKey(k); err != nil {
		return err
	}
	if org != was || !known {
		if err := tx.PutOrganization(org); err != nil {
			return err
		}
	}
	return Enter(ctx, tx, pay.KeyCreated(k.Key))
}

// newSecret refuses a secret that a key has or had: ErrKeyExists.
func newSecret(tx Keys, secret string) error {
	switch _, err := tx.KeyBySecret(secret); {
	case err == nil, errors.Is(err, pay.ErrSecretReplaced):
		return pay.ErrKeyExists
	case errors.Is(err, pay.ErrKeyNotFound):
		return nil
	default:
		return err
	}
}

// organization finds an organization and its keys.
func organization(tx Keys, id string) (org pay.Organization, known bool, keys []pay.Key, err error) {
	if org, known, err = tx.OrganizationOf(id); err == nil {
		keys, err = tx.KeysOf(id)
	}
	return org, known, keys, err
}

// ReissueKey gives a key another secret.
func (b Book) ReissueKey(ctx context.Context, r pay.Reissue) (pay.Key, error) {
	return update(ctx, b, []string{r.KeyID}, func(tx BookTx) (k pay.Key, err error) {
		was, err := tx.Key(r.KeyID)
		if err != nil {
			return k, err
		}
		if k, err = r.Apply(was); err != nil {
			return k, err
		}
		if err := newSecret(tx, r.Secret); err != nil {
			return k, err
		}
		if err := tx.PutReissuedKey(k, r.Secret); err != nil {
			return k, err
		}
		return k, Enter(ctx, tx, pay.KeyChanged(pay.ActionKeyReissue, was, k))
	})
}

// LinkKey claims an unclaimed key for an organization.
func (b Book) LinkKey(ctx context.Context, l pay.Link) (pay.Key, error) {
	return update(ctx, b, nil, func(tx BookTx) (pay.Key, error) { return LinkKey(ctx, tx, l) })
}

// LinkKey claims an unclaimed key for an organization.
func LinkKey(ctx context.Context, tx BookTx, l pay.Link) (k pay.Key, err error) {
	was, err := tx.KeyBySecret(l.Secret)
	if errors.Is(err, pay.ErrSecretReplaced) {
		err = pay.ErrKeyNotFound
	}
	if err != nil {
		return k, err
	}
	org, known, keys, err := organization(tx, l.OrganizationID)
	if err != nil {
		return k, err
	}
	if k, err = l.Apply(was, org, known, keys); err != nil {
		return k, err
	}
	if err := tx.Room(); err != nil {
		return k, err
	}
	if err := tx.PutLinkedKey(k, l.Secret); err != nil {
		return k, err
	}
	return k, Enter(ctx, tx, pay.KeyChanged(pay.ActionKeyLink, was, k))
}

// SetPolicy replaces a key's policy.
func (b Book) SetPolicy(ctx context.Context, keyID string, pol *policy.Policy) (pay.Key, error) {
	return b.editKey(ctx, keyID, pay.ActionKeyPolicy, pay.EditPolicy(pol))
}

// SetPolicyAt replaces the policy of a key that has a revision.
func (b Book) SetPolicyAt(ctx context.Context, keyID string, revision uint64, pol *policy.Policy) (pay.Key, error) {
	return b.editKey(ctx, keyID, pay.ActionKeyPolicy, pay.EditPolicyAt(revision, pol))
}

// AdoptKey makes a key the operator's.
func (b Book) AdoptKey(ctx context.Context, keyID string) (pay.Key, error) {
	return b.editKey(ctx, keyID, pay.ActionKeyAdopt, pay.EditAdoption())
}

// StopKey applies a stop to a key.
func (b Book) StopKey(ctx context.Context, keyID string, s pay.KeyStop) (pay.Key, error) {
	return b.editKey(ctx, keyID, s.Do.Action(), s.Apply)
}

// NoteUse notes the use of a key.
func (b Book) NoteUse(ctx context.Context, u pay.Use) error {
	return b.update(ctx, []string{u.KeyID}, func(tx BookTx) error {
		was, err := tx.Key(u.KeyID)
		if err != nil {
			return err
		}
		k, changed, err := u.Apply(was)
		if err != nil || !changed {
			return err
		}
		if err := tx.Room(); err != nil {
			return err
		}
		return tx.PutKey(k)
	})
}

// editKey replaces a key by the result of edit, if that is a change.
func (b Book) editKey(ctx context.Context, keyID string, action pay.Action, edit pay.KeyEdit) (pay.Key, error) {
	return update(ctx, b, []string{keyID}, func(tx BookTx) (k pay.Key, err error) {
		was, err := tx.Key(keyID)
		if err != nil {
			return k, err
		}
		k, changed, err := edit(was)
		if err != nil || !changed {
			return k, err
		}
		if err := tx.PutKey(k); err != nil {
			return k, err
		}
		return k, Enter(ctx, tx, pay.KeyChanged(action, was, k))
	})
}

// SetPlan moves an organization to a plan.
func (b Book) SetPlan(ctx context.Context, orgID string, plan pay.PlanName) (pay.Organization, error) {
	return update(ctx, b, nil, func(tx BookTx) (pay.Organization, error) {
		org, known, err := tx.OrganizationOf(orgID)
		switch {
		case err != nil:
			return org, err
		case !known:
			return org, pay.ErrOrganizationNotFound
		case org.Plan == plan:
			return org, nil
		}
		was := org.Plan
		org.Plan = plan
		if err := tx.PutOrganization(org); err != nil {
			return org, err
		}
		return org, Enter(ctx, tx, pay.PlanChanged(orgID, was, plan))
	})
}
