package caddymodule

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/internal/vault"
)

func TestPaymentEndToEnd(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	s := newSite(t)
	mustLoad(t, s.caddyfile())

	key := newKey(t, s.url())
	answer := mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(10_000, "https://api.example.com/v2"))
	if answer["settled"] != true || answer["paymentSignature"] == "" || answer["transaction"] == "" {
		t.Errorf("answer %v", answer)
	}
	events := mustCall(t, 200, "GET", s.url()+"/v1/spend", key, "")["events"]
	if rows, ok := events.([]any); !ok || len(rows) != 1 || rows[0].(map[string]any)["amount"] != "10000" {
		t.Errorf("spend %v", events)
	}
	if f.settled.Load() != 1 {
		t.Errorf("settled %d times", f.settled.Load())
	}
	if answer := mustCall(t, 404, "GET", s.url()+"/nowhere", "", ""); answer["error"] != "Not found" {
		t.Errorf("unknown route: %v", answer)
	}
	if h := mustCall(t, 200, "GET", s.url()+"/health", "", ""); h["version"] != Version() || h["ok"] != true {
		t.Errorf("health %v", h)
	}
	info, err := os.Stat(s.dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v", info, err)
	}
}

// The handlers work without the app being mentioned, and the app without any option.
func TestDefaults(t *testing.T) {
	t.Setenv("PURSER_DATA_DIR", t.TempDir()+"/data")
	s := newSite(t)
	text := strings.Replace(s.caddyfile(), "purser {\n\t\tdata_dir "+s.dir+"\n\t\t\n\t}", "", 1)
	if strings.Contains(text, "data_dir") {
		t.Fatalf("the app is still there: %s", text)
	}
	mustLoad(t, text)
	newKey(t, s.url())
	if pooledAt(t).recovering() == nil {
		t.Error("the app was not started")
	}
}

func TestValidateOpensNothing(t *testing.T) {
	t.Setenv("PURSER_KEY", "pk_deployment")
	s := newSite(t)
	if err := validate(s.caddyfile()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("data directory: %v", err)
	}
	stores.Range(func(place, _ any) bool {
		t.Errorf("%v is open", place)
		return true
	})
}

