package pgstore

import (
	"context"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/storekit"
)

// settings reads the settings.
type settings struct {
	ctx context.Context
	q   querier
}

// Setting reads a setting.
func (s settings) Setting(name storekit.Name) ([]byte, error) {
	return setting(s.ctx, s.q, string(name))
}

// FixedWorld returns the world that the store was made for.
func (s settings) FixedWorld() (string, error) {
	world, err := setting(s.ctx, s.q, settingWorld)
	return string(world), err
}

// Setting reads a setting.
func (t *tx) Setting(name storekit.Name) ([]byte, error) { return settings{t.ctx, t}.Setting(name) }

// FixedWorld returns the world that the store was made for.
func (t *tx) FixedWorld() (string, error) { return settings{t.ctx, t}.FixedWorld() }

// PutSetting writes a setting.
func (t *tx) PutSetting(name storekit.Name, text []byte) error {
	if text == nil {
		return t.exec(`DELETE FROM settings WHERE name = $1`, string(name))
	}
	return t.putText(string(name), text)
}

// Pause reads the pause of everything; nil: there is none.
func (d *DB) Pause(ctx context.Context) (*pay.Pause, error) {
	return storekit.Setting[*pay.Pause](settings{ctx, d.pool}, storekit.Paused)
}

// DeploymentKeys lists the ids of keys that were the deployment's own.
func (d *DB) DeploymentKeys(ctx context.Context) ([]string, error) {
	return storekit.Setting[[]string](settings{ctx, d.pool}, storekit.Deployments)
}

// World reads the recorded world of a network.
func (d *DB) World(ctx context.Context, network string) (string, error) {
	return storekit.WorldOf(settings{ctx, d.pool}, network)
}

// SafeBlock reads the block that is kept for a network.
func (d *DB) SafeBlock(ctx context.Context, network string) (*pay.ChainBlock, error) {
	return storekit.SafeBlockOf(settings{ctx, d.pool}, network)
}
