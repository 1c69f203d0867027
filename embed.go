// Package purser has the configuration that purser is shipped with. The program is in
// cmd/purser, its Caddy modules are in caddymodule.
package purser

import _ "embed"

// Caddyfile is xcaddy.Caddyfile: complete, and steered by variables of the environment.
//
//go:embed xcaddy.Caddyfile
var Caddyfile string
