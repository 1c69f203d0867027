package caddymodule

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/purserpay/purser/policy"
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

// Off loopback, a page in a visitor's browser reaches the door as well: over plain http with
// hardly a mark, or under a name of its own that it made to lead here.
func TestTransportOffLoopbackDoesNotPayForPages(t *testing.T) {
	v := newVendor(t)
	t.Setenv("PURSER_DAILY_BUDGET", "5")
	t.Setenv("PURSER_ALLOWED_ORIGINS", "https://app.example")
	t.Setenv("PURSER_PUBLIC_URL", "https://purser.example")
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	for name, s := range sidecars(t, v) {
		s.bind = "0.0.0.0"
		mustLoad(t, s.caddyfile())
		for _, c := range []struct {
			name    string
			headers []string
			want    string
		}{
			{"an image on another site", []string{"Referer", "http://evil.example/", "User-Agent", firefox}, "cross-site"},
			{"one that keeps back where", []string{"User-Agent", firefox}, "cross-site"},
			{"a name that leads here", []string{"Host", "rebound.evil.example", "Referer", "http://rebound.evil.example/", "User-Agent", firefox}, "host"},
			{"and one without a mark", []string{"Host", "rebound.evil.example:80"}, "host"},
			{"an address", nil, ""},
			{"a container's name", []string{"Host", "purser:8406"}, ""},
			{"a name inside", []string{"Host", "purser.corp.internal"}, ""},
			{"the public name", []string{"Host", "purser.example"}, ""},
			{"the name of an allowed origin", []string{"Host", "app.example"}, ""},
			{"an allowed page", []string{"Referer", "https://app.example/x", "User-Agent", firefox}, ""},
		} {
			resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil, c.headers...))
			paid := resp.Header.Get(proxy.HeaderPayment) != ""
			if resp.Header.Get(proxy.HeaderDeclined) != c.want || paid != (c.want == "") || !paid && resp.Header.Get("Payment-Required") == "" {
				t.Errorf("%s, %s: %d %v", name, c.name, resp.StatusCode, resp.Header)
			}
		}
	}
}

// A site that was given a name answers to it.
func TestTransportServesTheNamesOfItsSite(t *testing.T) {
	v := newVendor(t)
	t.Setenv("PURSER_DAILY_BUDGET", "5")
	for name, s := range sidecars(t, v) {
		ask := func(host, declined string) {
			t.Helper()
			eventually(t, fmt.Sprintf("%s on %s, %s: declined is %q", name, s.bind, host, declined), func() bool { // the server of before may take a connection still
				resp, err := newClient(t).Do(newRequest(t, "GET", s.url()+"/x", nil, "Host", host))
				if err != nil {
					return false
				}
				_ = resp.Body.Close()
				paid := resp.Header.Get(proxy.HeaderPayment) != ""
				if paid && declined != "" {
					t.Errorf("%s, %s: paid", name, host)
				}
				return resp.Header.Get(proxy.HeaderDeclined) == declined && paid == (declined == "")
			})
		}
		for _, bind := range []string{"127.0.0.1", "0.0.0.0"} {
			s.bind = bind
			text := replaceOnce(t, s.caddyfile(), fmt.Sprintf("http://:%d {", s.port),
				fmt.Sprintf("http://api.corp.example:%d, http://*.apis.example:%[1]d {", s.port))
			mustLoad(t, text)
			for _, host := range []string{"api.corp.example", "API.corp.example:80", "a.apis.example"} {
				ask(host, "")
			}
		}
		s.bind = "0.0.0.0"
		s.route = "@api host api.corp.example\nhandle @api {\n" + s.route + "\n}\nhandle {\n" + s.route + "\n}"
		mustLoad(t, s.caddyfile())
		for host, want := range map[string]string{"api.corp.example": "", "evil.example": "host"} {
			ask(host, want)
		}
	}
}

