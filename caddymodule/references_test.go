package caddymodule

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/options"
)

// writtenOptions returns a Caddyfile for each option that purser has, by the option's place. In it the
// option has the value %s.
func writtenOptions(t *testing.T) map[string]string {
	t.Helper()
	s, all := newSite(t), map[string]string{}
	in := func(where, before, after string, names []string, put func(options string)) {
		for _, name := range names {
			put(before + name + " %s" + after)
			all[where+" "+name] = s.caddyfile()
			if name == "data_dir" {
				all[where+" "+name] = strings.Replace(s.caddyfile(), "data_dir "+s.dir, "", 1)
			}
		}
	}
	names := func(of any, more ...string) []string {
		return slices.Sorted(slices.Values(append(more, slices.Collect(maps.Keys(options.Fields(of)))...)))
	}
	app := func(options string) { s.app = options }
	in("purser", "", "", names(new(App)), app)
	in("network", "network base {\n", "\n}", names(new(NetworkOptions)), app)
	in("plan", "plan free {\n", "\n}", names(new(PlanOptions)), app)
	in("host", "host api.example.com:8443 {\n", "\n}", names(new(BudgetOptions)), app)
	in("task", "task Nightly {\n", "\n}", names(new(BudgetOptions)), app)
	in("bolt", "store bolt {\n", "\n}", names(new(BoltStore)), app)
	in("postgres", "store postgres {\n", "\n}", names(new(PostgresStore)), app)
	in("external", "wallets external {\n", "\n}", []string{"url", "url_file"}, app)
	in("external", "wallets external {\nurl http://127.0.0.1:1\n", "\n}", []string{"key", "key_file", "timeout"}, app)
	in("cdp", "wallets cdp {\n", "\n}", names(new(CDPWallets)), app)
	in("facilitator", "facilitator http {\n", "\n}", names(new(HTTPFacilitator)), app)
	s.app = ""
	route := func(options string) { s.route = options }
	in("purser_proxy", "purser_proxy {\n", "\n}\npurser_api", names(new(Proxy)), route)
	in("purser_proxy", "purser_proxy {\nresolve a.example ", "\n}\npurser_api", []string{""}, route)
	in("purser_proxy resolve", "purser_proxy {\nresolve ", " 127.0.0.1\n}\npurser_api", []string{""}, route)
	in("purser_upstream", "purser_upstream {\n", "\n}", names(new(DoorOptions), "to"), route)
	in("purser_api", "purser_api {\n", "\n}", names(new(API)), route)
	in("transport", "reverse_proxy 127.0.0.1:1 {\ntransport purser {\n", "\n}\n}", names(new(DoorOptions)), route)
	s.route = "purser_api"
	in("listener", "servers {\nlistener_wrappers {\npurser {\n", "\n}\n}\n}", names(new(Listener)), func(options string) { s.global = options })
	return all
}

// A reference that is written and leads to nothing is an error for every option there is: else a limit
// that was meant to hold would count as left out.
func TestReferencesLeadSomewhere(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PURSER_TEST_BLANK", " ")
	all := writtenOptions(t)
	if len(all) < 120 {
		t.Fatalf("%d options only", len(all))
	}
	for place, caddyfile := range all {
		name := place[strings.LastIndexByte(place, ' ')+1:]
		for written, want := range map[string]string{
			"{env.PURSER_TEST_NOTHING}": "{env.PURSER_TEST_NOTHING} is empty or not set", "{env.PURSER_TEST_BLANK}": "{env.PURSER_TEST_BLANK} is empty",
			"{file./nowhere/x}": "{file./nowhere/x} cannot be read: open /nowhere/x", "{file." + dir + "}": "is a directory", "{file." + empty + "}": "/empty} is empty",
			"{http.request.host}": "{http.request.host} is nothing that is known",
		} {
			door, _, _ := strings.Cut(place, " ")
			if written == "{http.request.host}" && (name == "key" || name == "task") && (door == "transport" || door == "purser_upstream") {
				continue // each request has a value for it
			}
			err := validate(strings.Replace(caddyfile, "%s", written, 1))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s %s: %v", place, written, err)
			}
		}
		for _, written := range []string{`"{$PURSER_TEST_NOTHING}"`, "{$PURSER_TEST_NOTHING}", `""`, `" "`} { // they are gone when the file is read
			if err := validate(strings.Replace(caddyfile, "%s", written, 1)); err == nil || !strings.Contains(err.Error(), "Caddyfile:") {
				t.Errorf("%s %s: %v", place, written, err)
			}
		}
	}
	for _, name := range []string{"max_payment", "upgrade_url", "deny_hosts"} {
		for _, written := range []string{"1{env.PURSER_TEST_NOTHING}", "{env.PURSER_TEST_NOTHING", "https://a.example/{file./nowhere/x}/"} {
			s.app = name + " " + written
			if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "; leave the option out") {
				t.Errorf("%s %s: %v", name, written, err)
			}
		}
	}
	// The own variable of an option may be unset where the option is left out, and not where it is written.
	s.app = "monthly_budget {env.PURSER_MONTHLY_BUDGET}"
	if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), "{env.PURSER_MONTHLY_BUDGET} is empty or not set") {
		t.Error(err)
	}
	t.Setenv("PURSER_MONTHLY_BUDGET", "5")
	if err := validate(s.caddyfile()); err != nil {
		t.Error(err)
	}
	t.Setenv("PURSER_MONTHLY_BUDGET", "")
	if s.app = ""; validate(s.caddyfile()) != nil {
		t.Error("an option that is left out needs its variable")
	}
}

