package caddymodule

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// through is a client of the site as a forward proxy.
func (s *site) through(t *testing.T, user *url.Userinfo) *http.Client {
	t.Helper()
	u, err := url.Parse(s.url())
	if err != nil {
		t.Fatal(err)
	}
	u.User = user
	transport := &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// seller asks for 10,000 smallest units and delivers to clients that send a payload.
func newSeller(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Payment-Signature") == "" {
			w.Header().Set("Payment-Required", challenge(10_000))
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		fmt.Fprintf(w, "paid, Host %s, credentials %q", r.Host, r.Header.Get("Proxy-Authorization"))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestProxyPays(t *testing.T) {
	f := newStandIn(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	seller := newSeller(t)
	_, port, _ := net.SplitHostPort(seller.Listener.Addr().String())
	s := newSite(t)
	other := freePort(t)
	s.route = "purser_proxy {\n\t\t\tresolve api.example.com 127.0.0.1\n\t\t}\n\t\tpurser_api"
	mustLoad(t, s.caddyfile()+fmt.Sprintf("http://:%d {\n\tbind 127.0.0.1\n\trespond \"another site of ours\"\n}\n", other))
	key := newKey(t, s.url())
	client := s.through(t, url.UserPassword(key, "task-1"))

	status, header, text := get(t, client, "http://api.example.com:"+port+"/x")
	if status != 200 || !strings.HasPrefix(text, "paid, Host api.example.com") || !strings.HasSuffix(text, `credentials ""`) ||
		header.Get("Purser-Payment") == "" {
		t.Errorf("paid request: %d %v %s", status, header, text)
	}
	if status, header, _ := get(t, s.through(t, nil), "http://api.example.com:"+port+"/x"); status != 407 || header.Get("Proxy-Authenticate") == "" {
		t.Errorf("without credentials: %d %v", status, header)
	}
	// An agent with HTTP_PROXY set may call the API by its address.
	if status, _, text := get(t, client, s.url()+"/health"); status != 200 || !strings.Contains(text, `"service":"purser"`) {
		t.Errorf("API through the proxy: %d %s", status, text)
	}
	if status, _, text := get(t, client, fmt.Sprintf("http://127.0.0.1:%d/", other)); status == 200 {
		t.Errorf("another site of ours was dialled: %s", text)
	}
	if status, _, text := get(t, client, "http://10.0.0.1:81/v1/pay"); status == 200 {
		t.Errorf("a private address was dialled: %s", text)
	}
}

func TestProxyStandIn(t *testing.T) {
	f := newStandIn(t)
	seller := newSeller(t)
	t.Setenv("PURSER_FACILITATOR_URL", f.URL)
	t.Setenv("PURSER_KEY", "pk_deployment")
	t.Setenv("PURSER_STANDIN", "loopback")
	s := newSite(t)
	s.route = "purser_proxy\n\t\tpurser_api"
	mustLoad(t, s.caddyfile())
	if status, header, text := get(t, s.through(t, nil), seller.URL); status != 200 {
		t.Errorf("%d %v %s", status, header, text)
	}
	t.Setenv("PURSER_MAX_PAYMENT", "0.001")
	mustLoad(t, s.caddyfile())
	eventually(t, "the new limit holds", func() bool {
		status, header, _ := get(t, s.through(t, nil), seller.URL)
		return status == 402 && header.Get("Purser-Declined") == "per-payment"
	})
}

func TestAddrPorts(t *testing.T) {
	t.Parallel()
	got, err := addrPorts([]string{"127.0.0.1:80", ":81", "localhost:82", "10.0.0.1:90-91", "unix//x", "", "off", "name.example:83"})
	if err != nil {
		t.Fatal(err)
	}
	want := "[127.0.0.1:80 0.0.0.0:81 127.0.0.1:82 [::1]:82 10.0.0.1:90 10.0.0.1:91 0.0.0.0:83]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if _, err := addrPorts([]string{"nonsense:port"}); err == nil {
		t.Error("nonsense was taken for an address")
	}
}
