// Command purser is Caddy with purser's modules: `purser run --config xcaddy.Caddyfile`. It has
// Caddy's own commands, except those that would replace the program.
package main

import (
	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/purserpay/purser/caddymodule"
	"github.com/purserpay/purser/internal/program"
)

const description = `purser pays HTTP 402s for agents. It is Caddy with purser's modules, and has all
of Caddy's commands beside its own:

  $ purser init                              sets it up in this folder: start here
  $ purser run                               the server
  $ purser exec -- python3 agent.py          runs a program that purser pays for
  $ eval "$(purser env)"                     the same for everything in this shell
  $ purser spend                             what was spent
  $ purser limits                            what keys may spend; also changes it
  $ purser status                            how the server is

All of them read the variables of purser.env, beside the Caddyfile or in this folder.
Each command's --help has more.`

func main() {
	caddy.CustomBinaryName = "purser"
	caddy.CustomLongDescription = description
	followLoad()
	program.Main(caddymodule.AsPurser())
}
