package forward

import (
	"io"
	"net/http"
	"net/netip"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy/proxytest"
	"github.com/purserpay/purser/x402"
)

// A person sees the first payment to a look-alike of a host that was paid, to a place on another site to which a
// free answer has led, and by terms that name another site.
func TestSuspiciousSellersWaitForAPerson(t *testing.T) {
	t.Parallel()
	var store pay.Store
	w := newWorld(t, func(o *setup) {
		o.store = func(s pay.Store) pay.Store { store = s; return s }
		o.guard.Resolve = map[string]netip.Addr{}
		for _, name := range []string{"market.test", "www.market.test", "rnarket.test", "other.test", "third.test", "shop.test"} {
			o.guard.Resolve[name] = netip.MustParseAddr("127.0.0.1")
		}
	})
	s := proxytest.NewSeller(t)
	at := func(host, path string) string { return "http://" + host + ":" + s.PortNumber() + path }
	resource := ""
	s.Challenge = func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/leads", "/on":
			http.Redirect(rw, r, r.URL.Query().Get("to"), http.StatusFound)
		case "/refreshes":
			rw.Header().Set("Refresh", "0; url="+r.URL.Query().Get("to"))
			_, _ = io.WriteString(rw, "a moment")
		case "/relayed":
			rw.Header().Set(x402.HeaderRequired, proxytest.V2Challenge(s.Price, resource, ""))
			rw.WriteHeader(http.StatusPaymentRequired)
		default:
			s.WriteChallenge(rw, r, s.Price, "")
		}
	}
	held := func(a proxytest.Answer, rule string) {
		t.Helper()
		a.Declined(t, "approval-needed", true)
		got, err := store.Approval(t.Context(), a.Header.Get("Purser-Approval"))
		if err != nil || got.Rule != rule {
			t.Errorf("%s %v, want %s", got.Rule, err, rule)
		}
	}
	w.Closed(w.get(at("market.test", "/x")).Paid(t))
	held(w.get(at("rnarket.test", "/x")), pay.RuleApprovalLookAlike)

	for _, way := range []string{"/leads?to=", "/refreshes?to=", "/leads?to=" + at("www.market.test", "/on") + "%3Fto="} {
		to := at("other.test", "/?by="+way[1:4]+way[len(way)-4:len(way)-1])
		from := w.get(at("market.test", way+to))
		if next := from.Header.Get("Location"); next != "" && next != to {
			w.get(next)
		}
		held(w.get(to), pay.RuleApprovalOtherSite)
	}

	if a := w.get(at("market.test", "/leads?to="+at("www.market.test", "/y"))); a.StatusCode != http.StatusFound {
		t.Fatal(a.StatusCode)
	}
	w.get(at("www.market.test", "/y")).Paid(t) // the same owner

	resource = at("market.test", "/x")
	held(w.get(at("third.test", "/relayed")), pay.RuleApprovalOtherSite)
	resource = "http://10.0.3.7:3000/x"
	w.get(at("shop.test", "/relayed")).Paid(t)
}
