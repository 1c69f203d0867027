package caddymodule

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/setting"
)

// adapted holds the parts of an adapted configuration that tests look at.
type adapted struct {
	Admin struct {
		Listen string `json:"listen"`
	} `json:"admin"`
	Storage struct {
		Module string `json:"module"`
		Root   string `json:"root"`
	} `json:"storage"`
	Apps struct {
		Purser map[string]any `json:"purser"`
		HTTP   struct {
			Servers map[string]struct {
				Listen    []string `json:"listen"`
				Protocols []string `json:"protocols"`
				MaxHeader int      `json:"max_header_bytes"`
				Routes    []struct {
					Match any `json:"match"`
				} `json:"routes"`
			} `json:"servers"`
		} `json:"http"`
	} `json:"apps"`
}

func decodeAdapted(t *testing.T, config []byte) adapted {
	t.Helper()
	var a adapted
	if err := json.Unmarshal(config, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a adapted) listen() []string {
	var all []string
	for _, s := range a.Apps.HTTP.Servers {
		all = append(all, s.Listen...)
	}
	slices.Sort(all)
	return all
}

// secretVariables and what they are set to in the test below.
var secretVariables = []string{
	"DATABASE_URL", "PURSER_MASTER_KEY", "PURSER_KEY", "PURSER_INTERNAL_SECRET", "PURSER_FACILITATOR_KEY", "PURSER_FACILITATOR_URL",
	"PURSER_RPC_URL", "PURSER_RPC_URL_2", "PURSER_PUBLIC_URL", "PURSER_UPGRADE_URL", "PURSER_ALLOWED_ORIGINS", "PURSER_ALLOW_ADDRESSES",
	"PURSER_STANDIN", "PURSER_MAX_PAYMENT", "PURSER_DAILY_BUDGET", "PURSER_MONTHLY_BUDGET", "PURSER_PER_MINUTE", "PURSER_PRICE_GUARD", "PURSER_REQUIRE_APPROVAL_ABOVE", "PURSER_REQUIRE_APPROVAL_NEW_HOSTS", "PURSER_APPROVAL_WAIT", "PURSER_APPROVAL_EXPIRY", "PURSER_SIGN_IN_HOSTS", "PURSER_OFFER_SIGNERS",
	"PURSER_REGISTRATION", "PURSER_FAILURES_PER_MINUTE", "PURSER_FAILURES_PER_DAY", "PURSER_QUOTES_PER_MINUTE", "PURSER_PAUSE_HOST_AFTER", "PURSER_RETAIN",
	"PURSER_SETTLEMENT", "PURSER_NETWORKS", "PURSER_SCHEMES", "PURSER_RAILS", "PURSER_UPSTREAM", "PURSER_INTERCEPT",
	"PURSER_OIDC_ISSUER", "PURSER_OIDC_CLIENT_ID", "PURSER_OIDC_CLIENT_SECRET",
	"PURSER_WEBHOOKS", "PURSER_WEBHOOK_SECRET", "PURSER_WEBHOOK_KINDS", "PURSER_SMTP_URL", "PURSER_MAIL_FROM", "PURSER_MAIL_TO", "PURSER_LOW_BALANCE",
}

func TestShippedCaddyfile(t *testing.T) {
	structure := map[string]string{
		"PURSER_BIND": "127.0.0.2", "PURSER_PORT": "9402", "PURSER_METRICS_BIND": "127.0.0.3", "PURSER_METRICS_PORT": "9407",
		"PURSER_UPSTREAM_BIND": "127.0.0.4", "PURSER_UPSTREAM_PORT": "9406",
		"PURSER_ADMIN": "unix//run/purser/admin.sock|0600", "PURSER_DATA_DIR": "/var/lib/purser",
		"PURSER_STORE": "bolt", "PURSER_WALLETS": "none",
	}
	set := func(t *testing.T, value func(string) string) {
		for name := range structure {
			t.Setenv(name, value(name))
		}
		for _, name := range secretVariables {
			t.Setenv(name, value(name))
		}
	}
	defaults := func(t *testing.T) {
		config, err := adapt(shipped(t))
		if err != nil {
			t.Fatal(err)
		}
		a := decodeAdapted(t, config)
		if got := a.listen(); !slices.Equal(got, []string{"127.0.0.1:8402", "127.0.0.1:8406", "127.0.0.1:8407"}) {
			t.Errorf("listens on %v", got)
		}
		if a.Admin.Listen != "unix/./purser-admin.sock|0600" || a.Storage.Root != "./purser-data" {
			t.Errorf("admin %+v, storage %+v", a.Admin, a.Storage)
		}
		if m := a.Apps.Purser["store"].(map[string]any)["module"]; m != "bolt" {
			t.Errorf("store %v", m)
		}
		if m := a.Apps.Purser["wallets"].(map[string]any)["module"]; m != "local" {
			t.Errorf("wallets %v", m)
		}
		for name, s := range a.Apps.HTTP.Servers {
			if !slices.Equal(s.Protocols, []string{"h1"}) || s.MaxHeader < 32<<10 {
				t.Errorf("%s: %+v", name, s)
			}
			for _, r := range s.Routes {
				if r.Match != nil {
					t.Errorf("%s: a matcher would leave other hosts with an empty 200: %v", name, r.Match)
				}
			}
		}
	}
	t.Run("unset", defaults)
	t.Run("empty", func(t *testing.T) {
		set(t, func(string) string { return "" })
		environment.UnsetEmpty() // as the purser binary does; t.Setenv puts them back
		defaults(t)
	})
	t.Run("set", func(t *testing.T) {
		set(t, func(name string) string {
			if v, ok := structure[name]; ok {
				return v
			}
			return "visible-" + strings.ToLower(name)
		})
		config, err := adapt(shipped(t))
		if err != nil {
			t.Fatal(err)
		}
		a := decodeAdapted(t, config)
		if got := a.listen(); !slices.Equal(got, []string{"127.0.0.2:9402", "127.0.0.3:9407", "127.0.0.4:9406"}) {
			t.Errorf("listens on %v", got)
		}
		if a.Admin.Listen != structure["PURSER_ADMIN"] || a.Storage.Root != "/var/lib/purser" {
			t.Errorf("admin %+v, storage %+v", a.Admin, a.Storage)
		}
		if m := a.Apps.Purser["wallets"].(map[string]any)["module"]; m != "none" {
			t.Errorf("wallets %v", m)
		}
		if i := strings.Index(string(config), "visible-"); i >= 0 {
			t.Errorf("a value from the environment is in the configuration: %.60s", config[i:])
		}
	})
}

// In a Caddy that was built with purser, empty variables stay set. The structure of
// the configuration may then be wrong: purser says so instead of listening nowhere, or
// everywhere.
func TestShippedCaddyfileEmptyVariables(t *testing.T) {
	text := shipped(t)
	for _, name := range environment.Structural {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("PURSER_ADMIN", "off")
			t.Setenv(name, "")
			err := validate(text)
			if name == "PURSER_DATA_DIR" { // Caddy's own storage does not take it either
				name = "storage"
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v does not name %s", err, name)
			}
		})
	}
}

