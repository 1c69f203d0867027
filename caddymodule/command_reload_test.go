package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/x402"
)

// reloads asks a running purser to read its files again, as `purser reload` does.
func (w *workplace) reloads(t *testing.T) (status int, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(w.dir, "purser-admin.sock"))
	}}}
	resp, err := client.Post("http://127.0.0.1/purser/reload", "application/json", bytes.NewReader([]byte("{}")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Error string }
	if err := json.Unmarshal(body, &problem); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if problem.Error != "" {
		return resp.StatusCode, problem.Error
	}
	return resp.StatusCode, string(body)
}

// probe shows that a reload reads a variable: with a value that cannot be, it fails.
type probe struct {
	value string
	with  []string // further variables that it needs
}

// nowhere is the path of no file.
const nowhere = "/nowhere/at/all"

var (
	cdpWallets      = []string{"PURSER_WALLETS=cdp", "CDP_API_KEY_ID=x", "CDP_API_KEY_SECRET=x", "CDP_WALLET_SECRET=x"}
	externalWallets = []string{"PURSER_WALLETS=external", "PURSER_SIGNER_URL=http://127.0.0.1:1"}
)

// probes has one for each variable that is neither a secret's file nor needs a restart.
func probes() map[string]probe {
	bad := map[string]probe{
		"CDP_API_KEY_ID":           {"", []string{"PURSER_WALLETS=cdp", "CDP_API_KEY_SECRET=x", "CDP_WALLET_SECRET=x"}},
		"CDP_API_KEY_SECRET":       {"x", append(cdpWallets[:2:2], "CDP_API_KEY_SECRET_FILE="+nowhere)},
		"CDP_WALLET_SECRET":        {"x", append(cdpWallets[:3:3], "CDP_WALLET_SECRET_FILE="+nowhere)},
		"PURSER_BIND":              {"192.0.2.1", nil}, // no machine has it
		"PURSER_METRICS_BIND":      {"192.0.2.1", nil},
		"PURSER_UPSTREAM_BIND":     {"192.0.2.1", nil},
		"PURSER_FACILITATOR_AUTH":  {"x", []string{"PURSER_FACILITATOR_URL=http://127.0.0.1:1"}},
		"PURSER_FACILITATOR_KEY":   {"x", []string{"PURSER_FACILITATOR_KEY_FILE=" + nowhere}},
		"PURSER_INTERCEPT":         {"http://x", nil},
		"PURSER_INTERNAL_SECRET":   {"x", []string{"PURSER_INTERNAL_SECRET_FILE=" + nowhere}},
		"PURSER_OIDC_ALLOW":        {"@", []string{"PURSER_OIDC_ISSUER=https://id.example.com", "PURSER_OIDC_CLIENT_ID=purser"}},
		"PURSER_OIDC_CLIENT_ID":    {"purser", nil}, // without an issuer
		"PURSER_SIGN_IN_HOSTS":     {",", nil},
		"PURSER_SIGNER_KEY":        {"x", append(externalWallets[:2:2], "PURSER_SIGNER_KEY_FILE="+nowhere)},
		"PURSER_SIGNER_TIMEOUT":    {"x", externalWallets},
		"PURSER_SIGNER_URL":        {"x", externalWallets[:1:1]},
		"PURSER_CDP_URL":           {"x", cdpWallets},
		environment.SecretsCommand: {nowhere, []string{"PURSER_INTERNAL_SECRET=op://vault/item/field"}},
	}
	for _, name := range environment.Known() {
		if _, done := bad[name]; done || strings.HasSuffix(name, "_FILE") || environment.Restart(name) != "" {
			continue
		}
		p := probe{value: "non sense"}
		if network, of := strings.CutPrefix(name, "PURSER_RPC_URL_"); of && network != "2" {
			p.with = []string{"PURSER_NETWORKS=" + strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(network, "_2"), "_", "-"))}
		}
		bad[name] = p
	}
	return bad
}

// free are variables that may have any value: a reload says that they have changed.
var free = []string{"PURSER_PROXY_SPOOL_DIR", "PURSER_NO_PROXY"}

// Each variable that is changed in purser.env is in force after a reload, or is said to need a
// restart. None is left out in silence.
func TestReloadTakesEachVariable(t *testing.T) {
	t.Parallel()
	w := newWorkplace(t)
	w.run(t)
	refused := func(name string, lines []string, want string) {
		t.Helper()
		w.variables(t, lines...)
		status, text := w.reloads(t)
		if status != http.StatusConflict || !strings.Contains(text, name) || !strings.Contains(text, want) || !strings.Contains(text, "nothing was changed") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	bad := probes()
	for _, name := range environment.Known() {
		secret, file := strings.CutSuffix(name, "_FILE")
		switch {
		case environment.Restart(name) != "":
			refused(name, []string{name + "=x"}, name+" needs a restart, because ")
		case slices.Contains(free, name):
			w.variables(t, name+"=x")
			if status, text := w.reloads(t); status != http.StatusOK || !strings.Contains(text, name) {
				t.Errorf("%s: %d %s", name, status, text)
			}
			w.variables(t)
			if status, text := w.reloads(t); status != http.StatusOK || !strings.Contains(text, name) {
				t.Errorf("without %s: %d %s", name, status, text)
			}
		case file:
			lines := slices.DeleteFunc(slices.Clone(bad[secret].with), func(line string) bool { return strings.HasPrefix(line, secret) })
			refused(name, append(lines, name+"="+nowhere), nowhere)
		default:
			refused(name, append(slices.Clone(bad[name].with), name+"="+bad[name].value), "")
		}
	}
	w.variables(t)
	if status, text := w.reloads(t); status != http.StatusOK || strings.Contains(text, "PURSER_") {
		t.Errorf("something was changed: %d %s", status, text)
	}
}

// The list of variables is that of the code.
func TestVariablesAreKnown(t *testing.T) {
	t.Parallel()
	known := environment.Known()
	s := readSource(t)
	read := []string{"PURSER_ADMIN", environment.SecretsCommand}
	for _, m := range parsed.FindAllStringSubmatch(shipped(t), -1) {
		read = append(read, m[1])
	}
	for _, variable := range s.variables {
		if variable != "" {
			read = append(read, variable)
		}
	}
	for _, fields := range s.fields {
		for _, f := range fields {
			if v := variableText.FindStringSubmatch(f.doc); v != nil {
				read = append(read, v[1])
			}
		}
	}
	for _, n := range x402.Networks() {
		for _, name := range []string{rpcVariable(n.Name), rpcVariable(n.Name) + "_2"} {
			read = append(read, name, name+"_FILE")
		}
	}
	slices.Sort(read)
	read = slices.Compact(read)
	if !slices.Equal(known, read) {
		for _, name := range slices.Concat(known, read) {
			if !slices.Contains(known, name) || !slices.Contains(read, name) {
				t.Errorf("%s: known %t, read %t (internal/environment/known.go)", name, slices.Contains(known, name), slices.Contains(read, name))
			}
		}
	}
}
