package caddymodule

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

func TestTransportDoesNotPayForPages(t *testing.T) {
	v := newVendor(t)
	t.Setenv("PURSER_ALLOWED_ORIGINS", "https://app.example")
	t.Setenv("PURSER_PUBLIC_URL", "https://purser.example")
	for name, s := range sidecars(t, v) {
		mustLoad(t, s.caddyfile())
		for _, c := range []struct {
			name    string
			headers []string
			want    string // reason, or "" for paid
		}{
			{"an image on another site", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, "cross-site"},
			{"a page on another port", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, "cross-site"},
			{"an old browser", []string{"Origin", "https://evil.example"}, "cross-site"},
			{"another name for loopback", []string{"Host", "evil.example"}, "host"},
			{"and our own page there", []string{"Host", "evil.example", "Sec-Fetch-Site", "same-origin"}, "host"},
			{"an allowed page", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://app.example"}, ""},
			{"the public name", []string{"Host", "purser.example"}, ""},
			{"localhost", []string{"Host", "localhost"}, ""},
			{"the address bar", []string{"Sec-Fetch-Site", "none"}, ""},
		} {
			resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil, c.headers...))
			declined, asks := resp.Header.Get(proxy.HeaderDeclined), resp.Header.Get("Payment-Required") != ""
			if c.want == "" && resp.StatusCode == 200 && declined == "" {
				continue
			}
			if resp.StatusCode != http.StatusPaymentRequired || declined != c.want || !asks || resp.Header.Get(proxy.HeaderPayment) != "" {
				t.Errorf("%s, %s: %d %v", name, c.name, resp.StatusCode, resp.Header)
			}
		}
	}
}

func TestTransportPolicy(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "", "task nightly")
	s.app = "task nightly {\nmax_payment 0.001\n}"
	mustLoad(t, s.caddyfile())
	resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil))
	if resp.StatusCode != 402 || resp.Header.Get(proxy.HeaderDeclined) != "task-per-payment" || resp.Header.Get("Payment-Required") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	v.expect(1, 0, 0)
}

func TestTransportOnUnixSocket(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "", "")
	socket := filepath.Join(t.TempDir(), "purser.sock")
	s.bind = "unix/" + socket
	mustLoad(t, s.caddyfile())
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	resp, err := (&http.Client{Transport: tr}).Do(newRequest(t, "GET", "http://api.example/x", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}

func TestTransportNeedsTheClient(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "", "")
	s.route = "purser_test_detach\n" + s.route
	logged := filepath.Join(t.TempDir(), "log")
	mustLoad(t, replaceOnce(t, s.caddyfile(), "level WARN", "level WARN\n\t\toutput file "+logged))
	for range 2 {
		resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil))
		if resp.StatusCode != http.StatusPaymentRequired || resp.Header.Get(proxy.HeaderDeclined) != proxy.DeclinedCallerUnknown {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
	_ = caddy.Stop()
	if log, err := os.ReadFile(logged); err != nil || strings.Count(string(log), "detaches them") != 1 {
		t.Errorf("%v %s", err, log)
	}
	v.expect(2, 0, 0)
}

func TestTransportNeedsABudget(t *testing.T) {
	v := newVendor(t)
	for _, c := range []struct {
		name, bind, app string
		env             map[string]string
		ok              bool
	}{
		{name: "everybody", bind: "0.0.0.0"},
		{name: "everybody over v6", bind: "[::]"},
		{name: "loopback and another", bind: "127.0.0.1 0.0.0.0"},
		{name: "no budget", bind: "0.0.0.0", app: "daily_budget off"},
		{name: "a bound on each payment only", bind: "0.0.0.0", app: "max_payment 0.5"},
		{name: "a budget of a task", bind: "0.0.0.0", app: "task * {\ndaily_budget 1\n}"},
		{name: "a day's", bind: "0.0.0.0", app: "daily_budget 10", ok: true},
		{name: "a month's", bind: "0.0.0.0", app: "monthly_budget 10", ok: true},
		{name: "by a variable", bind: "0.0.0.0", env: map[string]string{"PURSER_DAILY_BUDGET": "3"}, ok: true},
		{name: "loopback", bind: "127.0.0.1 [::1]", ok: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			for name, s := range sidecars(t, v) {
				s.bind, s.app = c.bind, c.app
				err := load(t, s.caddyfile())
				switch {
				case c.ok && err != nil:
					t.Errorf("%s: %v", name, err)
				case !c.ok && (err == nil || !strings.Contains(err.Error(), "PURSER_DAILY_BUDGET") || !strings.Contains(err.Error(), "PURSER_MONTHLY_BUDGET")):
					t.Errorf("%s: %v", name, err)
				}
				_ = caddy.Stop()
			}
		})
	}
}

func TestTransportBudgetOfTheKey(t *testing.T) {
	v := newVendor(t)
	s := newSidecar(t, v, "", "")
	mustLoad(t, s.caddyfile())
	set := func(p *pay.Policy) {
		payer := pooledAt(t).newestTenant().payer
		key, err := payer.Resolve(t.Context(), "pk_deployment")
		if err == nil {
			_, err = payer.SetPolicy(t.Context(), key.ID, p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set(&pay.Policy{DailyBudget: wholeUSDC(2)})
	s.bind = "0.0.0.0"
	mustLoad(t, s.caddyfile())
	set(&pay.Policy{DailyBudget: pay.NoCap()})
	s.app = "daily_budget 10"
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_DAILY_BUDGET") {
		t.Error(err)
	}
}
