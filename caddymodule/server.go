package caddymodule

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/environment"
)

// guest holds the peculiarities of a Caddy of one's own; nil in the program purser.
var guest = &cli.Guest{DataDir: filepath.Join(caddy.AppDataDir(), "purser")}

// firstLog is Caddy's log of before any configuration.
var firstLog = caddy.Log()

// line is the command line of this process, and what it serves. It is that of a Caddy of one's own until a main function
// calls [AsPurser].
var line = &cli.Env{
	Getenv: os.Getenv, Environ: os.Environ, Now: time.Now, Become: cli.Become, Open: cli.Open, MakeKey: offlineKey, PublicRPC: cli.PublicRPC,
	Layer: environment.OfProcess(), Server: new(cli.Server), Version: Version(),
	Guest: guest,
	Caddy: cli.Caddy{
		LoadConfig: caddycmd.LoadConfig,
		Validate: func(config []byte) error {
			var c *caddy.Config
			if err := caddy.StrictUnmarshalJSON(caddy.RemoveMetaFields(config), &c); err != nil {
				return fmt.Errorf("decoding config: %w", err)
			}
			return caddy.Validate(c)
		},
		Load:         func(config []byte) error { return caddy.Load(config, true) },
		Hush:         func() { caddy.BufferedLog() },
		Warn:         func(text string) { firstLog.Warn(text) },
		DefaultAdmin: caddy.DefaultAdminListen,
		Version:      func() (purser, caddys string) { caddys, _ = caddy.Version(); return Version(), caddys },
	},
}

// AsPurser makes this process the program purser, instead of a Caddy of one's own with purser in it: texts have
// purser's commands as the program has them, and the data directory is ./purser-data unless it is set. Main functions of
// purser's own programs call it before anything else. It returns the command line.
func AsPurser() *cli.Env {
	guest, line.Guest = nil, nil
	return line
}
