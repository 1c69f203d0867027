package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/purserpay/purser/pay"
)

// organization finds an organization with its keys. An unknown one has the free plan.
func (r *rows) organization(id string) (org pay.Organization, known bool, keys []pay.Key) {
	if org, known = r.orgs.get(id); !known {
		org = pay.Organization{ID: id, Plan: pay.PlanFree}
	}
	for _, k := range r.keys.ascending("") {
		if k.Claimed() && k.OrganizationID == id {
			keys = append(keys, k)
		}
	}
	return org, known, keys
}

// bySecret finds a key by its plaintext.
func (r *rows) bySecret(secret string) (pay.Key, error) {
	for id, s := range r.secrets.ascending("") {
		if s == secret {
			return r.keys.row[id], nil
		}
	}
	if slices.Contains(r.replaced, secret) {
		return pay.Key{}, pay.ErrSecretReplaced
	}
	return pay.Key{}, pay.ErrKeyNotFound
}

// byID finds a key.
func (r *rows) byID(id string) (pay.Key, error) { return r.keys.find(id, pay.ErrKeyNotFound) }

// createKey writes a key, and its organization if it is claimed.
func (r *rows) createKey(k pay.NewKey) error {
	if k.ID == "" || k.Secret == "" {
		return errors.New("create key: no id or no secret")
	}
	if _, err := r.bySecret(k.Secret); err == nil || errors.Is(err, pay.ErrSecretReplaced) {
		return pay.ErrKeyExists
	}
	if last, made := r.keys.get(r.exec); k.Exec && made && !last.Revoked() {
		return pay.ErrKeyExists
	}
	if _, taken := r.keys.get(k.ID); taken {
		return fmt.Errorf("create key: id %s is taken", k.ID)
	}
	if k.Claimed() {
		org, known, keys := r.organization(k.OrganizationID)
		org, err := k.Join(org, known, keys)
		if err != nil {
			return err
		}
		r.orgs.put(org.ID, org)
	}
	r.keys.put(k.ID, copied(k.Key))
	r.secrets.put(k.ID, k.Secret)
	if k.Exec {
		r.exec = k.ID
	}
	return nil
}

// CreateKey stores a key, and its organization if it is claimed.
func (s *Store) CreateKey(ctx context.Context, k pay.NewKey) (pay.Key, error) {
	err := s.change(ctx, func(r *rows) (pay.Change, error) { return pay.KeyCreated(k.Key), r.createKey(k) })
	if err != nil {
		return pay.Key{}, err
	}
	return k.Key, nil
}

// KeyBySecret finds a key by its plaintext.
func (s *Store) KeyBySecret(ctx context.Context, secret string) (pay.Key, error) {
	return read(ctx, s, func(r *rows) (pay.Key, error) { return r.bySecret(secret) })
}

// Key finds a key by id.
func (s *Store) Key(ctx context.Context, id string) (pay.Key, error) {
	return read(ctx, s, func(r *rows) (pay.Key, error) { return r.byID(id) })
}

// ListKeys lists keys by id from behind one.
func (s *Store) ListKeys(ctx context.Context, after string, limit int) ([]pay.Key, error) {
	return read(ctx, s, func(r *rows) ([]pay.Key, error) { return page(&r.keys, after, limit), nil })
}

// revise replaces a key by what edit makes of it. Nothing is written if that is no change.
func (s *Store) revise(ctx context.Context, keyID string, action pay.Action, edit pay.KeyEdit) (pay.Key, error) {
	var k pay.Key
	err := s.change(ctx, func(r *rows) (pay.Change, error) {
		was, err := r.byID(keyID)
		if err != nil {
			return pay.Change{}, err
		}
		now, changed, err := edit(was)
		if k = now; err != nil || !changed {
			return pay.Change{}, err
		}
		r.keys.put(k.ID, copied(k))
		return pay.KeyChanged(action, was, k), nil
	})
	if err != nil {
		return pay.Key{}, err
	}
	return copied(k), nil
}

// SetPolicy replaces a key's policy.
func (s *Store) SetPolicy(ctx context.Context, keyID string, pol *pay.Policy) (pay.Key, error) {
	return s.revise(ctx, keyID, pay.ActionKeyPolicy, pay.EditPolicy(pol))
}

// SetPolicyAt replaces the policy of a key that has a revision.
func (s *Store) SetPolicyAt(ctx context.Context, keyID string, revision uint64, pol *pay.Policy) (pay.Key, error) {
	return s.revise(ctx, keyID, pay.ActionKeyPolicy, pay.EditPolicyAt(revision, pol))
}

// AdoptKey makes a key the operator's.
func (s *Store) AdoptKey(ctx context.Context, keyID string) (pay.Key, error) {
	return s.revise(ctx, keyID, pay.ActionKeyAdopt, pay.EditAdoption())
}

// StopKey applies a stop to a key.
func (s *Store) StopKey(ctx context.Context, keyID string, stop pay.KeyStop) (pay.Key, error) {
	return s.revise(ctx, keyID, stop.Do.Action(), stop.Apply)
}

// LinkKey claims an unclaimed key for an organization.
func (s *Store) LinkKey(ctx context.Context, l pay.Link) (k pay.Key, err error) {
	err = s.change(ctx, func(r *rows) (pay.Change, error) {
		was, err := r.bySecret(l.Secret)
		if err != nil {
			return pay.Change{}, err
		}
		org, known, keys := r.organization(l.OrganizationID)
		if k, err = l.Apply(was, org, known, keys); err != nil {
			return pay.Change{}, err
		}
		r.keys.put(k.ID, k)
		return pay.KeyChanged(pay.ActionKeyLink, was, k), nil
	})
	if err != nil {
		return pay.Key{}, err
	}
	return copied(k), nil
}

// RevealKey returns the plaintext of a key whose secret is kept.
func (s *Store) RevealKey(ctx context.Context, keyID string) (string, error) {
	return read(ctx, s, func(r *rows) (string, error) {
		k, err := r.byID(keyID)
		if err == nil && !k.Kept() {
			err = pay.ErrNotRevealable
		}
		return r.secrets.row[keyID], err
	})
}

// Pause reads the pause of everything.
func (s *Store) Pause(ctx context.Context) (*pay.Pause, error) {
	return read(ctx, s, func(r *rows) (*pay.Pause, error) { return r.pause, nil })
}

// SetPause pauses everything, or, with nil, ends that.
func (s *Store) SetPause(ctx context.Context, p *pay.Pause) error {
	return s.change(ctx, func(r *rows) (pay.Change, error) {
		was := r.pause
		r.pause = copied(p)
		by, _ := pay.ActorOf(ctx)
		return pay.AllPaused(was, p), pay.WriteNotices(r, pay.PauseNotice(was, p, by, s.rows.clock()))
	})
}

// DeploymentKeys lists the ids of keys that were the deployment's own.
func (s *Store) DeploymentKeys(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(r *rows) ([]string, error) { return r.deployments, nil })
}

// SetDeploymentKey puts an id at the end of DeploymentKeys.
func (s *Store) SetDeploymentKey(ctx context.Context, keyID string) error {
	return s.do(ctx, func(r *rows) error {
		ids := slices.DeleteFunc(slices.Clone(r.deployments), func(id string) bool { return id == keyID })
		ids = append(ids, keyID)
		r.deployments = ids[max(0, len(ids)-100):]
		return nil
	})
}
