// Package guest has a Caddy with purser in it and a plain Caddy of the same version do the same, for configurations without
// purser: same exit codes, same words, same behaviour. It also uses purser in that Caddy, as `caddy purser`.
package guest