// A variable that names a file must name one that has something in it. A new master key, for one, would
// not open the wallets.
func TestFilesOfVariablesLeadSomewhere(t *testing.T) {
	s := newSite(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, name := range environment.Known() {
		if !strings.HasSuffix(name, "_FILE") || strings.Contains(name, "RPC_URL_") && !strings.HasPrefix(name, "PURSER_RPC_URL_BASE_") && name != "PURSER_RPC_URL_2_FILE" {
			continue
		}
		switch s.app = ""; {
		case strings.Contains(name, "BASE_SEPOLIA"):
			s.app = "networks base-sepolia"
		case strings.HasPrefix(name, "CDP_"):
			s.app = "wallets cdp {\napi_key_id x\n}"
		case strings.HasPrefix(name, "PURSER_SIGNER_KEY"):
			s.app = "wallets external {\nurl http://127.0.0.1:1\n}"
		case strings.HasPrefix(name, "PURSER_SIGNER"):
			s.app = "wallets external"
		case strings.HasPrefix(name, "DATABASE"):
			s.app = "store postgres"
		}
		tried++
		for _, path := range []string{"/nowhere/x", empty, t.TempDir()} {
			t.Run(name, func(t *testing.T) {
				t.Setenv(name, path)
				if err := validate(s.caddyfile()); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %v", path, err)
				}
			})
		}
	}
	if tried < 15 {
		t.Errorf("%d variables only", tried)
	}
}

// A reload with a reference to nothing leaves the limits of before in force.
func TestReloadWithAReferenceToNothing(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	t.Setenv("PURSER_TEST_LIMIT", "0.001")
	s := newSite(t)
	s.app = "max_payment {env.PURSER_TEST_LIMIT}\n\t\tregistration {env.PURSER_TEST_REGISTRATION}"
	t.Setenv("PURSER_TEST_REGISTRATION", "off")
	t.Setenv("PURSER_INTERNAL_SECRET", "s3cret-s3cret")
	mustLoad(t, s.caddyfile())
	t.Setenv("PURSER_TEST_REGISTRATION", "")
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "registration (PURSER_REGISTRATION): {env.PURSER_TEST_REGISTRATION} is empty or not set") {
		t.Errorf("loaded: %v", err)
	}
	mustCall(t, 403, "POST", s.url()+"/api-keys", "", `{"label":"x"}`)
}

// Commands tell where the reference is written: the line, of an imported file too, or the path in JSON.
func TestReferencesAreFound(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	check := func(config, want string) {
		t.Helper()
		o := w.do(t, "validate", "--config", config)
		last := strings.Split(strings.TrimSpace(o.Stderr), "\n")
		if got := last[len(last)-1]; o.Status != 1 || got != "purser: validate: "+want {
			t.Errorf("%d\n%s\nwant %s", o.Status, o.Stderr, want)
		}
	}
	const nothing = "{env.TYPO} is empty or not set; leave the option out if that may be, at "
	w.write(t, "limits", "monthly_budget {env.TYPO}\n")
	w.write(t, "Caddyfile", "{\n\tadmin off\n\tpurser {\n\t\t# monthly_budget {env.TYPO}\n\t\timport limits\n\t}\n}\n")
	check("Caddyfile", "monthly_budget (PURSER_MONTHLY_BUDGET): "+nothing+"limits:1")
	w.write(t, "Caddyfile", "{\n\tadmin off\n\tpurser {\n\t\thost a.example {\n\t\t\tmax_payment 1\n\t\t}\n\t\thost b.example:8443 {\n\t\t\tmax_payment {env.TYPO}\n\t\t}\n\t}\n}\n")
	check("Caddyfile", "host b.example:8443 max_payment: "+nothing+"Caddyfile:8")
	w.write(t, "purser.json", "{\"admin\": {\"disabled\": true}, \"apps\": {\n\"purser\": {\n\"host\": {\"a.example\": {\"max_payment\": \"{env.TYPO}\"}}}}}")
	check("purser.json", "host a.example max_payment: "+nothing+"purser.json:3 (apps/purser/host/a.example/max_payment)")
	w.variables(t, "PURSER_MASTER_KEY_FILE=/nowhere/x")
	w.write(t, "Caddyfile", shipped(t))
	check("Caddyfile", "master_key_file (PURSER_MASTER_KEY_FILE): open /nowhere/x: no such file or directory, at purser.env:4")
}
