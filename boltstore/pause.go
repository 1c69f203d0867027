package boltstore

import (
	"context"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// Pause reads the pause of everything; nil: there is none.
func (d *DB) Pause(ctx context.Context) (p *pay.Pause, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		p, err = metaIn[pay.Pause](tx, pauseKey)
		return err
	})
	return p, err
}

// SetPause pauses everything, or ends that.
func (d *DB) SetPause(ctx context.Context, p *pay.Pause) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		was, err := metaIn[pay.Pause](b.tx, pauseKey)
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
		by, _ := pay.ActorOf(ctx)
		if err := storekit.WriteNotices(b, pay.PauseNotice(was, p, by, d.clock())); err != nil {
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
		kept, err := metaIn[[]string](tx, deploymentsKey)
		if kept != nil {
			ids = *kept
		}
		return err
	})
	return ids, err
}

// SetDeploymentKey puts an id at the end of DeploymentKeys.
func (d *DB) SetDeploymentKey(ctx context.Context, keyID string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		var ids []string
		kept, err := metaIn[[]string](b.tx, deploymentsKey)
		if kept != nil {
			ids = *kept
		}
		if err != nil || len(ids) > 0 && ids[len(ids)-1] == keyID {
			return err
		}
		ids = append(slices.DeleteFunc(ids, func(id string) bool { return id == keyID }), keyID)
		return b.putMeta(map[string]any{string(deploymentsKey): ids[max(0, len(ids)-maxDeployments):]})
	}})
}
