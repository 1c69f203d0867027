package caddymodule

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// adminCall asks the admin endpoint on a socket.
func adminCall(t *testing.T, socket, method, path string) (int, string) {
	t.Helper()
	return adminSend(t, socket, method, path, "application/json", "")
}

// adminSend is adminCall with a body.
func adminSend(t *testing.T, socket, method, path, contentType, body string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://admin"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAdminStatus(t *testing.T) {
	t.Setenv("PURSER_KEY", "pk_deployment-secret")
	t.Setenv("PURSER_INTERNAL_SECRET", "internal-secret")
	s := newSite(t)
	socket := filepath.Join(t.TempDir(), "admin.sock")
	mustLoad(t, replaceOnce(t, s.caddyfile(), "admin off", "admin unix/"+socket+"|0600"))
	code, text := adminCall(t, socket, "GET", "/purser/status")
	var got adminapi.Status
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 200 {
		t.Fatalf("status %d, %v: %s", code, err, text)
	}
	if !got.OK || got.Version != Version() || got.Store == nil || got.Store.Kind != "bolt" || got.Store.World != "" ||
		!strings.HasSuffix(got.Store.Path, "/data/purser.db") {
		t.Errorf("%s", text)
	}
	if got.Health == nil || *got.Health != (adminapi.HealthStatus{Store: "ok", Facilitator: "none", RPC: "none", SecondRPC: "none", Clock: "ok", Network: "base", Wallets: "local"}) {
		t.Errorf("%s", text)
	}
	if code, text := adminCall(t, socket, "POST", "/purser/status"); code != 405 {
		t.Errorf("POST: %d %s", code, text)
	}
	_, config := adminCall(t, socket, "GET", "/config/")
	if !strings.Contains(config, "purser_api") || strings.Contains(config, "secret") {
		t.Errorf("configuration: %s", config)
	}
}
