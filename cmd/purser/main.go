// Command purser is Caddy with purser's modules: `purser run --config xcaddy.Caddyfile`.
// All of Caddy's own commands work.
package main

import (
	"os"
	"runtime/debug"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/purserpay/purser/caddymodule"
)

func main() {
	caddy.CustomBinaryName = "purser"
	caddy.CustomLongDescription = "purser pays HTTP 402s for agents. It is Caddy with purser's modules, and has all of Caddy's commands.\n\n" +
		"  $ purser run --config xcaddy.Caddyfile"
	caddymodule.UnsetEmptyVariables()
	if os.Getenv("GOGC") == "" {
		// The live heap is small, so Go's default would collect all the time. Caddy bounds
		// the memory as a whole.
		debug.SetGCPercent(400)
	}
	caddycmd.Main()
}
