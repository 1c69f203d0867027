package wallets

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/sandbox"
)

// A key gets another secret while its programs run. Both work until the overlap ends, by purser's clock.
func TestReissueWithAnOverlap(t *testing.T) {
	t.Parallel()
	clock := process.NewClock(t)
	money, err := sandbox.Start(t.Context(), sandbox.Options{Now: clock.Now})
	process.CloseAtEnd(t, money, err)
	w := &world{sandboxed.On(t, money, process.Failpoints, clock.Setting())}
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", "research")
	w.Fund(*key.Address, 10*price)
	w.buys(key.Key)
	now := sandboxed.Ran[adminapi.ReissuedKey](w.World, "keys", "reissue", "research", "--overlap", "24h", "--yes")
	w.buys(key.Key)
	w.buys(now.Key)
	// known tells whether the proxy and REST know a secret. With its clock ahead of the chain's, purser pays nothing.
	known := func(secret string, want bool) {
		t.Helper()
		a, err := process.Ask(t.Context(), w.Client(secret), http.MethodGet, w.weather(), "")
		if err != nil || (a.Status == http.StatusProxyAuthRequired) == want {
			t.Errorf("the proxy: %v, %+v", err, a)
		}
		a, err = process.Ask(t.Context(), http.DefaultClient, http.MethodGet, w.URL("/wallets/me"), "", "X-Api-Key", secret)
		if err != nil || (a.Status == http.StatusUnauthorized) == want {
			t.Errorf("REST: %v, %+v", err, a)
		}
	}
	if out := w.Must(t, "keys", "show", "research"); !strings.Contains(out, "the old secret works until") ||
		strings.Count(out, "never") != 2 { // it was used at the proxy alone

		t.Errorf("%s", out)
	}
	clock.Forward(t, 23*time.Hour)
	known(key.Key, true)
	clock.Forward(t, 2*time.Hour)
	process.Eventually(t, time.Minute, func() string {
		if out := w.Must(t, "keys", "show", "research"); strings.Contains(out, "old secret") {
			return out
		}
		return ""
	})
	known(key.Key, false)
	known(now.Key, true)
}