func TestDirectivesNeedNoOrder(t *testing.T) {
	t.Parallel()
	config, err := adapt("http://:1 {\n\treverse_proxy localhost:2\n\tpurser_api\n\tpurser_dashboard\n\tpurser_proxy\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	text := string(config)
	p, d, a, r := strings.Index(text, "purser_proxy"), strings.Index(text, "purser_dashboard"), strings.Index(text, "purser_api"), strings.Index(text, `"reverse_proxy"`)
	if p < 0 || p > d || d > a || a > r {
		t.Errorf("order: %s", text)
	}
}

func TestCaddyfileOptions(t *testing.T) {
	t.Parallel()
	config, err := adapt(`{
	purser {
		data_dir /d
		master_key {env.MK}
		master_key_file /mk
		store bolt {
			path /p
			min_free 1GiB
		}
		wallets none
		facilitator http {
			url {env.F}
			key {file./k}
			key_file /kf
			timeout 5s
		}
		rpc_url {env.R}
		settlement seller
		networks base,base-sepolia
		schemes exact,upto
		internal_secret {env.S}
		internal_secret_file /s
		upgrade_url https://u.example
		public_url https://p.example
		allowed_origins https://o.example
		key {env.K}
		key_file /k
		oidc_issuer https://i.example
		oidc_client_id purser
		oidc_client_secret {env.O}
		oidc_client_secret_file /o
		oidc_allow "@example.com, group:payments"
		plan Developer {
			price 19.50
			keys 12
		}
		plan agency {
			wallets 7
			payments {env.N}
		}
		standin off
		plans off
		max_payment 2
		daily_budget off
		monthly_budget 100
		per_minute 60
		price_guard off
		require_approval_above 0.25
		require_approval_new_hosts true
		approval_wait 5m
		approval_expiry 2h
		allow_hosts "a.example *.b.example"
		deny_hosts c.example:81
		sign_in_hosts a.example
		allow_payees 0x209693Bc6afc0C5328bA36FaF03C514EF312287C
		deny_payees 0x00000000000000000000000000000000000A11cE
		host a.example {
			max_payment 0.5
			daily_budget 1
			monthly_budget off
		}
		host *.b.example {
			daily_budget 3
		}
		task nightly {
			monthly_budget 4
		}
		task * {
			daily_budget 5
		}
	}
}
http://:1 {
	route {
		purser_proxy {
			allow_http a.example
			allow_http b.example:81
			allow_addresses 10.0.0.0/8
			ports 80,443
			max_replay 2MiB
			challenge_header X-A
			resolve a.test 127.0.0.1
			max_spool 3MiB
			spool_dir /s
			intercept a.example
			intercept *.b.example
			tunnel c.b.example
			trust /t1
			trust /t2
		}
		purser_dashboard
		purser_api {
			key_rate 7
		}
	}
}
http://:2 {
	reverse_proxy https://d.example {
		transport purser {
			key {env.K}
			key_file /k
			task t-1
			allow_http d.example
			challenge_header X-B
			max_replay 3MiB
			max_spool off
			http {
				dial_timeout 7s
				tls_server_name e.example
			}
		}
	}
}
http://:3 {
	reverse_proxy f.example {
		transport purser
	}
}
http://:4 {
	purser_upstream {
		to {env.U}
		task t-2
		http {
			compression off
		}
	}
}
http://:5 {
	purser_upstream
}
`)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Apps struct {
			Purser json.RawMessage `json:"purser"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(config, &got); err != nil {
		t.Fatal(err)
	}
	want := `{"data_dir":"/d","master_key":"{env.MK}","master_key_file":"/mk","store":{"min_free":"1GiB","module":"bolt","path":"/p"},` +
		`"wallets":{"module":"none"},"facilitator":{"key":"{file./k}","key_file":"/kf","module":"http","timeout":"5s","url":"{env.F}"},` +
		`"rpc_url":"{env.R}","settlement":"seller","networks":"base,base-sepolia","schemes":"exact,upto","internal_secret":"{env.S}",` +
		`"internal_secret_file":"/s","upgrade_url":"https://u.example","public_url":"https://p.example",` +
		`"allowed_origins":"https://o.example","key":"{env.K}","key_file":"/k","standin":"off","max_payment":"2","daily_budget":"off",` +
		`"monthly_budget":"100","per_minute":"60","price_guard":"off","allow_hosts":"a.example *.b.example","deny_hosts":"c.example:81","sign_in_hosts":"a.example",` +
		`"allow_payees":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","deny_payees":"0x00000000000000000000000000000000000A11cE",` +
		`"host":{"*.b.example":{"daily_budget":"3"},"a.example":{"max_payment":"0.5","daily_budget":"1","monthly_budget":"off"}},` +
		`"task":{"*":{"daily_budget":"5"},"nightly":{"monthly_budget":"4"}},` +
		`"oidc_issuer":"https://i.example","oidc_client_id":"purser","oidc_client_secret":"{env.O}","oidc_client_secret_file":"/o",` +
		`"oidc_allow":"@example.com, group:payments",` +
		`"require_approval_above":"0.25","require_approval_new_hosts":"true","approval_wait":"5m","approval_expiry":"2h",` +
		`"plans":"off","plan":{"agency":{"wallets":"7","payments":"{env.N}"},"developer":{"price":"19.50","keys":"12"}}}`
	if string(got.Apps.Purser) != want {
		t.Errorf("got  %s\nwant %s", got.Apps.Purser, want)
	}
	for _, part := range []string{
		`"allow_http":["a.example","b.example:81"]`, `"allow_addresses":["10.0.0.0/8"]`, `"ports":"80,443"`, `"max_replay":"2MiB"`,
		`"challenge_header":["X-A"]`, `"resolve":{"a.test":"127.0.0.1"}`, `"max_spool":"3MiB"`, `"spool_dir":"/s"`,
		`"intercept":["a.example","*.b.example"]`, `"tunnel":["c.b.example"]`, `"trust":["/t1","/t2"]`, `"key_rate":"7"`,
		`"transport":{"allow_http":["d.example"],"challenge_header":["X-B"],"http":{"dial_timeout":7000000000,"tls":{"server_name":"e.example"}},` +
			`"key":"{env.K}","key_file":"/k","max_replay":"3MiB","max_spool":"off","protocol":"purser","task":"t-1"}`,
		`"transport":{"http":{},"protocol":"purser"}`,
		`{"handler":"purser_upstream","to":"{env.U}","transport":{"http":{"compression":false},"task":"t-2"}}`,
		`{"handler":"purser_upstream"}`,
	} {
		if !strings.Contains(string(config), part) {
			t.Errorf("%s is not in %s", part, config)
		}
	}
}

func TestCaddyfileRefuses(t *testing.T) {
	t.Parallel()
	app := func(text string) string { return "{\n\tpurser {\n\t\t" + text + "\n\t}\n}\n" }
	handler := func(name, text string) string { return "http://:1 {\n\t" + name + " {\n\t\t" + text + "\n\t}\n}\n" }
	transport := func(text string) string {
		return handler("reverse_proxy http://a.example", "transport purser {\n\t\t\t"+text+"\n\t\t}")
	}
	for _, c := range []struct{ name, caddyfile, want string }{
		{"unknown option", app("datadir /d"), `unrecognized subdirective "datadir"`},
		{"no argument", app("data_dir"), "wrong argument count"},
		{"two arguments", app("data_dir /a /b"), "wrong argument count"},
		{"twice", app("data_dir /a\n\t\tdata_dir /b"), "data_dir is given twice, first at Caddyfile:3, at Caddyfile:4"},
		{"guest twice", app("store bolt\n\t\tstore bolt"), "store is given twice, first at Caddyfile:3, at Caddyfile:4"},
		{"option twice", "{\n\tpurser\n\tpurser\n}\n", "given twice"},
		{"argument of the option", "{\n\tpurser x\n}\n", "wrong argument count"},
		{"secret in clear", app("key pk_0123456789"), "PURSER_KEY"},
		{"internal secret in clear", app("internal_secret abc"), "PURSER_INTERNAL_SECRET"},
		{"master key in clear", app("master_key 00112233"), "PURSER_MASTER_KEY"},
		{"client secret in clear", app("oidc_client_secret abc"), "PURSER_OIDC_CLIENT_SECRET"},
		{"unknown plan", app("plan gold {\n\t\t\tkeys 1\n\t\t}"), `unknown plan "gold"`},
		{"plan without a name", app("plan {\n\t\t\tkeys 1\n\t\t}"), "wrong argument count"},
		{"plan that changes nothing", app("plan free"), "plan free changes nothing"},
		{"plan twice", app("plan free {\n\t\t\tkeys 1\n\t\t}\n\t\tplan FREE {\n\t\t\tkeys 2\n\t\t}"), "plan free is given twice, first at Caddyfile:3, at Caddyfile:6"},
		{"unknown limit of a plan", app("plan free {\n\t\t\tusers 1\n\t\t}"), `unrecognized subdirective "users"`},
		{"unknown option of the dashboard", handler("purser_dashboard", "x y"), `unrecognized subdirective "x"`},
		{"argument of the dashboard", "http://:1 {\n\tpurser_dashboard / b\n}\n", "wrong argument count"},
		{"secret with something around", app(`key "a{env.K}"`), "PURSER_KEY"},
		{"facilitator key in clear", app("facilitator http {\n\t\t\tkey abc\n\t\t}"), "PURSER_FACILITATOR_KEY"},
		{"store that is not built", app("store mysql"), `PURSER_STORE): there is no module "mysql", only: bolt, postgres`},
		{"database's URL in clear", app("store postgres {\n\t\t\turl postgres://u:p@h/d\n\t\t}"), "write a reference like {env.DATABASE_URL}"},
		{"signer key in clear", app("wallets external {\n\t\t\tkey abc\n\t\t}"), "PURSER_SIGNER_KEY"},
		{"wallet secret in clear", app("wallets cdp {\n\t\t\twallet_secret abc\n\t\t}"), "CDP_WALLET_SECRET"},
		{"api key secret in clear", app("wallets cdp {\n\t\t\tapi_key_secret abc\n\t\t}"), "CDP_API_KEY_SECRET"},
		{"wallets that are not built", app("wallets remote"), `PURSER_WALLETS): there is no module "remote", only: cdp, external, local, none`},
		{"unknown option of a guest", app("store bolt {\n\t\t\tfile /x\n\t\t}"), `unrecognized subdirective "file"`},
		{"option of a guest without options", app("wallets local {\n\t\t\tx y\n\t\t}"), `unrecognized subdirective "x"`},
		{"argument of a guest", app("store bolt /x"), "wrong argument count"},
		{"world", app("world sandbox"), `unrecognized subdirective "world"`},
		{"unknown option of the proxy", handler("purser_proxy", "intercepts *"), `unrecognized subdirective "intercepts"`},
		{"trust without a file", handler("purser_proxy", "trust"), "wrong argument count"},
		{"resolve twice", handler("purser_proxy", "resolve a 127.0.0.1\n\t\tresolve a 127.0.0.2"), "resolve a is given twice, first at Caddyfile:3, at Caddyfile:4"},
		{"upstream twice", handler("purser_upstream", "to a\n\t\tto b"), "to is given twice, first at Caddyfile:3, at Caddyfile:4"},
		{"resolve without address", handler("purser_proxy", "resolve a"), "wrong argument count"},
		{"two policies in a line", app("per_minute 1 2"), "wrong argument count"},
		{"budget twice", app("monthly_budget 1\n\t\tmonthly_budget 2"), "monthly_budget is given twice, first at Caddyfile:3, at Caddyfile:4"},
		{"host without a name", app("host {\n\t\t\tmax_payment 1\n\t\t}"), "wrong argument count"},
		{"host without a limit", app("host a.example"), "host a.example has no limit"},
		{"host twice", app("host a.example {\n\t\t\tmax_payment 1\n\t\t}\n\t\thost a.example {\n\t\t\tmax_payment 2\n\t\t}"), "host a.example is given twice, first at Caddyfile:3, at Caddyfile:6"},
		{"unknown limit of a task", app("task t {\n\t\t\tper_minute 1\n\t\t}"), `unrecognized subdirective "per_minute"`},
		{"unknown option of the transport", transport("intercept *"), `unrecognized subdirective "intercept"`},
		{"deleted option of the transport", transport("prepay a.example"), `unrecognized subdirective "prepay"`},
		{"deleted option of the proxy", handler("purser_proxy", "prepay a.example"), `unrecognized subdirective "prepay"`},
		{"argument of the transport", "http://:1 {\n\treverse_proxy a {\n\t\ttransport purser x\n\t}\n}\n", "wrong argument count"},
		{"transport's key in clear", transport("key pk_0123456789"), "{env.NAME}"},
		{"transport's key twice", transport("key {env.A}\n\t\t\tkey {env.B}"), "key is given twice, first at Caddyfile:4, at Caddyfile:5"},
		{"two tasks", transport("task a b"), "wrong argument count"},
		{"argument of http", transport("http x {\n\t\t\t}"), "wrong argument count"},
		{"unknown option of http", transport("http {\n\t\t\t\tno_such_thing\n\t\t\t}"), "no_such_thing"},
		{"TLS options for a plain upstream", transport("http {\n\t\t\t\ttls\n\t\t\t}"), "HTTPS"},
		{"unknown option of the sidecar door", handler("purser_upstream", "x y"), `unrecognized subdirective "x"`},
		{"sidecar door with an argument", "http://:1 {\n\tpurser_upstream https://a.example b\n}\n", "wrong argument count"},
		{"two upstreams", handler("purser_upstream", "to a b"), "wrong argument count"},
		{"sidecar door's key in clear", handler("purser_upstream", "key pk_0123456789"), "reference"},
		{"unknown option of the API", handler("purser_api", "x y"), `unrecognized subdirective "x"`},
	} {
		if _, err := adapt(c.caddyfile); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A guest whose name vanished is not set if the variable for it is set to nothing. Any other reference
// was meant to name one, and another store would be an empty one.
func TestCaddyfileGuestWithoutName(t *testing.T) {
	const names = "store {$PURSER_STORE:bolt}\n\t\twallets \"{$PURSER_WALLETS:local}\""
	of := func(options string) (string, error) {
		config, err := adapt("{\n\tpurser {\n\t\t" + options + "\n\t}\n}\n")
		return string(config), err
	}
	t.Setenv("PURSER_STORE", "")
	t.Setenv("PURSER_WALLETS", "")
	if config, err := of(names); err != nil || !strings.Contains(config, `"purser":{}`) {
		t.Errorf("%s, %v", config, err)
	}
	t.Setenv("PURSER_STORE", "postgres")
	t.Setenv("PURSER_WALLETS", "none")
	for _, options := range []string{"store {$PURSER_TEST_NOTHING}", "wallets \"{$PURSER_TEST_NOTHING}\"", "facilitator {$PURSER_TEST_NOTHING}", "store"} {
		if config, err := of(options); err == nil || !strings.Contains(err.Error(), "which module?, at Caddyfile:3") {
			t.Errorf("%s: %s, %v", options, config, err)
		}
	}
}

// Lists take several arguments, commas, and repeats where the list is one of texts. All are the same configuration.
func TestListsInTheCaddyfile(t *testing.T) {
	text := func(list, option string) string {
		return "{\n\tpurser {\n\t\t" + list + "\n\t}\n}\nhttp://127.0.0.1:8402 {\n\tpurser_proxy {\n\t\t" + option + "\n\t}\n}\n"
	}
	for _, c := range []struct{ list, option string }{
		{"allow_hosts a.example,b.example", "allow_hosts a.example,b.example"},
		{"allow_hosts a.example b.example", "allow_hosts a.example b.example"},
		{"allow_hosts a.example, b.example", "allow_hosts a.example\n\t\tallow_hosts b.example"},
		{`allow_hosts "a.example b.example"`, `allow_hosts "a.example, b.example"`},
	} {
		config, err := adapt(text(c.list, c.option))
		if err != nil {
			t.Errorf("%s: %v", c.list, err)
			continue
		}
		for from, list := range map[string][]string{"purser": {decodeAdapted(t, config).Apps.Purser["allow_hosts"].(string)}, "proxy": proxyHosts(t, config)} {
			if all, err := (setting.Option{}).All(list); err != nil || !slices.Equal(all, []string{"a.example", "b.example"}) {
				t.Errorf("%s, %s: %q, %v", c.list, from, list, err)
			}
		}
	}
	for _, wrong := range []string{text("max_payment 1 2", ""), text("", "dial_timeout 1s 2s"), text("allow_hosts", "")} {
		if _, err := adapt(wrong); err == nil || !strings.Contains(err.Error(), "Caddyfile:") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// proxyHosts returns allow_hosts of the one proxy of a configuration.
func proxyHosts(t *testing.T, config []byte) []string {
	t.Helper()
	_, rest, found := strings.Cut(string(config), `{"allow_hosts":[`)
	list, _, ended := strings.Cut(rest, "]")
	var hosts []string
	if err := json.Unmarshal([]byte("["+list+"]"), &hosts); err != nil || !found || !ended {
		t.Fatalf("%v: %s", err, config)
	}
	return hosts
}
