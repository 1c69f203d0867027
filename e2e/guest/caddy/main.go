// Command caddy is the main function that xcaddy writes for a Caddy with purser in it.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/purserpay/purser/caddymodule"
)

func main() { caddycmd.Main() }