func TestBadValues(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		env   map[string]string
		app   string
		route string
		want  string
	}{
		{name: "master key", env: map[string]string{"PURSER_MASTER_KEY": "abc"}, want: "PURSER_MASTER_KEY"},
		{
			name: "two master keys", env: map[string]string{"PURSER_MASTER_KEY": strings.Repeat("00", 32), "PURSER_MASTER_KEY_FILE": "/x"},
			want: "PURSER_MASTER_KEY_FILE is set as well",
		},
		{name: "key", env: map[string]string{"PURSER_KEY": "short"}, want: "PURSER_KEY"},
		{name: "two keys", env: map[string]string{"PURSER_KEY": "pk_12345678", "PURSER_KEY_FILE": "/x"}, want: "PURSER_KEY_FILE is set as well"},
		{name: "key file", env: map[string]string{"PURSER_KEY_FILE": "/nowhere/key"}, want: "PURSER_KEY_FILE"},
		{name: "empty key file", env: map[string]string{"PURSER_KEY_FILE": empty}, want: "PURSER_KEY_FILE"},
		{name: "secret file", env: map[string]string{"PURSER_INTERNAL_SECRET_FILE": "/nowhere"}, want: "PURSER_INTERNAL_SECRET_FILE"},
		{name: "stand-in", env: map[string]string{"PURSER_STANDIN": "yes"}, want: "PURSER_STANDIN"},
		{name: "stand-in without key", env: map[string]string{"PURSER_STANDIN": "loopback"}, want: "PURSER_KEY"},
		{name: "settlement", env: map[string]string{"PURSER_SETTLEMENT": "both"}, want: "PURSER_SETTLEMENT"},
		{name: "payment limit", env: map[string]string{"PURSER_MAX_PAYMENT": "1,5"}, want: "PURSER_MAX_PAYMENT"},
		{name: "negative limit", env: map[string]string{"PURSER_MAX_PAYMENT": "-1"}, want: "PURSER_MAX_PAYMENT"},
		{name: "budget", env: map[string]string{"PURSER_DAILY_BUDGET": "0.0000001"}, want: "PURSER_DAILY_BUDGET"},
		{name: "budget in words", app: "daily_budget unlimited", want: "daily_budget"},
		{name: "network", env: map[string]string{"PURSER_NETWORKS": "base,solana"}, want: `PURSER_NETWORKS): unknown network "solana"`},
		{name: "wire name", env: map[string]string{"PURSER_NETWORKS": "eip155:8453"}, want: "PURSER_NETWORKS"},
		{name: "scheme", env: map[string]string{"PURSER_SCHEMES": "exact,deferred"}, want: `PURSER_SCHEMES): unknown scheme "deferred"`},
		{name: "no scheme", env: map[string]string{"PURSER_SCHEMES": ","}, want: "PURSER_SCHEMES"},
		{name: "no network", env: map[string]string{"PURSER_NETWORKS": ","}, want: "PURSER_NETWORKS"},
		{name: "facilitator", env: map[string]string{"PURSER_FACILITATOR_URL": "localhost"}, want: "PURSER_FACILITATOR_URL"},
		{name: "facilitator timeout", env: map[string]string{"PURSER_FACILITATOR_TIMEOUT": "soon"}, want: "PURSER_FACILITATOR_TIMEOUT"},
		{name: "rpc", env: map[string]string{"PURSER_RPC_URL": "wss://rpc.example"}, want: "PURSER_RPC_URL"},
		{name: "upgrade url", env: map[string]string{"PURSER_UPGRADE_URL": "/upgrade"}, want: "PURSER_UPGRADE_URL"},
		{name: "public url", env: map[string]string{"PURSER_PUBLIC_URL": "purser.example"}, want: "PURSER_PUBLIC_URL"},
		{name: "store", env: map[string]string{"PURSER_STORE": "mysql"}, want: "PURSER_STORE): there is no module \"mysql\", only: bolt, postgres"},
		{name: "no database", env: map[string]string{"PURSER_STORE": "postgres"}, want: "DATABASE_URL): is not set"},
		{name: "database", env: map[string]string{"PURSER_STORE": "postgres", "DATABASE_URL": "postgres://u:p@h:port/d"}, want: "DATABASE_URL): the URL of the database cannot be read"},
		{name: "database's file", env: map[string]string{"PURSER_STORE": "postgres", "DATABASE_URL_FILE": "/nowhere"}, want: "DATABASE_URL_FILE): open /nowhere"},
		{name: "wallets", env: map[string]string{"PURSER_WALLETS": "remote"}, want: "PURSER_WALLETS): there is no module \"remote\", only: cdp, external, local, none"},
		{name: "external wallets", env: map[string]string{"PURSER_WALLETS": "external"}, want: "PURSER_SIGNER_URL): is not set"},
		{name: "signer url", env: map[string]string{"PURSER_WALLETS": "external", "PURSER_SIGNER_URL": "signer:9000"}, want: "PURSER_SIGNER_URL"},
		{name: "signer urls", env: map[string]string{"PURSER_WALLETS": "external", "PURSER_SIGNER_URL": "http://a", "PURSER_SIGNER_URL_FILE": "/x"}, want: "PURSER_SIGNER_URL_FILE is set as well"},
		{name: "signer url file", env: map[string]string{"PURSER_WALLETS": "external", "PURSER_SIGNER_URL_FILE": "/nowhere/url"}, want: "PURSER_SIGNER_URL_FILE"},
		{name: "signer key", env: map[string]string{"PURSER_WALLETS": "external", "PURSER_SIGNER_URL": "http://u:p@a", "PURSER_SIGNER_KEY": "abc"}, want: "PURSER_SIGNER_KEY"},
		{name: "signer timeout", env: map[string]string{"PURSER_WALLETS": "external", "PURSER_SIGNER_URL": "http://a", "PURSER_SIGNER_TIMEOUT": "soon"}, want: "PURSER_SIGNER_TIMEOUT"},
		{name: "cdp wallets", env: map[string]string{"PURSER_WALLETS": "cdp"}, want: "CDP_API_KEY_ID is not set"},
		{name: "cdp key secret", env: map[string]string{"PURSER_WALLETS": "cdp", "CDP_API_KEY_ID": "id"}, want: "CDP_API_KEY_SECRET is not set"},
		{name: "cdp key secret, unreadable", env: map[string]string{"PURSER_WALLETS": "cdp", "CDP_API_KEY_ID": "id", "CDP_API_KEY_SECRET": "none"}, want: "CDP_API_KEY_SECRET: neither 64 bytes"},
		{name: "cdp wallet secret", env: map[string]string{"PURSER_WALLETS": "cdp", "CDP_API_KEY_ID": "id", "CDP_API_KEY_SECRET": cdpKeySecret}, want: "CDP_WALLET_SECRET is not set"},
		{name: "cdp wallet secret, unreadable", env: map[string]string{"PURSER_WALLETS": "cdp", "CDP_API_KEY_ID": "id", "CDP_API_KEY_SECRET": cdpKeySecret, "CDP_WALLET_SECRET": "not base64"}, want: "CDP_WALLET_SECRET: not base64"},
		{name: "cdp facilitator", env: map[string]string{"PURSER_FACILITATOR_URL": "https://api.cdp.coinbase.com/platform/v2/x402"}, want: "CDP_API_KEY_ID is not set, and the facilitator is CDP's"},
		{name: "facilitator auth", env: map[string]string{"PURSER_FACILITATOR_URL": "http://a", "PURSER_FACILITATOR_AUTH": "basic"}, want: `"basic" is neither key nor cdp`},
		{name: "facilitator key and auth", env: map[string]string{"PURSER_FACILITATOR_URL": "http://a", "PURSER_FACILITATOR_KEY": "k", "PURSER_FACILITATOR_AUTH": "cdp"}, want: "PURSER_FACILITATOR_KEY): is set, and"},
		{name: "free space", env: map[string]string{"PURSER_BOLT_MIN_FREE": "much"}, want: "PURSER_BOLT_MIN_FREE"},
		{name: "second rpc", env: map[string]string{"PURSER_RPC_URL": "https://a.example", "PURSER_RPC_URL_2": "wss://rpc.example"}, want: "PURSER_RPC_URL_2"},
		{name: "second rpc alone", env: map[string]string{"PURSER_RPC_URL_2": "https://rpc.example"}, want: "PURSER_RPC_URL_2"},
		{name: "the same rpc twice", env: map[string]string{"PURSER_RPC_URL": "https://a.example"}, app: "rpc_url_2 https://a.example", want: "PURSER_RPC_URL_2"},
		{name: "placeholder", app: "rpc_url {nothing.known}", want: "PURSER_RPC_URL"},
		{name: "addresses", env: map[string]string{"PURSER_ALLOW_ADDRESSES": "10.0.0.0/8, 10.1"}, route: "purser_proxy", want: "PURSER_ALLOW_ADDRESSES"},
		{name: "ports", route: "purser_proxy {\n\t\t\tports 80-70\n\t\t}", want: "ports"},
		{name: "replay", route: "purser_proxy {\n\t\t\tmax_replay big\n\t\t}", want: "max_replay"},
		{name: "fixed name", route: "purser_proxy {\n\t\t\tresolve a.test b\n\t\t}", want: "resolve"},
		{name: "spool", route: "purser_proxy {\n\t\t\tmax_spool 0\n\t\t}", want: "max_spool"},
		{name: "intercepted host", env: map[string]string{"PURSER_INTERCEPT": "a b,https://c"}, route: "purser_proxy", want: "PURSER_INTERCEPT"},
		{name: "interception on and off", route: "purser_proxy {\n\t\t\tintercept a.example\n\t\t\tintercept off\n\t\t}", want: "not both"},
		{name: "no host", env: map[string]string{"PURSER_INTERCEPT": ","}, route: "purser_proxy", want: "PURSER_INTERCEPT"},
		{name: "tunnelled host", route: "purser_proxy {\n\t\t\ttunnel a/b\n\t\t}", want: "tunnel"},
		{name: "no file to trust", route: "purser_proxy {\n\t\t\ttrust /nowhere.pem\n\t\t}", want: "trust"},
		{name: "webhook in the configuration", app: "webhooks https://hooks.slack.com/services/T/B/x-secret", want: "webhooks (PURSER_WEBHOOKS)"},
		{name: "webhook over http", env: map[string]string{"PURSER_WEBHOOKS": "https://a.example/x http://b.example/x-secret"}, want: "PURSER_WEBHOOKS"},
		{name: "webhook secret", env: map[string]string{"PURSER_WEBHOOK_SECRET": "x-secret"}, want: "whsec_"},
		{name: "webhook kinds", env: map[string]string{"PURSER_WEBHOOK_KINDS": "budgets"}, want: "PURSER_WEBHOOK_KINDS"},
		{name: "mail server", env: map[string]string{"PURSER_SMTP_URL": "mail.example.com:587"}, want: "PURSER_SMTP_URL"},
		{name: "mail without recipients", env: map[string]string{"PURSER_SMTP_URL": "smtp://u:x-secret@mail.example.com", "PURSER_MAIL_FROM": "a@example.com"}, want: "recipients"},
		{name: "low balance", env: map[string]string{"PURSER_LOW_BALANCE": "much"}, want: "PURSER_LOW_BALANCE"},
		{name: "retain too short", app: "retain 59d", want: "retain (PURSER_RETAIN)"},
		{name: "retain in words", env: map[string]string{"PURSER_RETAIN": "a year"}, want: "retain (PURSER_RETAIN)"},
		{name: "registration", app: "registration yes", want: "registration (PURSER_REGISTRATION)"},
		{name: "failures", app: "failures_per_minute 0", want: "failures_per_minute (PURSER_FAILURES_PER_MINUTE)"},
		{name: "failures in words", app: "failures_per_minute x", want: "failures_per_minute (PURSER_FAILURES_PER_MINUTE)"},
		{name: "quotes in words", app: "quotes_per_minute x", want: "quotes_per_minute (PURSER_QUOTES_PER_MINUTE)"},
		{name: "negative failures", app: "failures_per_day -1", want: "failures_per_day (PURSER_FAILURES_PER_DAY)"},
		{name: "concurrency", app: "max_concurrent 0", want: "max_concurrent (PURSER_MAX_CONCURRENT)"},
		{name: "concurrency in words", app: "max_concurrent many", want: "max_concurrent (PURSER_MAX_CONCURRENT)"},
		{name: "queue without a bound", app: "max_queued off", want: "max_queued (PURSER_MAX_QUEUED)"},
		{name: "no wait", app: "max_wait 0s", want: "max_wait (PURSER_MAX_WAIT)"},
		{name: "wait in words", app: "max_wait soon", want: "max_wait (PURSER_MAX_WAIT)"},
		{name: "tunnels", route: "purser_proxy {\nmax_tunnels off\n}", want: "PURSER_PROXY_MAX_TUNNELS"},
		{name: "tunnels of a key", route: "purser_proxy {\nmax_key_tunnels x\n}", want: "PURSER_PROXY_MAX_KEY_TUNNELS"},
		{name: "tunnels of a client", route: "purser_proxy {\nmax_peer_tunnels 0\n}", want: "PURSER_PROXY_MAX_PEER_TUNNELS"},
		{name: "failures of a seller", route: "purser_proxy {\nmax_failures -1\n}", want: "PURSER_PROXY_MAX_FAILURES"},
		{name: "plans", app: "plans none", want: "neither on nor off"},
		{name: "no keys in a plan", app: "plan free {\nkeys 0\n}", want: "plan free keys"},
		{name: "too many keys in a plan", app: "plan free {\nkeys 1000000\n}", want: "keys"},
		{name: "price in words", app: "plan free {\nprice free\n}", want: "price"},
		{name: "sign-in without a provider", app: "oidc_client_id purser", want: "PURSER_OIDC_ISSUER is missing"},
		{name: "sign-in without a client", app: "oidc_issuer https://i.example", want: "PURSER_OIDC_CLIENT_ID is missing"},
		{name: "provider over http", app: "oidc_issuer http://i.example\noidc_client_id x", want: "loopback"},
		{
			name: "public URL with a path", app: "oidc_issuer https://i.example\noidc_client_id x\npublic_url https://p.example/purser",
			want: "PURSER_PUBLIC_URL",
		},
		{name: "nothing to trust", route: "purser_proxy {\n\t\t\ttrust " + empty + "\n\t\t}", want: "holds no certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			s := newSite(t)
			s.app = c.app
			if c.route != "" {
				s.route = c.route
			}
			err := validate(s.caddyfile())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			for name, value := range c.env {
				if strings.Contains(name, "KEY") && len(value) > 4 && !strings.Contains(name, "FILE") && strings.Contains(err.Error(), value) {
					t.Errorf("the error tells a secret: %v", err)
				}
			}
		})
	}
}

