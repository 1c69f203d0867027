package main

import (
	"encoding/json"
	"path/filepath"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/sandbox"
)

// place says where purser listens and keeps its files.
type place struct {
	api, metrics string // host and port
	dataDir      string
	adminSocket  string
	verbose      bool
}

// root returns the path of the interception root, which purser writes.
func (p place) root() string { return filepath.Join(p.dataDir, "ca.crt") }

// object is a JSON object of Caddy's configuration.
type object map[string]any

// configuration returns purser's Caddy configuration: xcaddy.Caddyfile with the sandbox's world. It
// is JSON, because the app's world has no Caddyfile option.
func configuration(p place, w *sandbox.World) []byte {
	level := "WARN"
	if p.verbose {
		level = "INFO"
	}
	log := object{"level": level, "encoder": object{"format": "purser"}}
	config, _ := json.Marshal(object{ // cannot fail: it holds texts and numbers
		"admin":   object{"listen": "unix/" + p.adminSocket + "|0600", "config": object{"persist": false}},
		"logging": object{"logs": object{"default": log}},
		"storage": object{"module": "file_system", "root": filepath.Join(p.dataDir, "caddy")},
		"apps": object{
			"purser": object{
				"world":       boltstore.Sandbox,
				"data_dir":    p.dataDir,
				"store":       object{"module": "bolt"},
				"wallets":     object{"module": "local"},
				"facilitator": object{"module": "http", "url": w.FacilitatorURL()},
				"rpc_url":     w.RPCURL(),
				"networks":    "base",

				"oidc_issuer":    w.IdentityURL(),
				"oidc_client_id": sandbox.ClientID,
				"example":        w.SellerURL() + "/weather",
			},
			"http": object{
				"grace_period": "2s",
				"servers": object{
					"purser":  purserSite(p.api, w.CA()),
					"metrics": metricsSite(p.metrics),
				},
			},
			// No site here has certificates, so their storage need not be touched.
			"tls": object{"disable_storage_check": true, "disable_storage_clean": true},
		},
	})
	return config
}

// purserSite returns purser's own site. It intercepts all HTTPS, and verifies the seller's
// certificate against the world's authority.
func purserSite(listen, sellerRoot string) object {
	return object{
		"listen": []string{listen}, "protocols": []string{"h1"}, "automatic_https": object{"disable": true},
		"max_header_bytes": 64 << 10, "read_header_timeout": "30s", "idle_timeout": "5m",
		"listener_wrappers": []object{{"wrapper": "purser"}},
		"routes": []object{{"handle": []object{
			{
				"handler": "purser_proxy", "intercept": []string{"*"}, "trust": []string{sellerRoot},
				"resolve": map[string]string{sandbox.SellerName: sandbox.SellerIP, sandbox.SellerTLSName: sandbox.SellerIP},
			},
			{"handler": "purser_dashboard"},
			{"handler": "purser_api"},
		}}},
	}
}

func metricsSite(listen string) object {
	return object{
		"listen": []string{listen}, "protocols": []string{"h1"}, "automatic_https": object{"disable": true},
		"routes": []object{
			{"match": []object{{"path": []string{"/metrics"}}}, "handle": []object{{"handler": "metrics"}}, "terminal": true},
			{"handle": []object{{"handler": "static_response", "status_code": 404, "body": "Not found"}}},
		},
	}
}
