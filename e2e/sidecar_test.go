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
func startSidecar(t *testing.T, upstream string) *payer {
	t.Helper()
	key := "pk_" + strings.Repeat("side", 6)
	p := newPurser(t, env.facilitator, "PURSER_KEY="+key, "PURSER_UPSTREAM="+upstream, "SSL_CERT_FILE="+env.certificates.root)
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
					arguments := []string{"-sS", "-m", "60", "-X", o.method, "-D", "/dev/stderr", payer.sidecar() + o.path}
					if o.body != "" {
						arguments = append(arguments, "-H", "Content-Type: application/json", "--data-binary", o.body)
					}
					stdout, stderr := runAgent(t, exec.Command("curl", arguments...))
					requirePaidAnswer(t, answer{header: lastHeaders(stderr), status: lastStatus(t, stderr), body: stdout}, o, payer)
					payer.requireSettled(t, s.payTo, i+1)
				}
				free := send(t, direct, "GET", payer.sidecar()+"/free", "")
				if requireStatus(t, free, http.StatusOK); free.header.Get("Purser-Payment") != "" || free.header.Get("X-Seller") != "free" {
					t.Errorf("free: %v", free.header)
				}
				payer.requireSettled(t, s.payTo, 2)
			})
		}
	}
}
