// Package caddymodule is purser as Caddy modules. It is the only importer of Caddy.
//
// The app `purser` (app.go) holds the configuration and, once started, the pay core. The
// handlers purser_proxy, purser_upstream, purser_dashboard and purser_api, and the transport of reverse_proxy,
// are the doors that Caddy's servers open. Stores, wallet providers and facilitators are
// guest modules (guests.go). An open store outlives reloads (pool.go); everything else
// belongs to one configuration. The command `caddy purser` asks the admin endpoint (admin*.go).
//
// To import it registers modules, options of the Caddyfile and that one command. The program purser
// changes Caddy's own commands itself, with package internal/program.
//
// No decision about payments is made here; see packages pay, payapi and proxy. Pages are
// package dashboard's.
package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/program"
)

func init() {
	caddy.RegisterModule(new(App))
	caddy.RegisterModule(new(Proxy))
	caddy.RegisterModule(new(insideSite))
	caddy.RegisterModule(new(Dashboard))
	caddy.RegisterModule(new(API))
	caddy.RegisterModule(new(Transport))
	caddy.RegisterModule(new(Upstream))
	caddy.RegisterModule(new(Listener))
	caddy.RegisterModule(new(BoltStore))
	caddy.RegisterModule(new(PostgresStore))
	caddy.RegisterModule(new(LocalWallets))
	caddy.RegisterModule(new(NoWallets))
	caddy.RegisterModule(new(ExternalWallets))
	caddy.RegisterModule(new(CDPWallets))
	caddy.RegisterModule(new(HTTPFacilitator))
	caddy.RegisterModule(new(adminAPI))
	caddy.RegisterModule(new(LogFormat))

	httpcaddyfile.RegisterGlobalOption("purser", parseApp)
	// Each is put right before reverse_proxy, so the first one registered comes first: a
	// request for a seller's host must never be taken for one to the API.
	for _, directive := range []struct {
		name  string
		parse httpcaddyfile.UnmarshalHandlerFunc
	}{
		{"purser_proxy", parseProxy},
		{"purser_dashboard", parseHandler[Dashboard]},
		{"purser_api", parseHandler[API]},
		{"purser_upstream", parseHandler[Upstream]},
	} {
		httpcaddyfile.RegisterHandlerDirective(directive.name, directive.parse)
		httpcaddyfile.RegisterDirectiveOrder(directive.name, httpcaddyfile.Before, "reverse_proxy")
	}

	program.Register(line)
	// For main functions that do not call it themselves, such as those that xcaddy writes.
	cobra.OnInitialize(environment.UnsetEmpty)
}
