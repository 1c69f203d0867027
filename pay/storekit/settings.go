package storekit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/purserpay/purser/pay"
)

// Name names a setting. Each store may have another word for it.
type Name string

// The settings, with their types.
const (
	Paused      Name = "pause"       // *pay.Pause: everything is paused
	Deployments Name = "deployments" // []string: ids of the keys that were the deployment's own, newest last
	Drawn       Name = "drawn"       // map[string]string: the deployment's wallet by network
	Genesis     Name = "genesis"     // map[string]string: the hash of block 0 by network
	SafeBlocks  Name = "safe-blocks" // map[string]pay.ChainBlock: by network
	Restoring   Name = "restored"    // *pay.Restore: what is to be reconciled
)

// SettingsReader reads values, which are JSON.
type SettingsReader interface {
	// Setting reads a value; nil: there is none.
	Setting(name Name) ([]byte, error)
	// FixedWorld returns the world that the store was made for; "": none.
	FixedWorld() (string, error)
}

// Settings keeps values.
type Settings interface {
	SettingsReader
	// PutSetting replaces a value, nil removing it.
	PutSetting(name Name, text []byte) error
}

// Setting reads a setting; the zero value: there is none.
func Setting[T any](s SettingsReader, name Name) (value T, err error) {
	text, err := s.Setting(name)
	if err != nil || text == nil {
		return value, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("setting %s: %w", name, err)
	}
	return value, nil
}

// put replaces a setting.
func put(s Settings, name Name, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.PutSetting(name, text)
}

// SetPause pauses everything, or, with nil, ends that.
func (b Book) SetPause(ctx context.Context, p *pay.Pause) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		was, err := Setting[*pay.Pause](tx, Paused)
		if err != nil || p == nil && was == nil {
			return err
		}
		var w writing
		by, _ := pay.ActorOf(ctx)
		if err := w.tell(tx, pay.PauseNotice(was, p, by, tx.Now())); err != nil {
			return err
		}
		if err := w.enter(ctx, tx, pay.AllPaused(was, p)); err != nil {
			return err
		}
		if p == nil {
			err = tx.PutSetting(Paused, nil)
		} else {
			err = put(tx, Paused, p)
		}
		if err != nil {
			return err
		}
		return w.to(tx)
	})
}

// maxDeployments bounds the remembered keys of the deployment.
const maxDeployments = 100

// SetDeploymentKey puts an id at the end of DeploymentKeys.
func (b Book) SetDeploymentKey(ctx context.Context, keyID string) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		ids, err := Setting[[]string](tx, Deployments)
		if err != nil || len(ids) > 0 && ids[len(ids)-1] == keyID {
			return err
		}
		ids = append(slices.DeleteFunc(ids, func(id string) bool { return id == keyID }), keyID)
		return put(tx, Deployments, ids[max(0, len(ids)-maxDeployments):])
	})
}

// WorldOf returns the world of a network: that which the store was made for, or the hash of block 0.
func WorldOf(s SettingsReader, network string) (string, error) {
	world, err := s.FixedWorld()
	if err != nil || world != "" {
		return world, err
	}
	hashes, err := Setting[map[string]string](s, Genesis)
	return hashes[network], err
}

// SetWorld records the hash of block 0 of a network if no world is recorded. Only creating a store makes
// it a sandbox.
func (b Book) SetWorld(ctx context.Context, network, genesis string) (string, error) {
	return update(ctx, b, nil, func(tx BookTx) (string, error) {
		fixed, err := tx.FixedWorld()
		if err != nil {
			return "", err
		}
		if genesis == "" || genesis == pay.SandboxWorld && fixed != genesis {
			return "", fmt.Errorf("set world: %q is not the genesis hash of a network", genesis)
		}
		hashes, err := Setting[map[string]string](tx, Genesis)
		if inForce := cmp.Or(fixed, hashes[network]); err != nil || inForce != "" {
			return inForce, err
		}
		if hashes == nil {
			hashes = map[string]string{}
		}
		hashes[network] = genesis
		return genesis, put(tx, Genesis, hashes)
	})
}

// SafeBlockOf reads the block that is kept for a network; nil: none.
func SafeBlockOf(s SettingsReader, network string) (*pay.ChainBlock, error) {
	kept, err := Setting[map[string]pay.ChainBlock](s, SafeBlocks)
	if b, ok := kept[network]; ok {
		return &b, err
	}
	return nil, err
}

// KeepSafeBlock replaces the block that was found by a later one.
func (b Book) KeepSafeBlock(ctx context.Context, network string, found *pay.ChainBlock, later pay.ChainBlock) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		kept, err := Setting[map[string]pay.ChainBlock](tx, SafeBlocks)
		now, known := kept[network]
		if err != nil || known != (found != nil) || known && (now.Hash != found.Hash || later.Number <= now.Number) {
			return err
		}
		if kept == nil {
			kept = map[string]pay.ChainBlock{}
		}
		kept[network] = later
		return put(tx, SafeBlocks, kept)
	})
}

// ForgetSafeBlock removes the block that is kept for a network.
func (b Book) ForgetSafeBlock(ctx context.Context, network string) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		kept, err := Setting[map[string]pay.ChainBlock](tx, SafeBlocks)
		was, there := kept[network]
		if err != nil || !there {
			return err
		}
		delete(kept, network)
		if err := put(tx, SafeBlocks, kept); err != nil {
			return err
		}
		return Enter(ctx, tx, pay.RPCTrusted(network, was))
	})
}

// AcceptRisk records an operator's word.
func (b Book) AcceptRisk(ctx context.Context, a pay.Acceptance) error {
	return b.update(ctx, nil, func(tx BookTx) error {
		r, err := Setting[*pay.Restore](tx, Restoring)
		if err == nil && r == nil {
			err = pay.ErrNotReconciling
		}
		if err != nil {
			return err
		}
		r.Accepted = &a
		if err := put(tx, Restoring, r); err != nil {
			return err
		}
		return Enter(ctx, tx, pay.RiskAccepted(a))
	})
}
