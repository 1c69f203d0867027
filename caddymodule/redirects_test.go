package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/proxy"
)

// A client of a sidecar follows redirects from the URL that it asked for, whatever path the upstream is asked
// for instead, and whether or not the configuration is reloaded meanwhile.
func TestSidecarPaysOnceAlongRedirects(t *testing.T) {
	v := newVendor(t)
	host := strings.TrimPrefix(v.URL, "http://")
	for name, way := range map[string]struct {
		route, path string
		location    func(n int) string
	}{
		"upstream":             {"purser_upstream {\nto " + v.URL + "\n}", "/x", func(n int) string { return fmt.Sprint("/x?n=", n) }},
		"upstream with a path": {"purser_upstream {\nto " + v.URL + "/v1\n}", "/x", func(n int) string { return fmt.Sprint("/%79?n=", n) }},
		"its own URL":          {"purser_upstream {\nto " + v.URL + "/v1\n}", "/x", func(n int) string { return fmt.Sprint("http://{site}/y?n=", n) }},
		"another page":         {"purser_upstream {\nto " + v.URL + "/v1\n}", "/x", func(n int) string { return "{unseen}" + fmt.Sprint(n) }},
		"handle_path":          {"handle_path /api/* {\npurser_upstream {\nto " + v.URL + "\n}\n}", "/api/x", func(n int) string { return fmt.Sprint("y?n=", n) }},
		"transport":            {"handle_path /api/* {\nreverse_proxy " + host + " {\ntransport purser\n}\n}", "/api/x", func(n int) string { return fmt.Sprint("../api/y?n=", n) }},
		"rewrite":              {"rewrite * /v2{uri}\nreverse_proxy " + host + " {\ntransport purser\n}", "/x", func(n int) string { return fmt.Sprint("y%2D?n=", n) }},
	} {
		for _, reloads := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reloads %t", name, reloads), func(t *testing.T) {
				s := newSite(t)
				s.route = way.route
				v.delivers(func(w http.ResponseWriter, _ *http.Request, n int) {
					v.receipt(w, n)
					w.Header().Set("Location", strings.Replace(way.location(n), "{site}", fmt.Sprint("localhost:", s.port), 1))
					w.WriteHeader(http.StatusFound)
				})
				mustLoad(t, s.caddyfile())
				_, _, before := v.counts()
				to := newRequest(t, "GET", s.url()+way.path, nil)
				var resp *http.Response
				c := newClient(t)
				c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				for n := range 3 {
					var err error
					if resp, err = c.Do(to); err != nil {
						t.Fatal(err)
					}
					if _ = resp.Body.Close(); resp.StatusCode != http.StatusFound {
						break
					}
					next, err := to.URL.Parse(resp.Header.Get("Location"))
					if err != nil {
						t.Fatal(err)
					}
					to = newRequest(t, "GET", strings.Replace(next.String(), "%7Bunseen%7D", "unseen/", 1), nil)
					if reloads {
						s.global = fmt.Sprintf("grace_period %ds", n+1) // else nothing is reloaded
						mustLoad(t, s.caddyfile())
					}
				}
				if _, _, after := v.counts(); after != before+1 {
					t.Errorf("paid %d times", after-before)
				}
				reason := resp.Header.Get(proxy.HeaderDeclined)
				if resp.StatusCode != http.StatusPaymentRequired || resp.Header.Get("Payment-Required") != "" || (reloads || name == "another page") != (reason == pay.RuleRedirected) {
					t.Errorf("%s: %d %v", to.URL, resp.StatusCode, resp.Header)
				}
			})
		}
	}
}
