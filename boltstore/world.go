package boltstore

import (
	"context"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// settings reads the settings, which are JSON in the meta bucket.
type settings struct{ tx *bbolt.Tx }

// settingKey returns the key of a setting in the meta bucket.
func settingKey(name storekit.Name) []byte {
	switch name {
	case storekit.SafeBlocks:
		return safeBlocksKey
	case storekit.Restoring:
		return reconcilingKey
	default:
		return []byte(name)
	}
}

// Setting reads a setting.
func (s settings) Setting(name storekit.Name) ([]byte, error) {
	return s.tx.Bucket(metaBucket).Get(settingKey(name)), nil
}

// FixedWorld returns the sandbox, if the store was made for it.
func (s settings) FixedWorld() (string, error) {
	if world := string(s.tx.Bucket(metaBucket).Get(worldKey)); world == Sandbox {
		return world, nil
	}
	return "", nil
}

// Setting reads a setting.
func (b *batch) Setting(name storekit.Name) ([]byte, error) { return settings{b.tx}.Setting(name) }

// FixedWorld returns the sandbox, if the store was made for it.
func (b *batch) FixedWorld() (string, error) { return settings{b.tx}.FixedWorld() }

// PutSetting writes a setting.
func (b *batch) PutSetting(name storekit.Name, text []byte) error {
	return b.write(metaBucket, settingKey(name), text)
}

// World reads the recorded world of a network.
func (d *DB) World(ctx context.Context, network string) (world string, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		world, err = storekit.WorldOf(settings{tx}, network)
		return err
	})
	return world, err
}

// SafeBlock reads the block that is kept for a network.
func (d *DB) SafeBlock(ctx context.Context, network string) (block *pay.ChainBlock, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		block, err = storekit.SafeBlockOf(settings{tx}, network)
		return err
	})
	return block, err
}

// Pause reads the pause of everything; nil: there is none.
func (d *DB) Pause(ctx context.Context) (p *pay.Pause, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		p, err = storekit.Setting[*pay.Pause](settings{tx}, storekit.Paused)
		return err
	})
	return p, err
}

// DeploymentKeys lists the ids of keys that were the deployment's own.
func (d *DB) DeploymentKeys(ctx context.Context) (ids []string, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		ids, err = storekit.Setting[[]string](settings{tx}, storekit.Deployments)
		return err
	})
	return ids, err
}