// Values that are not set, or set to nothing, are what the defaults say.
func TestEmptyValues(t *testing.T) {
	for _, variable := range readSource(t).variables {
		t.Setenv(variable, "")
		t.Setenv(variable+"_FILE", "")
	}
	got, err := new(App).resolve()
	if err != nil {
		t.Fatal(err)
	}
	if got.policy.MaxPayment.String() != "1000000" || got.policy.DailyBudget.String() != "10000000" || got.settlement != "payer" ||
		len(got.networks) != 1 || got.networks[0].Name != "base" || got.standin || filepath.Base(got.dataDir) != "purser-data" {
		t.Errorf("%+v", got)
	}
	p := got.policy
	if p.MonthlyBudget != nil || p.PerMinute != nil || p.PriceGuard != nil || p.AllowHosts != nil || p.AllowPayees != nil ||
		p.Hosts != nil || p.Tasks != nil || got.dailyGiven {
		t.Errorf("policy %+v", p)
	}
}

func TestSecretFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("  pk_fromfile\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := (&App{KeyFile: file}).resolve()
	if err != nil || got.key != "pk_fromfile" {
		t.Errorf("key %q, %v", got.key, err)
	}
	if err := os.WriteFile(file, make([]byte, environment.MaxSecret+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&App{KeyFile: file}).resolve(); err == nil || !strings.Contains(err.Error(), "PURSER_KEY_FILE") {
		t.Errorf("a large file: %v", err)
	}
}

func TestSecretsAreReferences(t *testing.T) {
	t.Parallel()
	for _, a := range []*App{{Key: "pk_12345678"}, {InternalSecret: "s"}, {MasterKey: strings.Repeat("00", 32)}} {
		if _, err := a.resolve(); err == nil || !strings.Contains(err.Error(), "reference") || strings.Contains(err.Error(), "pk_12345678") {
			t.Errorf("error %v", err)
		}
	}
}

// A file is one place, whatever path leads to it.
func TestBoltPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(dir, dir+"-link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir + "-link") })
	places := map[string]bool{}
	for i, path := range []string{dir + "/a/purser.db", dir + "-link/a/purser.db", dir + "/a/../a//purser.db", dir + "/link.db"} {
		if i == 3 {
			if err := errors.Join(os.WriteFile(dir+"/a/purser.db", nil, 0o600), os.Symlink(dir+"/a/purser.db", dir+"/link.db")); err != nil {
				t.Fatal(err)
			}
		}
		place, err := (&BoltStore{path: path}).Place("/nowhere")
		if err != nil {
			t.Fatal(err)
		}
		places[place] = true
	}
	if len(places) != 1 {
		t.Errorf("%v", places)
	}
}

// A part that outlives a reload logs where the newest configuration does.
func TestLogFollowsTheNewestConfiguration(t *testing.T) {
	t.Parallel()
	var before, after strings.Builder
	f := logs.NewFollower(slog.NewTextHandler(&before, nil))
	log := slog.New(f).With("part", "store").WithGroup("g")
	log.Info("one", "n", 1)
	f.Follow(slog.NewTextHandler(&after, &slog.HandlerOptions{Level: slog.LevelDebug}))
	log.Debug("two", "n", 2)
	if !strings.Contains(before.String(), "msg=one part=store g.n=1") || strings.Contains(before.String(), "two") {
		t.Errorf("before: %s", before.String())
	}
	if !strings.Contains(after.String(), "msg=two part=store g.n=2") || strings.Contains(after.String(), "one") {
		t.Errorf("after: %s", after.String())
	}
}

func TestWorldInJSON(t *testing.T) {
	t.Parallel()
	if _, err := (&App{World: "sandbox"}).resolve(); err != nil {
		t.Error(err)
	}
	if _, err := (&App{World: "0xabc"}).resolve(); err == nil || !strings.Contains(err.Error(), "world") {
		t.Errorf("another world: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	t.Run("stand-in for everybody", func(t *testing.T) {
		t.Setenv("PURSER_KEY", "pk_deployment")
		t.Setenv("PURSER_STANDIN", "loopback")
		s := newSite(t)
		s.bind, s.route = "0.0.0.0", "purser_proxy\n\t\tpurser_api"
		err := load(t, s.caddyfile())
		if err == nil || !strings.Contains(err.Error(), "PURSER_STANDIN") || !strings.Contains(err.Error(), "PURSER_BIND") {
			t.Errorf("error %v", err)
		}
		if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
			t.Errorf("data directory: %v", err)
		}
		s.bind = "127.0.0.1 [::1]"
		mustLoad(t, s.caddyfile())
	})
	t.Run("no site", func(t *testing.T) {
		s := newSite(t)
		s.route = "respond ok"
		if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_BIND") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("site that listens nowhere", func(t *testing.T) {
		s := newSite(t)
		s.bind = "{$PURSER_TEST_NOTHING}"
		if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_BIND") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("master key file", func(t *testing.T) {
		t.Setenv("PURSER_MASTER_KEY_FILE", "/nowhere/master.key")
		s := newSite(t)
		if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_MASTER_KEY_FILE") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("wrong master key", func(t *testing.T) {
		s := newSite(t)
		mustLoad(t, s.caddyfile())
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PURSER_MASTER_KEY", strings.Repeat("11", 32))
		if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_MASTER_KEY") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("sandbox store", func(t *testing.T) {
		s := newSite(t)
		db, err := boltstore.Open(t.Context(), boltstore.Options{
			Path: s.dir + "/purser.db", MasterKey: vault.From("", "", s.dir+"/master.key"), World: boltstore.Sandbox,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "purser-sandbox") {
			t.Errorf("error %v", err)
		}
		config, err := adapt(s.caddyfile())
		if err != nil {
			t.Fatal(err)
		}
		asSandbox := strings.Replace(string(config), `"data_dir":`, `"world":"sandbox","data_dir":`, 1)
		if err := caddy.Load([]byte(asSandbox), true); err != nil {
			t.Error(err)
		}
	})
	t.Run("held database", func(t *testing.T) {
		s := newSite(t)
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		held, err := bbolt.Open(s.dir+"/purser.db", 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		began := time.Now()
		err = load(t, s.caddyfile())
		if err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "PURSER_DATA_DIR") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %s to say so", took)
		}
	})
}

