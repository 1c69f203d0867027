package ship

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
)

// hint is a line of the configuration that is there to be uncommented: a directive or the end of its block.
var hint = regexp.MustCompile(`^(\t+)# (\t*(?:[a-z_]+(?: [^ ]+)*(?: \{)?|\}))$`)

// directives lists the first words of hints. Other comments are prose.
var directives = []string{
	"allow_hosts", "allow_http", "allow_payees", "daily_budget", "deny_hosts", "deny_payees", "host", "http", "import", "intercept", "keys", "log",
	"max_connections", "max_payment", "max_peer_connections", "max_replay", "max_spool", "monthly_budget", "payments", "per_minute", "plan",
	"price", "price_guard", "span", "task", "tls_trust_pool", "tracing", "trust", "trusted_proxies", "trusted_proxies_strict", "tunnel",
	"wallets", "}",
}

// All that the configuration offers in comments is understood when it is uncommented, all of it at once.
func TestHints(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(process.Root(), "xcaddy.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	root := world(t).CA()
	used := map[string]bool{}
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := hint.FindStringSubmatch(line); m != nil {
			if name := strings.Fields(m[2])[0]; slices.Contains(directives, name) {
				used[name] = true
				line = m[1] + strings.ReplaceAll(m[2], "/etc/ssl/private-ca.pem", root)
			}
		}
		lines = append(lines, line)
	}
	for _, name := range directives {
		if !used[name] {
			t.Errorf("there is no hint %s", name)
		}
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	spans := make(chan string, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil && r.URL.Path == "/v1/traces" {
			select {
			case spans <- string(body):
			default:
			}
		}
	}))
	defer collector.Close()
	port := process.Port(t)
	cmd := exec.Command(releaseBinary(t), "run", "--config", config)
	cmd.Dir = dir
	cmd.Env = process.Environment(
		"PURSER_PORT="+port, "PURSER_UPSTREAM_PORT="+process.Port(t), "PURSER_METRICS_PORT="+process.Port(t), "PURSER_KEY="+deployment,
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_BSP_SCHEDULE_DELAY=100",
	)
	p := start(t, cmd, "http://127.0.0.1:"+port)
	select {
	case got := <-spans:
		if !strings.Contains(got, "purser") {
			t.Errorf("the spans are not purser's: %q", got)
		}
	case <-time.After(time.Minute):
		t.Error("no spans reach the collector")
	}
	p.stop(t)

	var adapted struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					TrustedProxies struct{ Ranges []string } `json:"trusted_proxies"`
					Strict         int                       `json:"trusted_proxies_strict"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(run(t, runTime, nil, releaseBinary(t), "adapt", "--config", config)), &adapted); err != nil {
		t.Fatal(err)
	}
	if len(adapted.Apps.HTTP.Servers) != 3 {
		t.Errorf("there are %d servers", len(adapted.Apps.HTTP.Servers))
	}
	for name, s := range adapted.Apps.HTTP.Servers {
		if !slices.Equal(s.TrustedProxies.Ranges, []string{"10.0.0.0/8"}) || s.Strict == 0 {
			t.Errorf("%s trusts %+v", name, s)
		}
	}
}
