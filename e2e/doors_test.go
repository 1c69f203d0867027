package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/purserpay/purser/e2e/internal/process"
)

// doors is a purser process with every way in that carries HTTP to one site of the test's, and Caddy's own reverse proxy
// beside them: what runs through one can be compared with what runs through another.
type doors struct {
	*payer
	site  site
	ports map[string]int // of the sites that lead to the test's, by door
}

// The doors that are sites of their own, each with an upstream over http and one over https.
const (
	viaCaddy     = "caddy"     // Caddy's own reverse proxy: the measure
	viaTransport = "transport" // reverse_proxy with the transport purser
	viaRetries   = "retries"   // the same, trying four times
	viaSidecar   = "sidecar"   // the handler of the sidecar door
)

var reverseDoors = []string{viaCaddy, viaTransport, viaRetries, viaSidecar}

// schemes lists the URL schemes of upstreams.
var schemes = []string{"http", "https"}

// startDoors starts a purser in front of a site.
func startDoors(t *testing.T, s site) *doors {
	t.Helper()
	d := &doors{site: s, ports: map[string]int{}}
	ports := process.Ports(t, len(reverseDoors)*len(schemes))
	data := filepath.Join(t.TempDir(), "data")
	var text strings.Builder
	fmt.Fprintf(&text, `{
		admin {$PURSER_ADMIN}
		persist_config off
		storage file_system %s
		grace_period 1s
		servers {
			protocols h1
			max_header_size 64KiB
		}
		purser {
			store bolt
			wallets local
		}
	}
	http://:{$PURSER_PORT} {
		bind 127.0.0.1
		route {
			purser_proxy {
				%s
			}
			purser_api
		}
	}
	`, data, env.proxyDirectives())
	for _, door := range reverseDoors {
		for _, scheme := range schemes {
			d.ports[door+" "+scheme] = ports[0]
			fmt.Fprintf(&text, "http://:%d {\nbind 127.0.0.1\n%s\n}\n", ports[0], s.directive(door, scheme))
			ports = ports[1:]
		}
	}
	config := filepath.Join(filepath.Dir(data), "Caddyfile")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	key := "pk_" + strings.Repeat("door", 6)
	p := preparePurser(t, data, env.facilitator, "PURSER_KEY="+key)
	p.Config = config
	p.start(t)
	d.payer = p.deploymentKey(t, key)
	return d
}

// directive leads a door to the site.
func (s site) directive(door, scheme string) string {
	to, options := s.plain, ""
	if scheme == "https" {
		to, options = s.tls, "tls_trust_pool file "+env.certificates.File
	}
	switch door {
	case viaCaddy:
		return fmt.Sprintf("reverse_proxy %s {\ntransport http {\n%s\n}\n}", to, options)
	case viaSidecar:
		return fmt.Sprintf("route {\npurser_upstream {\nto %s\nhttp {\n%s\n}\n}\n}", to, options)
	case viaRetries:
		return fmt.Sprintf("reverse_proxy %s {\nlb_retries 3\ntransport purser {\nhttp {\n%s\n}\n}\n}", to, options)
	default:
		return fmt.Sprintf("reverse_proxy %s {\ntransport purser {\nhttp {\n%s\n}\n}\n}", to, options)
	}
}

// madeWallet finds, in the log, the address of the wallet that a purser made for a key of its configuration.
var madeWallet = regexp.MustCompile(`"wallet made; fund it to pay".*"address":"(0x[0-9a-fA-F]{40})"`)

// deploymentKey is the payer that a purser made of PURSER_KEY when it started, with money.
func (p *purser) deploymentKey(t *testing.T, key string) *payer {
	t.Helper()
	var found []string
	process.Eventually(t, 10*time.Second, func() string {
		if found = madeWallet.FindStringSubmatch(p.Output.String()); found == nil {
			return "no wallet in the log: " + p.Output.String()
		}
		return ""
	})
	payer := &payer{p.Host(), key, common.HexToAddress(found[1]), p}
	env.fund(t, payer.wallet)
	return payer
}

// fundForMany gives the payer of the doors as much as a few hundred payments need.
func (d *doors) fundForMany(t *testing.T) {
	t.Helper()
	for range 9 {
		env.fund(t, d.wallet)
	}
}

// base returns the base URL of a door's site.
func (d *doors) base(door, scheme string) string {
	return "http://127.0.0.1:" + strconv.Itoa(d.ports[door+" "+scheme])
}

// roots are whom programs behind the proxy trust: purser's interception root alone, so that nothing that was not
// intercepted passes for it.
func (p *payer) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	got := send(t, direct, "GET", "http://"+p.host+"/ca.crt", "")
	requireStatus(t, got, http.StatusOK)
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(got.Body)) {
		t.Fatalf("no certificate in %q", got.Body)
	}
	return pool
}

// behind is a client behind the forward proxy that touches nothing of what it sends and gets.
func (p *payer) behind(t *testing.T, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: p.host, User: url.UserPassword(p.key, "e2e")}),
		TLSClientConfig: &tls.Config{RootCAs: p.roots(t)}, ForceAttemptHTTP2: h2,
		DisableCompression: true, ExpectContinueTimeout: patience,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 60 * time.Second, CheckRedirect: asItIs}
}

// plainly is the same client without a proxy.
func plainly(t *testing.T) *http.Client {
	tr := &http.Transport{DisableCompression: true, ExpectContinueTimeout: patience}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 60 * time.Second, CheckRedirect: asItIs}
}

// patience bounds a client's wait for permission to send its body.
const patience = 20 * time.Second

func asItIs(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
