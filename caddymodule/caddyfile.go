package caddymodule

import (
	"encoding/json"
	"maps"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// UnmarshalCaddyfile reads the global option:
//
//	purser {
//	    data_dir    <folder>
//	    master_key  <reference>
//	    store       <module> { … }
//	    wallets     <module> { … }
//	    facilitator <module> { … }
//	    rpc_url     <url>
//	    settlement  payer|seller
//	    networks    <names>
//	    internal_secret <reference>
//	    upgrade_url <url>
//	    public_url  <url>
//	    allowed_origins <origins>
//	    key         <reference>
//	    standin     loopback|off
//	    max_payment    <usdc>|off
//	    daily_budget   <usdc>|off
//	    monthly_budget <usdc>|off
//	    per_minute     <number>|off
//	    price_guard    <number>|off
//	    allow_hosts    <patterns>
//	    deny_hosts     <patterns>
//	    allow_payees   <addresses>
//	    deny_payees    <addresses>
//	    max_concurrent <number>|off
//	    max_queued     <number>
//	    max_wait       <duration>
//	    registration   open|off
//	    failures_per_minute <number>|off
//	    failures_per_day    <number>|off
//	    oidc_issuer    <url>
//	    oidc_client_id <id>
//	    oidc_client_secret <reference>
//	    oidc_allow     <identities>
//	    plans       on|off
//	    plan free|developer|agency { … }
//	    host <pattern> { … }
//	    task <label>|* { … }
//	}
//
// plan, host and task can be repeated; the blocks of the last two have max_payment,
// daily_budget and monthly_budget, that of plan has price, keys, wallets and payments. Every
// other option takes one argument; lists are separated by commas. A secret is a reference
// such as {env.PURSER_KEY}, and has a second option for its file: master_key_file,
// internal_secret_file, key_file, oidc_client_secret_file.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the option's name
	if d.NextArg() {
		return d.ArgErr()
	}
	guests := map[string]struct {
		namespace string
		raw       *json.RawMessage
	}{
		"store":       {storeNamespace, &a.StoreRaw},
		"wallets":     {walletsNamespace, &a.WalletsRaw},
		"facilitator": {facilitatorNamespace, &a.FacilitatorRaw},
	}
	options := a.PolicyOptions.single()
	maps.Copy(options, map[string]*string{
		"data_dir": &a.DataDir, "master_key": &a.MasterKey, "master_key_file": &a.MasterKeyFile,
		"rpc_url": &a.RPCURL, "rpc_url_2": &a.RPCURL2, "settlement": &a.Settlement, "networks": &a.Networks,
		"internal_secret": &a.InternalSecret, "internal_secret_file": &a.InternalSecretFile,
		"upgrade_url": &a.UpgradeURL, "public_url": &a.PublicURL, "allowed_origins": &a.AllowedOrigins,
		"key": &a.Key, "key_file": &a.KeyFile, "standin": &a.Standin, "plans": &a.Plans,
	})
	maps.Copy(options, a.OverloadOptions.single())
	maps.Copy(options, a.RegistrationOptions.single())
	maps.Copy(options, a.SignInOptions.single())
	parts := map[string]*map[string]BudgetOptions{"host": &a.Hosts, "task": &a.Tasks}
	for d.NextBlock(0) {
		if guest, ok := guests[d.Val()]; ok {
			if err := parseGuest(d, guest.namespace, guest.raw); err != nil {
				return err
			}
			continue
		}
		if d.Val() == "plan" {
			if err := parsePlan(d, &a.PlanTable); err != nil {
				return err
			}
			continue
		}
		if part, ok := parts[d.Val()]; ok {
			if err := parseBudget(d, part); err != nil {
				return err
			}
			continue
		}
		into, known := options[d.Val()]
		if !known {
			return d.Errf("unrecognized subdirective %q", d.Val())
		}
		if err := parseOption(d, into); err != nil {
			return err
		}
	}
	return a.checkReferences(d)
}

// checkReferences refuses secrets that stand in the Caddyfile themselves, before they get
// into the configuration. A {$VARIABLE} is one of those: Caddy has replaced it by now.
func (a *App) checkReferences(d *caddyfile.Dispenser) error {
	for _, s := range []struct {
		option
		given string
	}{
		{masterKeyOption, a.MasterKey},
		{internalSecretOption, a.InternalSecret},
		{keyOption, a.Key},
		{oidcClientSecretOption, a.OIDCClientSecret},
	} {
		if _, err := s.reference(s.given); err != nil {
			return d.WrapErr(err)
		}
	}
	return nil
}

func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		return nil, d.Err("the purser option is given twice")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "purser", Value: caddyconfig.JSON(app, nil)}, nil
}

var _ caddyfile.Unmarshaler = (*App)(nil)
