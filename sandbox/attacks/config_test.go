package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// This installation has everything that a scratch copy must not have: real secrets, services, data,
// names, logs, and apps that reach out. No value with REAL may appear in the copy or its
// environment.
const realConfig = `{
	"admin": {"listen": "localhost:2019", "remote": {"listen": ":2021"}},
	"storage": {"module": "file_system", "root": "/srv/REAL"},
	"logging": {
		"sink": {"writer": {"output": "net", "address": "REAL:1"}},
		"logs": {"default": {"level": "ERROR", "writer": {"output": "file", "filename": "/var/log/REAL"},
			"encoder": {"format": "filter", "fields": {"request>headers>X-Api-Key": {"filter": "delete"}}}}}
	},
	"apps": {
		"tls": {"automation": {"policies": [{"subjects": ["REAL.example.com"]}]}},
		"events": {"subscriptions": [{"handlers": [{"handler": "exec", "command": "REAL"}]}]},
		"pki": {"certificate_authorities": {"purser": {"install_trust": true, "name": "mine"}}},
		"http": {
			"grace_period": 30000000000,
			"servers": {
				"a": {
					"listen": [":443"],
					"listener_wrappers": [{"wrapper": "tls"}, {"wrapper": "purser", "max_connections": "17"}],
					"tls_connection_policies": [{}],
					"read_header_timeout": 12345678901234567,
					"routes": [{"match": [{"host": ["REAL.example.com"]}], "handle": [{"handler": "subroute", "routes": [
						{"match": [{"path": ["/x"], "host": ["inner.example.com"]}], "handle": [{"handler": "purser_proxy", "allow_addresses": ["{env.OFFICE}", "fd00::/8"], "ports": "443", "spool_dir": "/srv/REAL"}]},
						{"handle": [{"handler": "purser_api", "key_rate": 7}]}
					]}]}]
				},
				"b": {
					"listen": ["0.0.0.0:8406"],
					"routes": [{"handle": [
						{"handler": "purser_upstream", "to": "https://REAL.example.com"},
						{"handler": "reverse_proxy", "upstreams": [{"dial": "REAL:80"}], "headers": {"request": {"set": {"Authorization": ["REAL"]}}},
							"handle_response": [{"match": {"status_code": [2]}}]},
						{"handler": "reverse_proxy", "upstreams": [{"dial": "REAL:80"}], "health_checks": {"active": {"uri": "/REAL"}}}
					]}]
				}
			}
		},
		"purser": {
			"data_dir": "/srv/REAL", "master_key": "{env.REAL_MASTER}", "rpc_url": "https://REAL.example/v2", "key": "{env.PURSER_KEY}",
			"standin": "loopback", "internal_secret_file": "/run/REAL", "networks": "base-sepolia",
			"store": {"module": "bolt", "path": "/srv/REAL/purser.db", "min_free": "1MiB"},
			"wallets": {"module": "external", "url": "https://REAL.example"},
			"facilitator": {"module": "http", "url": "https://REAL.example", "key": "{env.REAL}", "timeout": "3s"},
			"max_payment": "{env.COMPANY_MAX}", "daily_budget": "5", "allow_hosts": "api.example.com", "upgrade_url": "{env.COMPANY_TOKEN}",
			"oidc_issuer": "https://REAL.example", "oidc_client_id": "purser", "oidc_allow": "@REAL.example",
			"webhooks": "{env.REAL_HOOKS}", "smtp_url_file": "/run/REAL", "mail_from": "REAL@example.com", "mail_to": "REAL@example.com"
		}
	}
}`

var realEnviron = []string{
	"PATH=/bin", "HOME=/home/REAL", "OFFICE=10.0.0.0/8", "COMPANY_MAX=0.5", "COMPANY_TOKEN=REAL", "UNRELATED=REAL",
	"PURSER_KEY=pk_REALREAL", "PURSER_MASTER_KEY_FILE=/run/REAL", "PURSER_INTERNAL_SECRET=REALREAL", "PURSER_DATA_DIR=/srv/REAL",
	"PURSER_SIGNER_URL=https://REAL", "CDP_API_KEY_SECRET=REAL", "DATABASE_URL=postgres://REAL", "PURSER_PORT=1",
	"PURSER_SOMETHING_KEY=REAL", "PURSER_OIDC_CLIENT_SECRET=REAL", "PURSER_OIDC_ALLOW=@REAL", "PURSER_UPSTREAM=https://REAL", "PURSER_BOLT_PATH=/srv/REAL",
	"PURSER_MONTHLY_BUDGET=77", "PURSER_PUBLIC_URL=https://purser.example.com", "PURSER_UNPROTECTED=limits", "XDG_DATA_HOME=/REAL",
	"PURSER_FACILITATOR_TIMEOUT=9s", "PURSER_WEBHOOKS=https://REAL", "PURSER_MAIL_TO=REAL@example.com", "REAL_HOOKS=https://REAL",
}

