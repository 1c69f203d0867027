package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// startSidecar starts a purser with the shipped configuration and PURSER_UPSTREAM, which is all it takes.
func startSidecar(t *testing.T, upstream string, more ...string) *payer {
	t.Helper()
	key := "pk_" + strings.Repeat("side", 6)
	settings := append([]string{"PURSER_KEY=" + key, "PURSER_UPSTREAM=" + upstream, "SSL_CERT_FILE=" + env.certificates.File}, more...)
	p := newPurser(t, env.facilitator, settings...)
	p.Config = filepath.Join(process.Root(), "xcaddy.Caddyfile")
	p.start(t)
	return p.deploymentKey(t, key)
}

// sidecar is the URL of the sidecar door.
func (p *payer) sidecar() string { return p.purser.SidecarURL() }

// A plain curl to the sidecar door gets what costs money, over http and https upstreams, for one price each.
func TestSidecar(t *testing.T) {
	t.Parallel()
	for sellerName, s := range sellers() {
		for scheme, upstream := range map[string]string{"http": s.url, "https": s.tls} {
			t.Run(sellerName+" "+scheme, func(t *testing.T) {
				t.Parallel()
				payer := startSidecar(t, upstream)
				for i, o := range []order{getPaid, postEcho} {
					command := curlCommand(o, payer.sidecar()+o.path)
					stdout, stderr := runAgent(t, exec.Command(command[0], command[1:]...))
					requirePaidAnswer(t, curled(t, stdout, stderr), o, payer)
					payer.requireSettled(t, s.payTo, i+1)
				}
				free := send(t, direct, "GET", payer.sidecar()+"/free", "")
				if requireStatus(t, free, http.StatusOK); free.Header.Get("Purser-Payment") != "" || free.Header.Get("X-Seller") != "free" {
					t.Errorf("free: %v", free.Header)
				}
				payer.requireSettled(t, s.payTo, 2)
			})
		}
	}
}
