package memory

import (
	"context"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// OrganizationOf finds an organization. An unknown one has the free plan.
func (r *rows) OrganizationOf(id string) (org pay.Organization, known bool, err error) {
	if org, known = r.orgs.get(id); !known {
		org = pay.Organization{ID: id, Plan: pay.PlanFree}
	}
	return org, known, nil
}

// PutOrganization writes an organization.
func (r *rows) PutOrganization(org pay.Organization) error {
	r.orgs.put(org.ID, org)
	return nil
}

// KeysOf lists an organization's keys, oldest first.
func (r *rows) KeysOf(orgID string) (keys []pay.Key, err error) {
	for _, k := range r.keys.ascending("") {
		if k.Claimed() && k.OrganizationID == orgID {
			keys = append(keys, k)
		}
	}
	return copied(keys), nil
}

// KeyBySecret finds a key by its plaintext.
func (r *rows) KeyBySecret(secret string) (pay.Key, error) {
	for id, s := range r.secrets.ascending("") {
		if s == secret {
			return r.Key(id)
		}
	}
	if id, is := r.replaced[secret]; is {
		k, err := r.Key(id)
		if err != nil {
			return k, err
		}
		return pay.Key{}, pay.Replaced(k, hashOf(secret))
	}
	return pay.Key{}, pay.ErrKeyNotFound
}

// Key finds a key.
func (r *rows) Key(id string) (pay.Key, error) {
	k, err := r.keys.find(id, pay.ErrKeyNotFound)
	return copied(k), err
}

// ExecKey finds the key that was made last as the Exec key.
func (r *rows) ExecKey() (pay.Key, error) { return r.Key(r.exec) }

// PutKey writes a key.
func (r *rows) PutKey(k pay.Key) error {
	r.keys.put(k.ID, copied(k))
	return nil
}

// AddKey writes a new key.
func (r *rows) AddKey(k pay.NewKey) error {
	r.secrets.put(k.ID, k.Secret)
	if k.Exec {
		r.exec = k.ID
	}
	return r.PutKey(k.Key)
}

// PutLinkedKey writes a key that has got an organization.
func (r *rows) PutLinkedKey(k pay.Key, _ string) error { return r.PutKey(k) }

// PutReissuedKey writes a key with another secret.
func (r *rows) PutReissuedKey(k pay.Key, secret string) error {
	was := r.secrets.row[k.ID]
	r.replaced[was] = k.ID
	if k.Overlap != nil {
		k.Overlap.Hash = hashOf(was)
	}
	r.secrets.put(k.ID, secret)
	return r.PutKey(k)
}

func hashOf(secret string) []byte {
	hash := pay.HashOf(secret)
	return hash[:]
}

// KeyBySecret finds a key by its plaintext.
func (s *Store) KeyBySecret(ctx context.Context, secret string) (pay.Key, error) {
	return read(ctx, s, func(r *rows) (pay.Key, error) { return r.KeyBySecret(secret) })
}

// Key finds a key by id.
func (s *Store) Key(ctx context.Context, id string) (pay.Key, error) {
	return read(ctx, s, func(r *rows) (pay.Key, error) { return r.Key(id) })
}

// ExecKey finds the key that was made last as the Exec key.
func (s *Store) ExecKey(ctx context.Context) (pay.Key, error) {
	return read(ctx, s, func(r *rows) (pay.Key, error) { return r.ExecKey() })
}

// ListKeys lists keys by id from behind one.
func (s *Store) ListKeys(ctx context.Context, after string, limit int) ([]pay.Key, error) {
	return read(ctx, s, func(r *rows) ([]pay.Key, error) { return page(&r.keys, after, limit), nil })
}

// RevealKey returns the plaintext of a key whose secret is kept.
func (s *Store) RevealKey(ctx context.Context, keyID string) (string, error) {
	return read(ctx, s, func(r *rows) (string, error) {
		k, err := r.Key(keyID)
		if err == nil && !k.Kept() {
			err = pay.ErrNotRevealable
		}
		return r.secrets.row[keyID], err
	})
}

// Pause reads the pause of everything.
func (s *Store) Pause(ctx context.Context) (*pay.Pause, error) {
	return read(ctx, s, func(r *rows) (*pay.Pause, error) { return r.Pause() })
}

// DeploymentKeys lists the ids of keys that were the deployment's own.
func (s *Store) DeploymentKeys(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(r *rows) ([]string, error) { return storekit.Setting[[]string](r, storekit.Deployments) })
}
