package pgstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/purserpay/purser/pay"
)

// Pause reads the pause of everything; nil: there is none.
func (d *DB) Pause(ctx context.Context) (*pay.Pause, error) {
	return settingOf[pay.Pause](ctx, d.pool, settingPause)
}

// SetPause pauses everything, or ends that.
func (d *DB) SetPause(ctx context.Context, p *pay.Pause) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		was, err := settingOf[pay.Pause](t.ctx, t, settingPause)
		switch {
		case err != nil:
			return err
		case p == nil && was == nil:
			return nil
		case p == nil:
			err = t.exec(`DELETE FROM settings WHERE name = $1`, settingPause)
		default:
			err = t.put(settingPause, p)
		}
		if err != nil {
			return err
		}
		by, _ := pay.ActorOf(ctx)
		if err := t.tell(pay.PauseNotice(was, p, by, d.clock())); err != nil {
			return err
		}
		return t.audit(pay.AllPaused(was, p))
	})
}

// maxDeployments bounds the remembered keys of the deployment.
const maxDeployments = 100

// DeploymentKeys lists the ids of keys that were the deployment's own.
func (d *DB) DeploymentKeys(ctx context.Context) ([]string, error) {
	kept, err := settingOf[[]string](ctx, d.pool, settingDeployments)
	if kept == nil {
		return nil, err
	}
	return *kept, err
}

// SetDeploymentKey puts an id at the end of DeploymentKeys.
func (d *DB) SetDeploymentKey(ctx context.Context, keyID string) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		var ids []string
		kept, err := settingOf[[]string](t.ctx, t, settingDeployments)
		if kept != nil {
			ids = *kept
		}
		if err != nil || len(ids) > 0 && ids[len(ids)-1] == keyID {
			return err
		}
		ids = append(slices.DeleteFunc(ids, func(id string) bool { return id == keyID }), keyID)
		return t.put(settingDeployments, ids[max(0, len(ids)-maxDeployments):])
	})
}

// World reads the recorded world of a network.
func (d *DB) World(ctx context.Context, network string) (string, error) {
	return worldIn(ctx, d.pool, network)
}

func worldIn(ctx context.Context, q querier, network string) (string, error) {
	world, err := setting(ctx, q, settingWorld)
	if err != nil || len(world) > 0 {
		return string(world), err
	}
	hashes, err := settingOf[map[string]string](ctx, q, settingGenesis)
	if hashes == nil {
		return "", err
	}
	return (*hashes)[network], err
}

// SetWorld records the genesis hash of a network if no world is recorded.
func (d *DB) SetWorld(ctx context.Context, network, genesis string) (inForce string, err error) {
	if genesis == "" || genesis == pay.SandboxWorld {
		return "", fmt.Errorf("set world: %q is not the genesis hash of a network", genesis)
	}
	err = d.change(ctx, []string{configuration}, func(t *tx) error {
		if inForce, err = worldIn(t.ctx, t, network); err != nil || inForce != "" {
			return err
		}
		hashes := map[string]string{}
		kept, err := settingOf[map[string]string](t.ctx, t, settingGenesis)
		if kept != nil {
			hashes = *kept
		}
		if err != nil {
			return err
		}
		inForce, hashes[network] = genesis, genesis
		return t.put(settingGenesis, hashes)
	})
	if err != nil {
		return "", err
	}
	return inForce, nil
}

func safeBlocksIn(ctx context.Context, q querier) (map[string]pay.ChainBlock, error) {
	kept, err := settingOf[map[string]pay.ChainBlock](ctx, q, settingSafeBlocks)
	if kept == nil {
		return map[string]pay.ChainBlock{}, err
	}
	return *kept, err
}

// SafeBlock reads the block that is kept for a network.
func (d *DB) SafeBlock(ctx context.Context, network string) (*pay.ChainBlock, error) {
	kept, err := safeBlocksIn(ctx, d.pool)
	if b, ok := kept[network]; ok {
		return &b, err
	}
	return nil, err
}

// KeepSafeBlock replaces the block that was found by a later one.
func (d *DB) KeepSafeBlock(ctx context.Context, network string, found *pay.ChainBlock, later pay.ChainBlock) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		kept, err := safeBlocksIn(t.ctx, t)
		now, known := kept[network]
		if err != nil || known != (found != nil) || known && (now.Hash != found.Hash || later.Number <= now.Number) {
			return err
		}
		kept[network] = later
		return t.put(settingSafeBlocks, kept)
	})
}

// ForgetSafeBlock removes the block that is kept for a network.
func (d *DB) ForgetSafeBlock(ctx context.Context, network string) error {
	return d.change(ctx, []string{configuration}, func(t *tx) error {
		kept, err := safeBlocksIn(t.ctx, t)
		was, there := kept[network]
		if err != nil || !there {
			return err
		}
		delete(kept, network)
		if err := t.put(settingSafeBlocks, kept); err != nil {
			return err
		}
		return t.audit(pay.RPCTrusted(network, was))
	})
}
