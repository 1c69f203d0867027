package boltstore

import (
	"context"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// genesisKey names the genesis hashes in the meta bucket: JSON, by the names of the networks.
var genesisKey = []byte("genesis")

func genesisIn(meta *bbolt.Bucket) (map[string]string, error) {
	hashes := map[string]string{}
	if text := meta.Get(genesisKey); text != nil {
		if err := json.Unmarshal(text, &hashes); err != nil {
			return nil, fmt.Errorf("genesis hashes: %w", err)
		}
	}
	return hashes, nil
}

// worldIn is the sandbox, or the genesis hash of a network.
func worldIn(meta *bbolt.Bucket, network string) (string, error) {
	if string(meta.Get(worldKey)) == Sandbox {
		return Sandbox, nil
	}
	hashes, err := genesisIn(meta)
	return hashes[network], err
}

// World reads the recorded world of a network.
func (d *DB) World(ctx context.Context, network string) (world string, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		var err error
		world, err = worldIn(tx.Bucket(metaBucket), network)
		return err
	})
	return world, err
}

// safeBlocksKey names the last safe blocks in the meta bucket: JSON, by the names of the
// networks.
var safeBlocksKey = []byte("safe_blocks")

func safeBlocksIn(meta *bbolt.Bucket) (map[string]pay.ChainBlock, error) {
	kept := map[string]pay.ChainBlock{}
	if text := meta.Get(safeBlocksKey); text != nil {
		if err := json.Unmarshal(text, &kept); err != nil {
			return nil, fmt.Errorf("safe blocks: %w", err)
		}
	}
	return kept, nil
}

// SafeBlock reads the block that is kept for a network.
func (d *DB) SafeBlock(ctx context.Context, network string) (block *pay.ChainBlock, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		kept, err := safeBlocksIn(tx.Bucket(metaBucket))
		if b, ok := kept[network]; ok {
			block = &b
		}
		return err
	})
	return block, err
}

// KeepSafeBlock replaces the block that was found by a later one.
func (d *DB) KeepSafeBlock(ctx context.Context, network string, found *pay.ChainBlock, later pay.ChainBlock) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		kept, err := safeBlocksIn(b.tx.Bucket(metaBucket))
		now, known := kept[network]
		if err != nil || known != (found != nil) || known && (now.Hash != found.Hash || later.Number <= now.Number) {
			return err
		}
		kept[network] = later
		return b.putMeta(map[string]any{string(safeBlocksKey): kept})
	}})
}

// ForgetSafeBlock removes the block that is kept for a network.
func (d *DB) ForgetSafeBlock(ctx context.Context, network string) error {
	return d.do(ctx, &op{run: func(b *batch) error {
		kept, err := safeBlocksIn(b.tx.Bucket(metaBucket))
		was, there := kept[network]
		if err != nil || !there {
			return err
		}
		delete(kept, network)
		if err := b.putMeta(map[string]any{string(safeBlocksKey): kept}); err != nil {
			return err
		}
		return d.audit(ctx, b, pay.RPCTrusted(network, was))
	}})
}

// SetWorld records the genesis hash of a network if no world is recorded. Only creating a store makes
// it a sandbox.
func (d *DB) SetWorld(ctx context.Context, network, genesis string) (string, error) {
	if genesis == "" || (genesis == Sandbox && !d.sandbox) {
		return "", fmt.Errorf("set world: %q is not the genesis hash of a network", genesis)
	}
	var inForce string
	err := d.do(ctx, &op{run: func(b *batch) (err error) {
		meta := b.tx.Bucket(metaBucket)
		if inForce, err = worldIn(meta, network); err != nil || inForce != "" {
			return err
		}
		hashes, err := genesisIn(meta)
		if err != nil {
			return err
		}
		inForce, hashes[network] = genesis, genesis
		return b.putMeta(map[string]any{string(genesisKey): hashes})
	}})
	if err != nil {
		return "", err
	}
	return inForce, nil
}
