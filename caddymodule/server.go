package caddymodule

import (
	"fmt"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/environment"
)

// line is the command line of this process, and what it serves.
var line = &cli.Env{
	Getenv: os.Getenv, Environ: os.Environ, Now: time.Now, Become: cli.Become, MakeKey: offlineKey, PublicRPC: cli.PublicRPC,
	Layer: environment.OfProcess(), Server: new(cli.Server), Version: Version(),
	Caddy: cli.Caddy{
		LoadConfig: caddycmd.LoadConfig,
		Validate: func(config []byte) error {
			var c *caddy.Config
			if err := caddy.StrictUnmarshalJSON(caddy.RemoveMetaFields(config), &c); err != nil {
				return fmt.Errorf("decoding config: %w", err)
			}
			return caddy.Validate(c)
		},
		Load:    func(config []byte) error { return caddy.Load(config, true) },
		Hush:    func() { caddy.BufferedLog() },
		Warn:    func(text string) { caddy.Log().Warn(text) },
		Version: func() (purser, caddys string) { caddys, _ = caddy.Version(); return Version(), caddys },
	},
}