// A request in early data may be a copy that an attacker sent.
func TestTransportDoesNotPayForEarlyData(t *testing.T) {
	v := newVendor(t)
	for name, s := range sidecars(t, v) {
		own := s.route
		for _, c := range []struct {
			name, front string
			headers     []string
		}{
			{"here", "purser_test_early\n", nil},
			{"at a proxy in front", "", []string{"Early-Data", "1"}},
		} {
			s.route = c.front + own
			mustLoad(t, s.caddyfile())
			var resp *http.Response
			connected(t, func() (err error) { // the listener of before may take a connection still
				if resp, err = newClient(t).Do(newRequest(t, "GET", s.url()+"/x", nil, c.headers...)); err != nil {
					return err
				}
				return resp.Body.Close()
			})
			if resp.StatusCode != http.StatusPaymentRequired || resp.Header.Get(proxy.HeaderDeclined) != "early-data" ||
				resp.Header.Get("Payment-Required") == "" {
				t.Errorf("%s, %s: %d %v", name, c.name, resp.StatusCode, resp.Header)
			}
		}
	}
	if _, bought, _ := v.counts(); bought != 0 {
		t.Errorf("%d payments", bought)
	}
}

// Clients that talk to purser's API as well may send their key here, too.
func TestTransportKeepsItsKey(t *testing.T) {
	v := newVendor(t)
	own := newSidecar(t, v, "", "key {env.PURSER_TEST_KEY}")
	all := sidecars(t, v)
	all["a key of its own"] = own
	t.Setenv("PURSER_TEST_KEY", "pk_of_this_door")
	for name, s := range all {
		mustLoad(t, s.caddyfile())
		key := "pk_deployment"
		if s == own {
			key = "pk_of_this_door"
		}
		for _, c := range []struct {
			headers []string
			want    string // what the seller gets of both headers
		}{
			{[]string{"X-Api-Key", key, "Authorization", "Bearer " + key}, ""},
			{[]string{"X-Api-Key", " " + key, "Authorization", "bearer  " + key}, ""},
			{[]string{"X-Api-Key", key, "Authorization", "Bearer theirs"}, "Bearer theirs"},
			{[]string{"X-Api-Key", "theirs", "Authorization", "Basic theirs"}, "theirsBasic theirs"},
			{[]string{"X-Api-Key", key, "Sec-Fetch-Site", "cross-site"}, ""}, // not paid
		} {
			do(t, newRequest(t, "GET", s.url()+"/x", nil, c.headers...))
			v.mu.Lock()
			got := v.last.Header.Get("X-Api-Key") + v.last.Header.Get("Authorization")
			v.mu.Unlock()
			if got != c.want {
				t.Errorf("%s, %q: the seller got %q", name, c.headers, got)
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
	set := func(p *policy.Policy) {
		tenant := pooledAt(t).newestTenant()
		key, err := tenant.payer.Resolve(t.Context(), "pk_deployment")
		if err == nil {
			_, err = tenant.books.SetPolicy(t.Context(), key.ID, p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set(&policy.Policy{DailyBudget: wholeUSDC(2)})
	s.bind = "0.0.0.0"
	mustLoad(t, s.caddyfile())
	set(&policy.Policy{DailyBudget: policy.NoCap()})
	s.app = "daily_budget 10"
	if err := load(t, s.caddyfile()); err == nil || !strings.Contains(err.Error(), "PURSER_DAILY_BUDGET") {
		t.Error(err)
	}
}

// Nothing is bought for requests that browsers make by themselves, and Alt-Svc would name another way to the
// address of the sidecar.
func TestTransportUnaskedAndAltSvc(t *testing.T) {
	v := newVendor(t)
	v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
		w.Header().Set("Alt-Svc", `h3=":443"`)
		v.receipt(w, n)
	})
	for name, s := range sidecars(t, v) {
		mustLoad(t, s.caddyfile())
		for _, q := range [][]string{
			{"HEAD"}, {"GET", "Sec-Purpose", "prefetch"}, {"OPTIONS", "Access-Control-Request-Method", "GET", "Origin", s.url()},
		} {
			r := newRequest(t, q[0], s.url()+"/x", nil)
			for i := 1; i < len(q); i += 2 {
				r.Header.Set(q[i], q[i+1])
			}
			if resp, _ := do(t, r); resp.StatusCode != 402 || resp.Header.Get("Purser-Declined") != "unasked" {
				t.Errorf("%s, %v: %d %s", name, q, resp.StatusCode, resp.Header.Get("Purser-Declined"))
			}
		}
		if n := len(payments(t)); n != 0 {
			t.Errorf("%s: %d payments", name, n)
		}
		if resp, _ := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != 200 || resp.Header["Alt-Svc"] != nil {
			t.Errorf("%s: %d with Alt-Svc %q", name, resp.StatusCode, resp.Header["Alt-Svc"])
		}
	}
}
