package boltstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// StopKey applies a stop to a key.
func (d *DB) StopKey(ctx context.Context, keyID string, s pay.KeyStop) (k pay.Key, err error) {
	err = d.do(ctx, &op{run: func(b *batch) error {
		was, err := keyIn(b.tx, keyID)
		if err != nil {
			return err
		}
		var changed bool
		if k, changed, err = s.Apply(was); err != nil || !changed {
			return err
		}
		if err := b.revise(k); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.KeyChanged(s.Do.Action(), was, k))
	}})
	if err != nil {
		return pay.Key{}, err
	}
	return k, nil
}

// Pause reads the pause of everything; nil: there is none.
func (d *DB) Pause(ctx context.Context) (p *pay.Pause, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		p, err = pauseIn(tx)
		return err
	})
	return p, err
}

func pauseIn(tx *bbolt.Tx) (p *pay.Pause, err error) {
	text := tx.Bucket(metaBucket).Get(pauseKey)
	if text == nil {
		return nil, nil
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("pause: %w", err)
	}
	return p, nil
}

// SetPause pauses everything, or ends that.
func (d *DB) SetPause(ctx context.Context, p *pay.Pause) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		was, err := pauseIn(b.tx)
		switch {
		case err != nil:
			return err
		case p == nil && was == nil:
			return nil
		case p == nil:
			err = b.delete(metaBucket, pauseKey)
		default:
			err = b.putMeta(map[string]any{string(pauseKey): p})
		}
		if err != nil {
			return err
		}
		return d.audit(ctx, b, pay.AllPaused(was, p))
	}})
}

// maxDeployments bounds the remembered keys of the deployment.
const maxDeployments = 100

// DeploymentKeys lists the ids of keys that were the deployment's own.
func (d *DB) DeploymentKeys(ctx context.Context) (ids []string, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		ids, err = deploymentsIn(tx)
		return err
	})
	return ids, err
}

func deploymentsIn(tx *bbolt.Tx) (ids []string, err error) {
	text := tx.Bucket(metaBucket).Get(deploymentsKey)
	if text == nil {
		return nil, nil
	}
	if err := json.Unmarshal(text, &ids); err != nil {
		return nil, fmt.Errorf("keys of the deployment: %w", err)
	}
	return ids, nil
}

// SetDeploymentKey puts an id at the end of DeploymentKeys.
func (d *DB) SetDeploymentKey(ctx context.Context, keyID string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		ids, err := deploymentsIn(b.tx)
		if err != nil || len(ids) > 0 && ids[len(ids)-1] == keyID {
			return err
		}
		ids = append(slices.DeleteFunc(ids, func(id string) bool { return id == keyID }), keyID)
		return b.putMeta(map[string]any{string(deploymentsKey): ids[max(0, len(ids)-maxDeployments):]})
	}})
}
