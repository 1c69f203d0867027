package caddymodule

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The sidecar says that TLS with its upstream failed, and how. The transport tells handle_errors.
func TestUpstreamOldTLS(t *testing.T) {
	for says, config := range map[string]*tls.Config{
		"no cipher in common": {MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}}, //nolint:gosec // old on purpose
		"older TLS":           {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},                                //nolint:gosec // old on purpose
		"does not speak TLS":  nil,
	} {
		v := httptest.NewUnstartedServer(http.NotFoundHandler())
		v.Config.ErrorLog = log.New(io.Discard, "", 0)
		if v.TLS = config; config != nil {
			v.StartTLS()
		} else {
			v.Start()
		}
		s := newSite(t)
		s.route = "purser_upstream {\nto https://" + v.Listener.Addr().String() + "\n}"
		mustLoad(t, s.caddyfile())
		resp, body := do(t, newRequest(t, "GET", s.url()+"/x", nil))
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Purser-Error") != "upstream-tls" || !strings.Contains(body, says) {
			t.Errorf("%s: %d %v %s", says, resp.StatusCode, resp.Header, body)
		}
		s = newSite(t)
		s.route = "reverse_proxy https://" + v.Listener.Addr().String() + " {\ntransport purser\n}\n}\nhandle_errors {\nrespond \"{http.vars.purser.reason}\" {err.status_code}"
		mustLoad(t, s.caddyfile())
		if resp, body := do(t, newRequest(t, "GET", s.url()+"/x", nil)); resp.StatusCode != http.StatusBadGateway || body != "upstream-tls" {
			t.Errorf("%s through the transport: %d %v %s", says, resp.StatusCode, resp.Header, body)
		}
		v.Close()
	}
}
