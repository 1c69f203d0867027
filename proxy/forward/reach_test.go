package forward

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/proxy/proxytest"
)

// The guard decides which hosts are reached, and the policy which are paid. Neither decides for the
// other.
func TestMayReachIsNotMayPay(t *testing.T) {
	t.Parallel()
	loopback, opened := guard.Rules{AllowLoopback: true}, guard.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	sellers, others := []string{"127.0.0.1"}, []string{"api.example.com"}
	for name, c := range map[string]struct {
		policy policy.Policy
		guard  guard.Rules
		status int
		reason string
	}{
		"reachable, host denied":              {policy.Policy{DenyHosts: sellers}, loopback, 402, "hosts"},
		"reachable, another host allowed":     {policy.Policy{AllowHosts: others}, loopback, 402, "hosts"},
		"opened by the operator, host denied": {policy.Policy{DenyHosts: sellers}, opened, 402, "hosts"},
		"host allowed, not reachable":         {policy.Policy{AllowHosts: sellers}, guard.Rules{}, 403, string(guard.DenyLoopback)},
		"both":                                {policy.Policy{AllowHosts: sellers}, loopback, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := proxytest.NewSeller(t)
			w := newWorld(t, func(set *setup) { set.pay.DefaultPolicy, set.guard.Rules = c.policy, c.guard })
			a := w.get(s.URL + "/thing")
			switch c.status {
			case http.StatusOK:
				a.Paid(t)
				s.Expect(1, 1, 1)
				return
			case http.StatusPaymentRequired:
				a.Declined(t, c.reason, true)
				s.Expect(1, 0, 0)
			default:
				if a.StatusCode != c.status || a.Problem(t).Reason != c.reason {
					t.Errorf("%d %s", a.StatusCode, a.Text)
				}
				s.Expect(0, 0, 0)
			}
			if n := len(w.Payments()); n != 0 {
				t.Errorf("%d payments in the books", n)
			}
		})
	}
}

// Every way to say where purser must not go, asked for by an agent.
func TestForbiddenTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guarded := newWorld(t, func(s *setup) { s.guard.Own = guard.OwnListeners(netip.MustParseAddrPort("127.0.0.1:8402")) })
	auth := func(w *world) string { return w.login() + "\nConnection: close\n\n" }
	for _, c := range []struct {
		target string // host and port
		world  *world
		status int
		reason string
	}{
		{"169.254.169.254:80", w, 403, string(guard.DenyLinkLocal)},
		{"10.0.0.1:80", w, 403, string(guard.DenyPrivate)},
		{"[fd00:ec2::254]:80", w, 403, string(guard.DenyPrivate)},
		{"[fd20:ce::254]:80", w, 403, string(guard.DenyPrivate)},
		{"100.100.100.200:80", w, 403, string(guard.DenyShared)},
		{"168.63.129.16:80", w, 403, string(guard.DenyMetadata)},
		{"[::ffff:169.254.169.254]:80", w, 403, string(guard.DenyLinkLocal)},
		{"[::ffff:a9fe:a9fe]:80", w, 403, string(guard.DenyLinkLocal)},
		{"[64:ff9b::a9fe:a9fe]:80", w, 403, string(guard.DenyLinkLocal)},
		{"[64:ff9b:1::a9fe:a9fe]:80", w, 403, string(guard.DenyEmbedded)},
		{"[2002:a9fe:a9fe::]:80", w, 403, string(guard.DenyEmbedded)},
		{"[2001::a9fe:a9fe]:80", w, 403, string(guard.DenyEmbedded)},
		{"[::169.254.169.254]:80", w, 403, string(guard.DenyEmbedded)},
		{"169.254.169.254.:80", w, 403, string(guard.DenyLinkLocal)},
		{"0.0.0.0:80", w, 403, string(guard.DenyUnspecified)},
		{"[::]:80", w, 403, string(guard.DenyUnspecified)},
		{"224.0.0.1:80", w, 403, string(guard.DenyMulticast)},
		{"2852039166:80", w, 400, reasonBadRequest},
		{"0xa9fea9fe:80", w, 400, reasonBadRequest},
		{"0XA9.0xFE.0xA9.0xFE:80", w, 400, reasonBadRequest},
		{"0251.0376.0251.0376:80", w, 400, reasonBadRequest},
		{"169.254.43518:80", w, 400, reasonBadRequest},
		{"[fe80::1%25eth0]:80", w, 400, reasonBadRequest},
		{"a..b:80", w, 400, reasonBadRequest},
		{"127.0.0.1:22", w, 403, string(guard.DenyPort)},
		{"127.0.0.1:8402", guarded, 403, string(guard.DenyOwn)},
		{"[::ffff:127.0.0.1]:8402", guarded, 403, string(guard.DenyOwn)},
		{"0.0.0.0:8402", guarded, 403, string(guard.DenyOwn)},
		{"localhost:8402", guarded, 403, string(guard.DenyOwn)},
		{"LOCALHOST.:8402", guarded, 403, string(guard.DenyOwn)},
	} {
		for _, request := range []string{"GET http://" + c.target + "/latest/meta-data HTTP/1.1\nHost: x", "CONNECT " + c.target + " HTTP/1.1\nHost: x"} {
			a, _, _ := c.world.raw(request+auth(c.world), "GET")
			if a.StatusCode != c.status || a.Problem(t).Reason != c.reason {
				t.Errorf("%s: %d %s, want %d %s", request, a.StatusCode, a.Text, c.status, c.reason)
			}
		}
	}
	// A target that HTTP itself does not allow does not reach the proxy at all.
	for _, target := range []string{"http://127%2e0.0.1/", "http://a\x01b/", "http://a\x7fb/", "http://[::1/", "http://a b/", "http://u@:80:80/"} {
		a, _, _ := w.raw("GET "+target+" HTTP/1.1\nHost: x"+auth(w), "GET")
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d %s", target, a.StatusCode, a.Text)
		}
	}
	for _, target := range []string{"http://:80/", "http:///x", "http://u:p@" + w.addr() + "/", "http://127.0.0.1:0/", "http://b\xc3\xbccher.example/"} {
		a, _, _ := w.raw("GET "+target+" HTTP/1.1\nHost: x"+auth(w), "GET")
		if a.StatusCode != http.StatusBadRequest && a.StatusCode != http.StatusForbidden {
			t.Errorf("%q: %d %s", target, a.StatusCode, a.Text)
		}
	}
}