func scratchOf(t *testing.T, config string, environ []string) *setup {
	t.Helper()
	port := 20000
	s, err := scratch([]byte(config), environmentOf(environ), "/tmp/scratch", addresses{
		"http://127.0.0.1:1", "http://127.0.0.1:2", "/tmp/scratch.sock", func() (int, error) { port++; return port, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScratchHasNothingReal(t *testing.T) {
	t.Parallel()
	s := scratchOf(t, realConfig, realEnviron)
	for _, text := range append(slices.Clone(s.environ), string(s.config)) {
		if i := strings.Index(text, "REAL"); i >= 0 {
			t.Errorf("…%s…", text[max(0, i-60):min(len(text), i+40)])
		}
	}
	set := environmentOf(s.environ)
	for name, want := range map[string]string{
		"PATH": "/bin", "COMPANY_MAX": "0.5", "OFFICE": "10.0.0.0/8", "PURSER_MONTHLY_BUDGET": "77", "PURSER_FACILITATOR_TIMEOUT": "9s",
		"PURSER_PUBLIC_URL": "https://purser.example.com", "PURSER_FACILITATOR_URL": "http://127.0.0.1:1", "PURSER_RPC_URL": "http://127.0.0.1:2",
		"PURSER_ADMIN": "unix//tmp/scratch.sock|0600", "PURSER_PORT": "", "UNRELATED": "", "PURSER_STORE": "", "PURSER_UNPROTECTED": "limits",
	} {
		if set[name] != want {
			t.Errorf("%s is %q, want %q", name, set[name], want)
		}
	}
	for _, name := range []string{"PURSER_KEY", "PURSER_INTERNAL_SECRET", "PURSER_FACILITATOR_KEY"} {
		if len(set[name]) < 16 || !slices.Contains(s.secrets, set[name]) {
			t.Errorf("%s is %q", name, set[name])
		}
	}
	if set["COMPANY_TOKEN"] == "" {
		t.Error("a variable that the configuration refers to is missing")
	}
	for _, change := range s.changes {
		if change.What == "" || change.Scratch == "" {
			t.Errorf("%+v", change)
		}
	}
}

// The user's own protections stay.
func TestScratchKeepsWhatProtects(t *testing.T) {
	t.Parallel()
	s := scratchOf(t, realConfig, realEnviron)
	var root object
	decoder := json.NewDecoder(bytes.NewReader(s.config))
	decoder.UseNumber()
	if err := decoder.Decode(&root); err != nil {
		t.Fatal(err)
	}
	at := func(path string) any {
		var v any = root
		for _, name := range strings.Split(path, "/") {
			switch inner := v.(type) {
			case object:
				v = inner[name]
			case []any:
				if len(inner) == 0 {
					return nil
				}
				v = inner[0]
			}
		}
		return v
	}
	for path, want := range map[string]string{
		"admin/listen": "unix//tmp/scratch.sock|0600", "admin/remote": "<nil>", "logging/sink": "<nil>",
		"logging/logs/default/writer": "<nil>", "logging/logs/default/level": "ERROR", "logging/logs/default/encoder/format": "filter",
		"apps/tls": "<nil>", "apps/events": "<nil>", "apps/pki/certificate_authorities/purser/install_trust": "false",
		"apps/pki/certificate_authorities/purser/name": "mine", "apps/http/grace_period": "30000000000",
		"apps/http/servers/a/read_header_timeout": "12345678901234567", "apps/http/servers/a/tls_connection_policies": "<nil>",
		"apps/http/servers/a/listener_wrappers/0/wrapper": "purser", "apps/http/servers/a/listener_wrappers/0/max_connections": "17",
		"apps/http/servers/a/routes/0/match": "<nil>", "apps/http/servers/a/automatic_https/disable": "true",
		"apps/http/servers/a/routes/0/handle/0/routes/0/handle/0/ports": "443",
		"apps/purser/store/min_free":                                    "1MiB", "apps/purser/store/path": "<nil>", "apps/purser/data_dir": "/tmp/scratch/data",
		"apps/purser/wallets/module": "local", "apps/purser/facilitator/timeout": "3s", "apps/purser/facilitator/url": "<nil>",
		"apps/purser/max_payment": "{env.COMPANY_MAX}", "apps/purser/daily_budget": "5", "apps/purser/allow_hosts": "api.example.com",
		"apps/purser/standin": "loopback", "apps/purser/networks": "base",
	} {
		if got := fmt.Sprint(at(path)); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	for _, l := range s.listeners {
		if host, _, err := net.SplitHostPort(l); err != nil || host != "127.0.0.1" {
			t.Errorf("it listens on %s", l)
		}
	}
	if len(s.listeners) != 2 || s.api != s.proxy || !slices.Contains(s.listeners, s.api) {
		t.Errorf("doors at %s and %s, listeners %v", s.api, s.proxy, s.listeners)
	}
	y := s.yours
	if y.admin != "localhost:2019" || !y.standin || y.keyRate != 7 || !y.rpc || !y.settles || y.external != "external" ||
		fmt.Sprint(y.allowed) != "[10.0.0.0/8 fd00::/8]" || y.registrationOff || fmt.Sprint(y.exposed) != "[:443]" {
		t.Errorf("yours are %+v", y)
	}
}

// A minimal installation works too.
func TestScratchOfLittle(t *testing.T) {
	t.Parallel()
	s := scratchOf(t, `{"apps":{"http":{"servers":{"x":{"listen":[":80"],"routes":[{"handle":[{"handler":"purser_proxy"}]}]}}}}}`, nil)
	if s.proxy == "" || s.api == "" || s.api == s.proxy || len(s.listeners) != 2 || !bytes.Contains(s.config, []byte(apiHandler)) {
		t.Errorf("doors at %q and %q in %s", s.api, s.proxy, s.config)
	}
	if s.yours.keyRate != 60 || s.yours.standin || s.yours.rpc {
		t.Errorf("yours are %+v", s.yours)
	}
	if y := s.yours; y.registrationOff || fmt.Sprint(y.exposed) != "[]" || y.failures != [2]int{100, 3000} { // there is no API
		t.Errorf("yours are %+v", y)
	}
	if s := scratchOf(t, `{}`, nil); s.proxy != "" || s.api == "" {
		t.Errorf("doors at %q and %q", s.api, s.proxy)
	}
	for _, bad := range []string{"", "[]", "null", "7", "{"} {
		if _, err := scratch([]byte(bad), nil, "/tmp/scratch", addresses{ports: func() (int, error) { return 1, nil }}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// The attacks read the settings of registration as purser reads them.
func TestScratchOfRegistration(t *testing.T) {
	t.Parallel()
	const listening = `{"apps":{"purser":{%s},"http":{"servers":{"x":{"listen":[%q],"routes":[{"handle":[{"handler":"purser_api"}]}]}}}}}`
	for _, c := range []struct {
		app, listen string
		environ     []string
		off         bool
		exposed     string
		failures    [2]int
	}{
		{"", "127.0.0.1:8402", nil, false, "[]", [2]int{100, 3000}},
		{"", "[::1]:8402", nil, false, "[]", [2]int{100, 3000}},
		{"", "unix//run/purser.sock", nil, false, "[]", [2]int{100, 3000}},
		{"", "tcp/0.0.0.0:8402", []string{"PURSER_FAILURES_PER_MINUTE=off", "PURSER_FAILURES_PER_DAY=7"}, false, "[tcp/0.0.0.0:8402]", [2]int{0, 7}},
		{`"registration":"off","failures_per_day":"off"`, "0.0.0.0:8402", nil, true, "[0.0.0.0:8402]", [2]int{100, 0}},
		{"", "0.0.0.0:8402", []string{"PURSER_REGISTRATION=off"}, true, "[0.0.0.0:8402]", [2]int{100, 3000}},
	} {
		s := scratchOf(t, fmt.Sprintf(listening, c.app, c.listen), c.environ)
		if y := s.yours; y.registrationOff != c.off || fmt.Sprint(y.exposed) != c.exposed || y.failures != c.failures {
			t.Errorf("%+v: yours are %+v", c, y)
		}
		if got := environmentOf(s.environ)["PURSER_REGISTRATION"]; (got == "off") != (c.off && c.app == "") {
			t.Errorf("%+v: passed on as %q", c, got)
		}
	}
}

// The attacks read the bound of quotes.
func TestScratchOfQuotes(t *testing.T) {
	t.Parallel()
	const config = `{"apps":{"purser":{%s}}}`
	for _, c := range []struct {
		app     string
		environ []string
		quotes  int
	}{
		{"", nil, 300},
		{"", []string{"PURSER_QUOTES_PER_MINUTE=7"}, 7},
		{`"quotes_per_minute":"off"`, []string{"PURSER_QUOTES_PER_MINUTE=7"}, 0},
	} {
		s := scratchOf(t, fmt.Sprintf(config, c.app), c.environ)
		if y := s.yours; y.quotes != c.quotes {
			t.Errorf("%+v: yours are %+v", c, y)
		}
	}
}