// A failed start leaves nothing open behind.
func TestFailedStartReleases(t *testing.T) {
	s := newSite(t)
	t.Setenv("PURSER_ALLOWED_ORIGINS", "not an origin") // judged after the store was opened
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_ALLOWED_ORIGINS") {
		t.Fatalf("error %v", err)
	}
	stores.Range(func(place, _ any) bool {
		t.Errorf("%v is open", place)
		return true
	})
	t.Setenv("PURSER_ALLOWED_ORIGINS", "")
	mustLoad(t, s.caddyfile())
}

func TestDeploymentKey(t *testing.T) {
	const key = "pk_deployment-secret"
	t.Setenv("PURSER_KEY", key)
	s := newSite(t)
	logged := filepath.Join(t.TempDir(), "log")
	text := strings.Replace(s.caddyfile(), "level WARN", "level INFO\n\t\toutput file "+logged, 1)
	mustLoad(t, text)
	wallets := mustCall(t, 200, "GET", s.url()+"/wallets/me", key, "")["wallets"].([]any)
	if len(wallets) != 1 || wallets[0].(map[string]any)["network"] != "base" {
		t.Fatalf("wallets %v", wallets)
	}
	address := wallets[0].(map[string]any)["address"].(string)
	mustLoad(t, text) // known by now: no second wallet
	if n := len(mustCall(t, 200, "GET", s.url()+"/wallets/me", key, "")["wallets"].([]any)); n != 1 {
		t.Errorf("%d wallets after a reload", n)
	}
	out := logAtTheEnd(t, logged)
	if !strings.Contains(out, address) || strings.Contains(out, key) {
		t.Errorf("the log must tell %s and not the key: %s", address, out)
	}
}

// cdpKeySecret is 64 bytes of Ed25519, the key of a seed of zeros.
const cdpKeySecret = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA7aie8zrakLWKjqNAqbw1zZTIVdx3iQ6Y6wEihi1naKQ=="
